"""Faults of the connection between client and server."""

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from kvstore.client import workload
from kvstore.server import Server
from proofs import http2
from proofs.faults.table import (
    BROKEN_STREAM,
    LATE,
    LATE_STREAM,
    NOT_REACHED,
    RETRIED,
    SILENT,
    SILENT_STREAM,
    Expected,
    Scene,
    fault,
    named,
)
from proofs.relay import DOWN, UP, Relay, relaying


@fault(NOT_REACHED)
def nobody_listens(shared: Server) -> Iterator[Scene]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield Scene(f"127.0.0.1:{bound.getsockname()[1]}")


def hostile(on_accept: Callable[[socket.socket], bool]) -> Callable[[Server], Iterator[Scene]]:
    """Return a scene whose address does this to every client."""

    def scene(shared: Server) -> Iterator[Scene]:
        with relaying(shared.address) as relay:
            relay.on_accept = on_accept
            yield Scene(relay.address)

    return scene


def closes(client: socket.socket) -> bool:
    client.close()
    return False


def resets(client: socket.socket) -> bool:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    return closes(client)


def sends(answer: bytes) -> Callable[[socket.socket], bool]:
    def send(client: socket.socket) -> bool:
        client.sendall(answer)
        return False

    return send


HTTP_1 = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
TOO_SOON = http2.frame(http2.GOAWAY, 0, 0, bytes(4) + b"\0\0\0\x0b")

for name, on_accept in {
    "a black hole that accepts": lambda client: False,
    "closed when accepted": closes,
    "reset when accepted": resets,
    "garbage for a greeting": sends(bytes(range(256)) * 8),
    "HTTP/1.1 for a greeting": sends(HTTP_1),
    "GOAWAY for a greeting": sends(http2.frame(http2.SETTINGS, 0, 0) + TOO_SOON),
}.items():
    fault(NOT_REACHED, short="greeting" not in name)(named(name, hostile(on_accept)))


def harmed(
    harm: Callable[[Relay], object], *, survives: bool = True, **options: Any
) -> Callable[[Server], Iterator[Scene]]:
    """Return a scene with a relay that does this once some calls were answered."""

    def scene(shared: Server) -> Iterator[Scene]:
        with relaying(shared.address) as relay:
            yield Scene(relay.address, lambda: harm(relay), shared if survives else None, options)

    return scene


def _garbage(relay: Relay) -> None:
    relay.inject(bytes(range(255, 0, -1)))  # the size of a frame of 16 MB


FLIPPED = (10, 25, 40)
"""Frames from the server in which a bit is flipped, in order of their arrival."""


def _bit_flips(relay: Relay) -> None:
    """Flip a bit in a few frames, so that a status request after the run gets an answer."""
    seen = itertools.count(1)

    def flip(direction: str, frame: bytes) -> bytes:
        if direction == UP or next(seen) not in FLIPPED:
            return frame
        return frame[:5] + bytes([frame[5] ^ 0x40]) + frame[6:]  # a bit of the stream's number

    relay.rewrite = flip


def _inject(kind: int, stream: int, payload: bytes, times: int = 1) -> Callable[[Relay], None]:
    return lambda relay: relay.inject(http2.frame(kind, 0, stream, payload) * times)


def _settings_flood(relay: Relay) -> None:
    relay.inject(http2.frame(http2.SETTINGS, 0, 0) * 2_000)
    flooded = relay.rewrite

    def without_answers(direction: str, frame: bytes) -> bytes | None:
        if direction == UP and frame[3] == http2.SETTINGS:
            return None  # the server sent none of them, and would end the connection
        return flooded(direction, frame)

    relay.rewrite = without_answers


def _reset_streams(code: int) -> Callable[[Relay], None]:
    """Let the server's DATA frames end their stream with this error instead, a few of them."""

    def harm(relay: Relay) -> None:
        left = iter(range(3))

        def instead(direction: str, frame: bytes) -> bytes:
            if direction == DOWN and frame[3] == http2.DATA and next(left, None) is not None:
                stream = int.from_bytes(frame[5:9], "big")
                return http2.frame(http2.RST_STREAM, 0, stream, code.to_bytes(4, "big"))
            return frame

        relay.rewrite = instead

    return harm


def _half_a_frame(relay: Relay) -> None:
    """Let a connection end in the middle of a frame, when all its calls wait for their replies."""
    connections: list[threading.Thread] = []  # of the frame: each direction has a thread

    def half(direction: str, frame: bytes) -> bytes | None:
        here = threading.current_thread()
        if direction == DOWN and len(frame) > 12 and not connections:
            connections.append(here)
            threading.Timer(0.1, relay.cut).start()
            return frame[: len(frame) // 2]
        return None if here in connections else frame

    relay.rewrite = half


def _reset_and_leave(relay: Relay) -> None:
    relay.leave()
    relay.reset()


def _slow(bytes_per_s: float) -> Callable[[Relay], None]:
    def harm(relay: Relay) -> None:
        relay.bytes_per_s = bytes_per_s

    return harm


def _late(relay: Relay) -> None:
    def wait(direction: str, frame: bytes) -> bytes:
        if direction == DOWN and frame[3] == http2.HEADERS:
            time.sleep(0.05)
        return frame

    relay.rewrite = wait


def _no_windows(relay: Relay) -> None:
    relay.rewrite = lambda direction, frame: (
        None if direction == DOWN and frame[3] == http2.WINDOW_UPDATE else frame
    )


LONG = (
    "black hole for requests",
    "GOAWAY for too many pings",
    "RST_STREAM: refused",
    "RST_STREAM: cancelled",
    "a flood of pings",
    "a link of 50 ms",
)
"""Left out of the short form: another fault is much the same."""
WRITE_FAILED = "INTERNAL: Internal error from Core"
"""The status that grpc.aio gives a stream of which a write fails before its own status is read."""
MAX_STREAM = (2**31 - 1).to_bytes(4, "big")
FINE = Expected()
MAY_BREAK = Expected("complete|failed|server unresponsive", may="NO_ANSWER")
ANY_BREAK = Expected(may="UNAVAILABLE|INTERNAL|UNKNOWN|CANCELLED|DEADLINE_EXCEEDED")

for name, harm, unary, stream in (
    ("black hole", lambda r: r.black_hole(UP, DOWN), SILENT, SILENT_STREAM),
    ("black hole for requests", lambda r: r.black_hole(UP), SILENT, SILENT_STREAM),
    ("black hole for replies", lambda r: r.black_hole(DOWN), SILENT, SILENT_STREAM),
    ("RST of the connection", lambda r: r.reset(), ANY_BREAK, BROKEN_STREAM),
    ("FIN of the connection", lambda r: r.cut(), ANY_BREAK, BROKEN_STREAM),
    ("a frame cut in the middle", _half_a_frame, RETRIED, BROKEN_STREAM),
    ("garbage bytes", _garbage, RETRIED, BROKEN_STREAM),
    ("flipped bits", _bit_flips, ANY_BREAK, MAY_BREAK),
    ("GOAWAY", _inject(http2.GOAWAY, 0, MAX_STREAM + bytes(4)), ANY_BREAK, FINE),
    (
        "GOAWAY for too many pings",
        _inject(http2.GOAWAY, 0, MAX_STREAM + b"\0\0\0\x0btoo_many_pings"),
        ANY_BREAK,
        FINE,
    ),
    ("a flood of pings", _inject(http2.PING, 0, bytes(8), 2_000), ANY_BREAK, MAY_BREAK),
    ("a flood of settings", _settings_flood, ANY_BREAK, MAY_BREAK),
    (
        "RST_STREAM: internal error",
        _reset_streams(2),
        Expected(shows="INTERNAL"),
        Expected("failed", shows="NO_ANSWER", says="INTERNAL"),
    ),
    (
        "RST_STREAM: refused",
        _reset_streams(7),
        Expected(may="UNAVAILABLE"),
        Expected(
            "failed|server unresponsive",
            shows="NO_ANSWER",
            says=f"UNAVAILABLE|stopped answering|{WRITE_FAILED}",
        ),
    ),
    (
        "RST_STREAM: cancelled",
        _reset_streams(8),
        Expected(shows="CANCELLED"),
        Expected(
            "failed|server unresponsive",
            shows="NO_ANSWER",
            says=f"CANCELLED|stopped answering|{WRITE_FAILED}",
        ),
    ),
    ("a link of 50 ms", _late, ANY_BREAK, ANY_BREAK),
    ("a slow reader", _slow(20), LATE, LATE_STREAM),
):
    fault(unary, stream, short=name not in LONG)(named(name, harmed(harm)))


@fault(
    Expected(
        "server gone",
        shows="UNAVAILABLE",
        may="CANCELLED|DEADLINE_EXCEEDED",
        says="no server answers",
    ),
    Expected(
        "server gone|server unresponsive",  # the process behind the relay is still there
        shows="NO_ANSWER",
        says="no server answers at .* any more|stopped answering",
    ),
)
def rst_and_nobody_listens_any_more(shared: Server) -> Iterator[Scene]:
    with relaying(shared.address) as relay:
        yield Scene(relay.address, lambda: _reset_and_leave(relay), None, {"duration_s": 20})


@fault(LATE, LATE_STREAM)
def a_receiver_that_opens_no_window(shared: Server) -> Iterator[Scene]:
    """Without window updates, the client may send 64 KiB and no more."""
    large = workload.crud(value_bytes_mean=700_000, sizes="fixed")
    with relaying(shared.address) as relay:
        yield Scene(relay.address, lambda: _no_windows(relay), shared, {"duration_s": 1.0}, large)
