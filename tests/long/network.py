"""Faults of the connection between client and server."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

from long.relay import DOWN, UP, Relay, relaying
from long.table import (
    BROKEN_STREAM,
    NOT_REACHED,
    SILENT,
    SILENT_STREAM,
    Expected,
    Scene,
    fault,
    named,
)

from kvstore.server import Server


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

for name, on_accept in {
    "a black hole that accepts": lambda client: False,
    "closed when accepted": closes,
    "reset when accepted": resets,
    "garbage for a greeting": sends(bytes(range(256)) * 8),
    "HTTP/1.1 for a greeting": sends(HTTP_1),
}.items():
    fault(NOT_REACHED)(named(name, hostile(on_accept)))


def harmed(
    harm: Callable[[Relay], object], *, survives: bool = True, **options: Any
) -> Callable[[Server], Iterator[Scene]]:
    """Return a scene with a relay that does this once some calls were answered."""

    def scene(shared: Server) -> Iterator[Scene]:
        with relaying(shared.address) as relay:
            yield Scene(relay.address, lambda: harm(relay), shared if survives else None, options)

    return scene


def _reset_and_leave(relay: Relay) -> None:
    relay.leave()
    relay.reset()


def _late(relay: Relay) -> None:
    relay.latency_s = 0.05


ANY_BREAK = Expected(may="UNAVAILABLE|INTERNAL|UNKNOWN|CANCELLED|DEADLINE_EXCEEDED")

for name, harm, unary, stream in (
    ("black hole", lambda r: r.black_hole(UP, DOWN), SILENT, SILENT_STREAM),
    ("black hole for requests", lambda r: r.black_hole(UP), SILENT, SILENT_STREAM),
    ("black hole for replies", lambda r: r.black_hole(DOWN), SILENT, SILENT_STREAM),
    ("RST of the connection", lambda r: r.reset(), ANY_BREAK, BROKEN_STREAM),
    ("FIN of the connection", lambda r: r.cut(), ANY_BREAK, BROKEN_STREAM),
    ("a link of 50 ms", _late, ANY_BREAK, ANY_BREAK),
):
    fault(unary, stream)(named(name, harmed(harm)))


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
