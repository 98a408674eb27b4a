"""A server that does what a script says, and logs every call: clients are judged on it.

It runs in this process, because nothing is measured on it.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import grpc

from kvstore.client.measured import measured_channel
from kvstore.course.exercises.base import AnswerFailed
from kvstore.measure.run import Run
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceServicer,
    KeyValueServiceStub,
    add_KeyValueServiceServicer_to_server,
)

STALL_S = 30.0
"""A stalled call lasts so long, unless the trial ends before."""


class Served(NamedTuple):
    """A call as the server saw it."""

    method: str
    key: bytes
    deadline_s: float
    """Seconds that the call had left when it arrived; infinite where it had no deadline."""


@dataclass(frozen=True)
class Script:
    """What the server does."""

    values: Mapping[bytes, bytes] = field(default_factory=dict)
    """The keys that have a value before the first call."""
    delay_s: float = 0.0
    failures: Mapping[bytes, grpc.StatusCode] = field(default_factory=dict)
    """Calls for these keys end with this status."""
    stalled: frozenset[bytes] = frozenset()
    """Calls for these keys are never answered."""
    stored: Callable[[bytes], bytes] = bytes
    """What the server stores of a value that a Create sends."""


class ScriptedStore(KeyValueServiceServicer):
    """The service that follows a script."""

    def __init__(self, script: Script) -> None:
        self.served: list[Served] = []
        """Every call, in the order of arrival: the server's own count."""
        self.over = threading.Event()
        self._script = script
        self._values = dict(script.values)
        self._lock = threading.Lock()

    def Create(self, request: pb.CreateRequest, context: grpc.ServicerContext) -> pb.CreateResponse:
        """Store a value under a new key."""
        self._arrive("Create", request.key, context)
        with self._lock:
            if request.key in self._values:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, "this key has a value")
            self._values[request.key] = self._script.stored(request.value)
        return pb.CreateResponse()

    def Retrieve(
        self, request: pb.RetrieveRequest, context: grpc.ServicerContext
    ) -> pb.RetrieveResponse:
        """Send the value of a key."""
        self._arrive("Retrieve", request.key, context)
        with self._lock:
            if request.key not in self._values:
                context.abort(grpc.StatusCode.NOT_FOUND, "this key has no value")
            return pb.RetrieveResponse(value=self._values[request.key])

    def _arrive(self, method: str, key: bytes, context: grpc.ServicerContext) -> None:
        left_s = context.time_remaining()
        with self._lock:
            self.served.append(Served(method, key, float("inf") if left_s is None else left_s))
        if key in self._script.stalled:
            self.over.wait(STALL_S)
        time.sleep(self._script.delay_s)
        if key in self._script.failures:
            context.abort(self._script.failures[key], "the script says so")


@dataclass(frozen=True)
class ClientTrial:
    """What a client did with a scripted server."""

    returned: Any
    """What the learner's function returned; None where it raised."""
    failure: AnswerFailed | None
    """The error that left the learner's function."""
    run: Run
    """The calls as the channel recorded them."""
    served: tuple[Served, ...]
    """The calls as the server counted them."""

    @property
    def status(self) -> grpc.StatusCode | None:
        """The status of the gRPC error that left the learner's function; None without one."""
        error = self.failure.__cause__ if self.failure else None
        return error.code() if isinstance(error, grpc.RpcError) else None

    @property
    def overlapping(self) -> int:
        """Calls that were sent before all earlier calls had ended."""
        calls = self.run.calls
        early = calls["sent_s"].to_numpy()[1:] < calls["done_s"].cummax().to_numpy()[:-1]
        return int(early.sum())


def try_client(script: Script, client: Callable[[KeyValueServiceStub], Any]) -> ClientTrial:
    """Run the client against a server that follows the script, and return what both saw."""
    returned, failure = None, None
    with _serving(script) as (store, address):
        with measured_channel(address, station_times=False) as channel:
            try:
                returned = client(KeyValueServiceStub(channel))
            except AnswerFailed as error:
                failure = error
            store.over.set()
        return ClientTrial(returned, failure, channel.run(), tuple(store.served))


@contextmanager
def _serving(script: Script) -> Iterator[tuple[ScriptedStore, str]]:
    store = ScriptedStore(script)
    with ThreadPoolExecutor(8) as pool:
        server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
        add_KeyValueServiceServicer_to_server(store, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield store, f"127.0.0.1:{port}"
        finally:
            store.over.set()
            server.stop(0).wait()
