"""Faults of a server that answers wrongly, or refuses."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from long.table import LATE, LATE_STREAM, Expected, Scene, fault, named

from kvstore.protocol import MESSAGE_LIMIT_BYTES
from kvstore.server import Server

OR_CORE = "|Internal error from Core"
"""What grpc.aio says, in place of the server's status, where a stream ends during a write."""


class Answers(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The contract's methods, all answered in one way once `broken` is set."""

    def __init__(self, unary: Any, stream: Any) -> None:
        self._unary, self._stream = unary, stream

    def service(self, details: Any) -> Any:
        """Return the handler of a method; None for other services than the key-value service."""
        if not details.method.startswith("/kvstore.v1.KeyValueService/"):
            return None
        return self._stream if details.method.endswith("/Pipeline") else self._unary


@contextmanager
def answering(unary: Any, stream: Any) -> Iterator[str]:
    """Serve these handlers from this process; yield the address."""
    with ThreadPoolExecutor(16, thread_name_prefix="peer") as pool:
        server = grpc.server(
            pool,
            handlers=[Answers(unary, stream)],
            options=[("grpc.so_reuseport", 0), ("grpc.max_send_message_length", -1)],
        )
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(None).wait()


def answered(unary: Any, stream: Any) -> Callable[[Server], Iterator[Scene]]:
    """Return a scene with such a server; nothing more happens to it."""

    def scene(shared: Server) -> Iterator[Scene]:
        with answering(unary, stream) as address:
            yield Scene(address, options={"calls": 8, "duration_s": None})

    return scene


def _aborting(code: grpc.StatusCode) -> tuple[Any, Any]:
    def abort(request: object, context: Any) -> Any:
        context.abort(code, "the test says so")

    def abort_stream(requests: Iterator[object], context: Any) -> Iterator[bytes]:
        next(requests)
        context.abort(code, "the test says so")
        yield b""

    return (
        grpc.unary_unary_rpc_method_handler(abort),
        grpc.stream_stream_rpc_method_handler(abort_stream),
    )


for code in grpc.StatusCode:
    if code is not grpc.StatusCode.OK:
        fault(
            Expected(shows=code.name),
            Expected(
                "failed",
                shows="NO_ANSWER",
                says=f"{code.name}: the test says so{OR_CORE}",
            ),
        )(named(f"status {code.name}", answered(*_aborting(code))))


def _raises(request: object, context: object) -> bytes:
    raise ZeroDivisionError("the test says so")


def _raises_in_stream(requests: object, context: object) -> Iterator[bytes]:
    raise ZeroDivisionError("the test says so")
    yield b""


def _each(reply: bytes) -> Any:
    return grpc.stream_stream_rpc_method_handler(
        lambda requests, context: (reply for _ in requests)
    )


def _no_replies(requests: Iterator[object], context: object) -> Iterator[bytes]:
    next(requests)
    yield from ()


def _waits(request: object, context: Any) -> bytes:
    while context.is_active():
        time.sleep(0.01)
    return b""


def _waits_in_stream(requests: object, context: Any) -> Iterator[bytes]:
    _waits(requests, context)
    yield from ()


UNARY, MANY, STREAM = (
    grpc.unary_unary_rpc_method_handler,
    grpc.unary_stream_rpc_method_handler,
    grpc.stream_stream_rpc_method_handler,
)
TOO_LARGE = bytes(MESSAGE_LIMIT_BYTES + 1)
UNPARSABLE = b"\xff" * 7

for name, unary_handler, stream_handler, unary, stream in (
    (
        "an error in the servicer", UNARY(_raises), STREAM(_raises_in_stream),
        Expected(shows="UNKNOWN"),
        Expected("failed", shows="NO_ANSWER", says="UNKNOWN: Exception" + OR_CORE),
    ),
    (
        "OK without a message", MANY(lambda r, c: iter(())), STREAM(_no_replies),
        Expected(shows="INTERNAL|UNIMPLEMENTED|UNKNOWN|DEADLINE_EXCEEDED"),
        Expected("failed", shows="NO_ANSWER", says="the server closed it" + OR_CORE),
    ),
    (
        "two messages for one", MANY(lambda r, c: iter((b"", b""))), _each(b""),
        Expected(shows="INTERNAL|UNIMPLEMENTED|UNKNOWN|DEADLINE_EXCEEDED"),
        Expected("failed", shows="NO_ANSWER", says="answers no open request|statuses" + OR_CORE),
    ),
    (
        "a reply that cannot be parsed", UNARY(lambda r, c: UNPARSABLE), _each(UNPARSABLE),
        Expected(shows="INTERNAL", may="DEADLINE_EXCEEDED"),
        Expected("failed", shows="NO_ANSWER", says="INTERNAL|a reply made no sense"),
    ),
    (
        "a reply over the limit", UNARY(lambda r, c: TOO_LARGE), _each(TOO_LARGE),
        Expected(shows="RESOURCE_EXHAUSTED", may="DEADLINE_EXCEEDED"),
        Expected("failed", shows="NO_ANSWER", says="RESOURCE_EXHAUSTED" + OR_CORE),
    ),
    (
        "no reply before the deadline", UNARY(_waits), STREAM(_waits_in_stream), LATE, LATE_STREAM,
    ),
):  # fmt: skip
    fault(unary, stream)(named(name, answered(unary_handler, stream_handler)))
