"""Calls that fail: a killed server."""

import itertools
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import grpc

from kvstore.client.channel import connected, target_of
from kvstore.client.messages import Operation, create, retrieve
from kvstore.server import Server
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

DEADLINE_S: Final = 10.0
CALLERS: Final = 8


class Answer(NamedTuple):
    """The outcome of a call."""

    status: str
    """The name of its gRPC status."""
    value: bytes = b""
    """The value that a Retrieve returned."""


def answer_to(stub: Any, operation: Operation, deadline_s: float = DEADLINE_S) -> Answer:
    """Make the call, wait, and return its outcome; no error of gRPC is raised."""
    try:
        reply = operation.rpc(stub)(operation.request, timeout=deadline_s)
    except grpc.RpcError as error:
        return Answer(error.code().name)
    return Answer("OK", getattr(reply, "value", b""))


def killed_at_work(server: Server, *, answers: int) -> dict[bytes, bytes]:
    """Create keys until `answers` of them were answered OK, then kill the server at once.

    Return key and value of every create that was answered OK. A create without a reply is
    unknown: the server may have stored it or not.
    """
    acknowledged: dict[bytes, bytes] = {}
    enough = threading.Event()

    def work(stub: Any, caller: int) -> None:
        try:
            for number in itertools.count():
                operation = create(b"%d/%d" % (caller, number), b"%d" % number)
                if answer_to(stub, operation).status != "OK":
                    return
                acknowledged[operation.key] = operation.value
                if len(acknowledged) >= answers:
                    enough.set()
        finally:
            enough.set()  # a caller that ends early must not leave the wait below without end

    with connected(target_of(server)) as (channel, _), ThreadPoolExecutor(CALLERS) as pool:
        stub = KeyValueServiceStub(channel)
        running: list[Future[None]] = []
        try:
            running += [pool.submit(work, stub, caller) for caller in range(CALLERS)]
            enough.wait()
        finally:  # also after an interrupt, or the callers would create keys for ever
            server.kill()
    for caller in running:
        caller.result()
    return acknowledged


def still_there(server: Server, acknowledged: Mapping[bytes, bytes]) -> int:
    """Return how many of these keys the server holds with the value that was acknowledged."""
    with connected(target_of(server)) as (channel, _):
        stub = KeyValueServiceStub(channel)
        return sum(
            answer_to(stub, retrieve(key)).value == acknowledged[key] for key in acknowledged
        )
