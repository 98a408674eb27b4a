"""Peers that begin and do not go on: each is ended or limited, and others are served meanwhile."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator

import psutil

from kvstore.server import Server, serving
from kvstore.v1 import kvstore_pb2 as pb
from proofs import http2
from proofs.case import Case, Figure
from proofs.malformed import SERVICE, probe

PEERS, PEERS_SHORT = 500, 40
THREADS, THREADS_SHORT = 128, 30
"""Of the server: fewer than the peers, each of which may begin a call."""
TAKEN_IN_S = 0.5
"""In which a server has read what the peers sent."""
PROBE_S = 20.0
NEVER_READS_BYTES = 64 * 1024 * 1024
"""Memory that a client may cost that sends and never reads."""
SENDS_S = 3.0
BACK_S = 20.0

Peer = Callable[[socket.socket], object]
HEAD = http2.header_block(http2.grpc_headers(SERVICE + "Create"))
BEGUN = http2.opening() + http2.frame(http2.HEADERS, http2.END_HEADERS, 1, HEAD)


def silent(peer: socket.socket) -> None:
    """Connect, and send nothing."""


def half_a_greeting(peer: socket.socket) -> None:
    peer.sendall(http2.PREFACE[:10])


def greeting_only(peer: socket.socket) -> None:
    peer.sendall(http2.opening())


def half_a_header(peer: socket.socket) -> None:
    peer.sendall(http2.opening() + http2.frame(http2.HEADERS, 0, 1, HEAD[:20]))


def half_a_body(peer: socket.socket) -> None:
    peer.sendall(BEGUN + http2.frame(http2.DATA, 0, 1, http2.message(b"half", length=1_000_000)))


def half_a_frame(peer: socket.socket) -> None:
    peer.sendall(BEGUN + http2.frame(http2.DATA, 0, 1, http2.message(bytes(100)))[:50])


def one_byte_at_a_time(peer: socket.socket) -> None:
    for byte in http2.opening()[:20]:
        peer.sendall(bytes([byte]))


def reset(peer: socket.socket) -> None:
    peer.sendall(BEGUN)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


KINDS: tuple[Peer, ...] = (
    silent, half_a_greeting, greeting_only, half_a_header, half_a_body, half_a_frame,
    one_byte_at_a_time, reset,
)  # fmt: skip


def prove(short: bool) -> Iterator[Case | Figure]:
    """Yield one case for each kind of peer and stack: others are served, and nothing is kept."""
    slowest_s = 0.0
    cost: list[int] = []
    for use_asyncio in (False, True):
        stack = "asyncio" if use_asyncio else "threads"
        threads = {} if use_asyncio else {"threads": THREADS_SHORT if short else THREADS}
        with serving(read_delay_s=0, write_delay_s=0, use_asyncio=use_asyncio, **threads) as server:
            probe(server.address, PROBE_S)
            for kind in KINDS:
                wrong, took_s = _many(server, kind, PEERS_SHORT if short else PEERS)
                slowest_s = max(slowest_s, took_s)
                yield Case(f"{kind.__name__.replace('_', ' ')}, {stack}", wrong)
            grown = never_reads(server)
            cost.append(grown)
            much = "" if grown <= NEVER_READS_BYTES else f"it cost {grown / 1e6:.0f} MB"
            yield Case(f"never reads, {stack}", much)
    yield Figure("slowest probe", f"{slowest_s:.2f} s")
    yield Figure("a client that never reads", f"{max(cost) / 1e6:.0f} MB at most")


def _many(server: Server, kind: Peer, count: int) -> tuple[str, float]:
    """Open so many peers; return what is wrong, and the seconds in which a probe was answered."""
    process = psutil.Process(server.pid)
    before = process.num_fds()
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            peer = stack.enter_context(http2.connection(server.address, 10.0))
            with contextlib.suppress(OSError):
                kind(peer)
        time.sleep(TAKEN_IN_S)
        took_s = probe(server.address, PROBE_S)
    end_s = time.perf_counter() + BACK_S
    while (more := process.num_fds() - before) > 2 and time.perf_counter() < end_s:
        time.sleep(0.02)
    if took_s is None:
        return f"with {count} such peers, a probe had no answer within {PROBE_S:g} s", PROBE_S
    return (f"{more} sockets are left" if more > 2 else ""), took_s


def never_reads(server: Server) -> int:
    """Send requests on a stream without reading replies; return the server's growth in bytes."""
    process = psutil.Process(server.pid)
    before = process.memory_info().rss
    key = b"never reads"
    with http2.connection(server.address, 10.0) as peer:
        # Large windows: the server may send some megabytes that are never read.
        head = http2.header_block(http2.grpc_headers(SERVICE + "Pipeline"))
        peer.sendall(http2.opening() + http2.frame(http2.HEADERS, http2.END_HEADERS, 1, head))
        writes = pb.PipelineRequest(id=0, kinds=b"\1", keys=[key], values=[bytes(60_000)])
        reads = pb.PipelineRequest(id=1, kinds=b"\2" * 10, keys=[key] * 10)
        peer.settimeout(0.5)
        most, end_s = before, time.perf_counter() + SENDS_S
        with contextlib.suppress(OSError):
            first = http2.message(writes.SerializeToString())
            for at in range(0, len(first), 16_000):
                peer.sendall(http2.frame(http2.DATA, 0, 1, first[at : at + 16_000]))
            each = http2.frame(http2.DATA, 0, 1, http2.message(reads.SerializeToString()))
            while time.perf_counter() < end_s:
                peer.sendall(each * 50)
                most = max(most, process.memory_info().rss)
        most = max(most, process.memory_info().rss)
    return most - before
