"""Malformed input: frames, gRPC messages and protobuf, changed at random; and a flood.

A server answers a probe throughout. Afterwards its memory and its file descriptors are as before.
"""

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import psutil

from kvstore.server import Server, serving
from kvstore.v1 import kvstore_pb2 as pb
from proofs import http2
from proofs.case import Case, Figure
from proofs.flood import BACK_S, GROWTH_BYTES, flooded

SERVICE = "/kvstore.v1.KeyValueService/"
METHODS = ("Create", "Retrieve", "Update", "Delete", "Pipeline", "Unknown")
BODIES = (
    pb.CreateRequest(key=b"malformed", value=b"value" * 20).SerializeToString(),
    pb.RetrieveRequest(key=b"malformed").SerializeToString(),
    pb.PipelineRequest(id=7, kinds=b"\1\2\3", keys=[b"a", b"b", b"c"]).SerializeToString(),
)
IN_ONE = 50
"""Cases that share a connection, unless one of them ends it."""
CONNECTIONS, CONNECTIONS_SHORT = 12_000, 60
"""On each stack; the long form sends more than a million malformed calls."""
AT_ONCE = 4
"""Connections at a time: about 2,000 malformed calls a second. With twice as many the load alone
brings the probes near 100 ms."""
PROBE = pb.DeleteRequest(key=b"probe").SerializeToString()

Mutation = Callable[[random.Random, int], bytes]
"""A function of a source of chance and a stream's number: the bytes to send."""


def prove(short: bool) -> Iterator[Case | Figure]:
    """Yield one case for each connection of malformed calls, and for each flood, on both stacks."""
    connections = CONNECTIONS_SHORT if short else CONNECTIONS
    sent = 0
    for use_asyncio in (False, True):
        stack, probes_s = "asyncio" if use_asyncio else "threads", list[float]()
        with serving(read_delay_s=0, write_delay_s=0, use_asyncio=use_asyncio) as server:
            first = connections // 10  # by then all threads of the pool have started
            sent += yield from _connections(server, stack, range(first))
            with watched(server, probes_s) as wrong:
                sent += yield from _connections(server, stack, range(first, connections))
            yield Case(f"{stack}, afterwards", "; ".join(wrong))
        if not short:
            yield from flooded(stack)
        for share in (0.5, 0.99) if probes_s else ():
            probe_s = sorted(probes_s)[int(share * len(probes_s))]
            yield Figure(f"{stack}: probe p{100 * share:g}", f"{1e3 * probe_s:.1f} ms")
    yield Figure("malformed calls", sent)


def _connections(server: Server, stack: str, numbers: Sequence[int]) -> Generator[Case, None, int]:
    """Yield a case for each of these seeds, until the server has ended; return the calls sent."""

    def one(number: int) -> int | None:
        try:
            return _connection(server.address, random.Random(f"{stack} {number}"))
        except OSError:
            return None

    total = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for number, sent in zip(numbers, pool.map(one, numbers), strict=True):
            total += sent or 0
            wrong = "" if server.alive() else f"the server ended: {server.child.error_text()}"
            if sent is None and not wrong:
                wrong = "a connection was not taken"
            yield Case(f"{stack}, seed {number}", wrong)
            if wrong:
                pool.shutdown(wait=False, cancel_futures=True)
                break
    return total


@contextmanager
def watched(server: Server, latencies_s: list[float]) -> Iterator[list[str]]:
    """Probe the server while the block lasts; say if it did not answer, or kept what it took."""
    wrong: list[str] = []
    process, stop = psutil.Process(server.pid), threading.Event()
    assert probe(server.address, 10.0) is not None  # what the first call takes is not a growth
    files, resident = process.num_fds(), process.memory_info().rss

    def probes() -> None:
        with grpc.insecure_channel(server.address) as channel:
            while not stop.wait(0.02):
                took_s = _probe(channel, BACK_S)
                if took_s is None:
                    wrong.append(f"a probe was not answered within {BACK_S:g} s")
                else:
                    latencies_s.append(took_s)

    prober = threading.Thread(target=probes)
    prober.start()
    try:
        yield wrong
    finally:
        stop.set()
        prober.join()
    end_s = time.perf_counter() + BACK_S
    while time.perf_counter() < end_s:
        more, grown = process.num_fds() - files, process.memory_info().rss - resident
        if more <= 2 and grown <= GROWTH_BYTES:
            return
        time.sleep(0.1)
    wrong.append(
        f"after {BACK_S:g} s it has {more} more files and {grown / 1e6:.0f} MB more memory"
    )


def probe(address: str, timeout_s: float) -> float | None:
    """Return the seconds until a new connection was answered; None if it was not."""
    with grpc.insecure_channel(address) as channel:
        return _probe(channel, timeout_s)


def _probe(channel: grpc.Channel, timeout_s: float) -> float | None:
    """Return the seconds until a call was answered; None if it was not."""
    began_s = time.perf_counter()
    try:
        channel.unary_unary(f"{SERVICE}Delete")(PROBE, timeout=timeout_s, wait_for_ready=True)
    except grpc.RpcError:
        return None
    return time.perf_counter() - began_s


# ---- the mutations ---------------------------------------------------------------------------


def _path(chance: random.Random) -> str:
    return SERVICE + chance.choice(METHODS)


def _flipped(chance: random.Random, raw: bytes) -> bytes:
    """Return the bytes with a few of them changed, cut out or added."""
    changed = bytearray(raw)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        which = chance.random()
        if which < 0.5 and at < len(changed):
            changed[at] = chance.randrange(256)
        elif which < 0.75:
            del changed[at : at + chance.randint(1, 8)]
        else:
            changed[at:at] = chance.randbytes(chance.randint(1, 8))
    return bytes(changed)


def protobuf(chance: random.Random, stream: int) -> bytes:
    return http2.call(stream, _path(chance), _flipped(chance, chance.choice(BODIES)))


def framing(chance: random.Random, stream: int) -> bytes:
    body = chance.choice(BODIES)
    length = chance.choice([0, 1, len(body) - 1, len(body) + 1, 2**31, 2**32 - 1])
    prefixed = http2.message(body, compressed=chance.choice([0, 0, 1, 2, 255]), length=length)
    head = http2.header_block(http2.grpc_headers(_path(chance)))
    return http2.frame(http2.HEADERS, http2.END_HEADERS, stream, head) + http2.frame(
        http2.DATA, chance.choice([0, http2.END_STREAM]), stream, prefixed
    )


def headers(chance: random.Random, stream: int) -> bytes:
    fields = http2.grpc_headers(_path(chance), (b"x" * chance.randint(1, 60), chance.randbytes(30)))
    at = chance.randrange(len(fields))
    name, value = fields[at]
    fields[at] = (_flipped(chance, name), value) if chance.random() < 0.3 else (
        name, _flipped(chance, value)
    )  # fmt: skip
    chance.shuffle(fields)
    return http2.frame(http2.HEADERS, 0x5, stream, http2.header_block(fields))


def header_block(chance: random.Random, stream: int) -> bytes:
    block = _flipped(chance, http2.header_block(http2.grpc_headers(_path(chance))))
    return http2.frame(http2.HEADERS, 0x5, stream, block)


def frames(chance: random.Random, stream: int) -> bytes:
    kind = chance.randrange(12)
    flags, at = chance.randrange(256), chance.choice([0, stream, stream - 2, 2, 2**31 - 1])
    return http2.frame(kind, flags, max(0, at), chance.randbytes(chance.choice([0, 4, 5, 8, 40])))


def whole(chance: random.Random, stream: int) -> bytes:
    return _flipped(chance, http2.call(stream, _path(chance), chance.choice(BODIES)))


def cancelled(chance: random.Random, stream: int) -> bytes:
    return http2.call(stream, _path(chance), chance.choice(BODIES)) + http2.frame(
        http2.RST_STREAM, 0, stream, chance.choice([b"\0\0\0\x08", chance.randbytes(4)])
    )


def large_metadata(chance: random.Random, stream: int) -> bytes:
    head = http2.grpc_headers(_path(chance), (b"much", b"m" * chance.choice([7_000, 12_000])))
    return http2.frame(http2.HEADERS, 0x5, stream, http2.header_block(head))


GENTLE = (protobuf, framing, headers, cancelled, large_metadata)
"""A server answers them and keeps the connection."""
HARSH = (header_block, frames, whole)
"""Most of them end the connection: what is sent on it after them is not read."""
MUTATIONS: tuple[Mutation, ...] = (*GENTLE, *HARSH)


def _connection(address: str, chance: random.Random) -> int:
    """Open connections until `IN_ONE` malformed calls were sent, and return how many were.

    The server may close any connection, and each counts as one call more to send: a server that
    refuses every connection would not end the loop.
    """
    sent = opened = 0
    mutations = GENTLE if chance.random() < 0.5 else MUTATIONS
    while sent + opened < IN_ONE:
        with http2.connection(address, 10.0) as peer, contextlib.suppress(OSError):
            opened += 1
            head = http2.opening() if chance.random() < 0.95 else _flipped(chance, http2.opening())
            peer.sendall(head)
            for stream in range(1, 200, 2):
                mutation = chance.choice(mutations)
                peer.sendall(mutation(chance, stream))
                sent += 1
                ends = mutation in HARSH or head != http2.opening()
                if sent + opened >= IN_ONE or ((ends or sent % 10 == 0) and _closed(peer, ends)):
                    break
            if chance.random() < 0.5:
                peer.shutdown(socket.SHUT_WR)
            _closed(peer, chance.random() < 0.5)
    return sent


def _closed(peer: socket.socket, patient: bool) -> bool:
    """Read what the server answers, for a moment; return whether it closed the connection."""
    peer.settimeout(0.02 if patient else 0.001)
    try:
        while peer.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    return True
