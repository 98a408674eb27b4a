"""A flood of malformed and cancelled calls, beside the same flood of a stock server.

Strangers reach a server by TLS only, so both have TLS. The flood carries our server's token, as one
of a client that has it and is broken: without the token, each call is refused before its message is
read.
"""

import contextlib
import select
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import psutil

from kvstore.client.channel import Target, Tls, target_of
from kvstore.credentials import HEADER, SCHEME
from kvstore.server import serving
from kvstore.v1 import kvstore_pb2 as pb
from proofs import http2
from proofs.case import Case, Figure
from proofs.stock_greeter import METHOD, greeter
from tools import certificate

CALLS, CONNECTIONS, IN_ONE_WRITE = 38_000, 4, 100
AT_MOST_S = 60.0
A_PROBE_S = 0.5
"""What separates two servers that answer at once: the time of a new connection, and chance."""
BACK_S = 30.0
GROWTH_BYTES = 96 * 1024 * 1024
"""Memory that a server may keep: its allocator's, and what Python does not give back."""
OURS = "/kvstore.v1.KeyValueService/Delete"
PROBE = pb.DeleteRequest(key=b"probe").SerializeToString()
BODY = pb.CreateRequest(key=b"flood", value=b"value" * 20).SerializeToString()


def flooded(stack: str) -> Iterator[Case | Figure]:
    """Yield whether the server answers after a flood, and how soon, and gives the memory back."""
    with tempfile.TemporaryDirectory() as made:
        folder = str(Path(made, "tls"))
        with contextlib.redirect_stdout(None):
            certificate.main([folder])
        with serving(
            read_delay_s=0, write_delay_s=0, use_asyncio=stack == "asyncio", tls=folder
        ) as server:
            process = psutil.Process(server.pid)
            before = process.memory_info().rss
            back_s = served_again(target_of(server), OURS)
            with greeter(stack, folder) as stock:
                stock_s = served_again(Target(stock, tls=Tls.of(folder)), METHOD)
            end_s = time.perf_counter() + BACK_S
            while process.memory_info().rss - before > GROWTH_BYTES and time.perf_counter() < end_s:
                time.sleep(0.2)
            grown = process.memory_info().rss - before
    late = "" if back_s <= stock_s + A_PROBE_S else f"{back_s:.1f} s; a stock server: {stock_s:.1f}"
    yield Case(f"{stack}, served again after a flood as soon as a stock server", late)
    kept = "" if grown <= GROWTH_BYTES else f"{grown / 1e6:.0f} MB more memory"
    yield Case(f"{stack}, memory after a flood", kept)
    yield Figure(f"{stack}: served again after a flood", f"{back_s:.2f} s")
    yield Figure(f"{stack}: a stock server", f"{stock_s:.2f} s")
    yield Figure(f"{stack}: memory kept", f"{grown / 1e6:.0f} MB")


def served_again(target: Target, method: str) -> float:
    """Return the seconds from the end of a flood until a call is answered; at most `AT_MOST_S`."""
    _flood(target, method)
    began_s = time.perf_counter()
    while time.perf_counter() - began_s < AT_MOST_S:
        with contextlib.suppress(grpc.RpcError), target.channel() as channel:
            channel.unary_unary(method)(PROBE, timeout=1.0, wait_for_ready=True)
            break
    return time.perf_counter() - began_s


def _flood(target: Target, method: str) -> None:
    """Send the calls as fast as the connections take them. Raises if one was ended meanwhile."""
    taken = list[int]()
    tls = target.tls
    assert tls is not None
    assert tls.ca is not None
    token = (HEADER.encode(), f"{SCHEME}{tls.token}".encode())
    block = http2.header_block(http2.grpc_headers(method, token))
    context = ssl.create_default_context(cadata=tls.ca.decode())
    context.set_alpn_protocols(["h2"])

    def one() -> None:
        with (
            contextlib.suppress(OSError),
            http2.connection(target.address, 30.0) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as peer,
        ):
            peer.setblocking(False)
            _send(peer, http2.opening())
            for first in range(0, CALLS // CONNECTIONS, IN_ONE_WRITE):
                numbers = range(first, first + IN_ONE_WRITE)
                if not _send(peer, b"".join(_wrong(block, 2 * each + 1) for each in numbers)):
                    return
            taken.append(CALLS // CONNECTIONS)

    threads = [threading.Thread(target=one) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if sum(taken) != CALLS:
        raise RuntimeError(f"the server ended a connection: it took {sum(taken):,} calls")


def _send(peer: ssl.SSLSocket, data: bytes) -> bool:
    """Send all of it, and read what comes back; return whether the connection is still open."""
    rest = memoryview(data)
    while rest and _drained(peer):
        try:
            rest = rest[peer.send(rest) :]
        except ssl.SSLWantWriteError:
            select.select([peer], [peer], [], 1.0)
    return not rest


def _drained(peer: ssl.SSLSocket) -> bool:
    """Read what has arrived; return whether the connection is still open."""
    try:
        while peer.recv(1 << 16):
            pass
    except ssl.SSLWantReadError:
        return True
    return False


def _wrong(block: bytes, stream: int) -> bytes:
    head = http2.frame(http2.HEADERS, http2.END_HEADERS, stream, block)
    if stream % 4 == 1:
        return head + http2.frame(http2.DATA, http2.END_STREAM, stream, http2.message(b"\xff" * 3))
    sent = http2.frame(http2.DATA, 0, stream, http2.message(BODY))
    return head + sent + http2.frame(http2.RST_STREAM, 0, stream, b"\0\0\0\x08")
