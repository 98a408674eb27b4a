"""Faults of limits: of the server, its disk, the client and its clock; and Ctrl-C."""

import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import grpc
from long.table import Expected, Scene, doomed, fault

from kvstore.client import load
from kvstore.client.workload import Operations, crud
from kvstore.protocol import CREATE
from kvstore.server import Server
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

TOO_LARGE = "over gRPC's limit of 4,194,304 bytes"


@fault(Expected(may="RESOURCE_EXHAUSTED"), Expected())
def more_calls_than_the_server_accepts(shared: Server) -> Iterator[Scene]:
    with doomed(shared, max_concurrent_rpcs=2, read_delay_s=0.02) as server:
        yield Scene(server, server=server)


@fault(Expected(may="UNAVAILABLE|DEADLINE_EXCEEDED"), Expected())
def more_streams_than_the_server_accepts(shared: Server) -> Iterator[Scene]:
    with doomed(shared, max_streams=2, read_delay_s=0.02) as server:
        yield Scene(server, server=server)


@fault(Expected("complete", shows="DEADLINE_EXCEEDED"), Expected(may="NO_ANSWER"))
def too_little_time_left(shared: Server) -> Iterator[Scene]:
    with doomed(shared, time_needed_s=5.0) as server:
        yield Scene(server, server=server)


@fault(
    Expected("complete|server unresponsive", shows="DEADLINE_EXCEEDED"),
    Expected("failed", shows="NO_ANSWER", says="no reply within the deadline"),
)
def a_deadline_of_5_ms(shared: Server) -> Iterator[Scene]:
    with doomed(shared, read_delay_s=0.05, write_delay_s=0.05) as server:
        yield Scene(server, server=server, options={"deadline_s": 0.005})


@fault(
    Expected("failed", may="CANCELLED", says=TOO_LARGE),
    Expected("failed", may="NO_ANSWER", says=TOO_LARGE),
)
def a_request_over_the_limit(shared: Server) -> Iterator[Scene]:
    numbers = count()

    class OneTooLarge(Operations):
        def draw(self, *due: float) -> Any:
            operation = super().draw(*due)
            too_large = operation._replace(kind=CREATE, value=bytes(5_000_000))
            return too_large if next(numbers) == 20 else operation

    with mock.patch.object(load, "Operations", OneTooLarge):
        # A number of calls, so that the run gets to this operation on a busy machine too.
        yield Scene(shared, server=shared, options={"calls": 100, "duration_s": None})


@fault(Expected("memory ceiling", may="CANCELLED"), Expected("memory ceiling", may="NO_ANSWER"))
def a_memory_ceiling_below_what_is_used(shared: Server) -> Iterator[Scene]:
    yield Scene(shared, server=shared, options={"memory_ceiling_bytes": 10e6, "duration_s": 20})


@fault(Expected("interrupted", says="interrupted, with every call accounted for"))
def ctrl_c(shared: Server) -> Iterator[Scene]:
    interrupt = (os.getpid(), signal.SIGINT)
    yield Scene(shared, lambda: os.kill(*interrupt), shared, {"duration_s": 20})


@fault(
    Expected("interrupted", may="CANCELLED", says="with every call accounted for"),
    Expected("interrupted", may="NO_ANSWER", says="with every call accounted for"),
)
def ctrl_c_twice(shared: Server) -> Iterator[Scene]:
    def twice() -> None:
        again.start()
        os.kill(os.getpid(), signal.SIGINT)

    def in_the_run(signum: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code is load.run.__code__:
                raise KeyboardInterrupt
            frame = frame.f_back  # else the run has ended before: if no call was open

    with doomed(shared, read_delay_s=0.3, write_delay_s=0.3) as server:
        again = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        usual = signal.signal(signal.SIGINT, in_the_run)
        try:
            yield Scene(server, twice, options={"duration_s": 20, "deadline_s": 5.0})
            again.join()
        finally:
            signal.signal(signal.SIGINT, usual)


@fault(Expected("ServerNotReached", says="refused the status request .*larger max_concurrent_rpcs"))
def a_server_that_is_at_its_limit(shared: Server) -> Iterator[Scene]:
    slow = {"read_delay_s": 3.0, "max_concurrent_rpcs": 1}
    with doomed(shared, **slow) as server, grpc.insecure_channel(server.address) as channel:
        stub, request = KeyValueServiceStub(channel), pb.RetrieveRequest(key=b"any")
        stub.Delete(pb.DeleteRequest(key=b"any"), wait_for_ready=True)  # connects
        call = stub.Retrieve.future(request)
        # When the next one is refused, this one is in the server.
        while stub.Retrieve.future(request).code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
            call = stub.Retrieve.future(request)
        yield Scene(server)
        call.cancel()


# ---- the disk --------------------------------------------------------------------------------


DISK = {"read_delay_s": 0, "write_delay_s": 0}


@fault(Expected(shows="INTERNAL"), Expected(may="INTERNAL"))
def full_disk(shared: Server) -> Iterator[Scene]:
    """The server's files may not grow any more, as if the disk were full."""
    import resource

    with (
        tempfile.TemporaryDirectory() as made,
        doomed(shared, store=f"sqlite:{made}", use_asyncio=True, **DISK) as server,
    ):

        def fills() -> None:
            size = max(each.stat().st_size for each in Path(made).iterdir())
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, size))

        options = {"duration_s": 1.5, "deadline_s": 1.5}
        yield Scene(server, fills, server, options, crud(value_bytes_mean=4_000))


# ---- the clock -------------------------------------------------------------------------------


class _Stepped:
    """The module `time` after the wall clock was set; other clocks are not."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def time(self) -> float:
        return time.time() + self._seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def _steps(shared: Server, seconds: float) -> Iterator[Scene]:
    """Step the wall clock as our own code sees it: gRPC's is the machine's, which others use."""
    with contextlib.ExitStack() as patches:

        def happens() -> None:
            for name, module in list(sys.modules.items()):
                if name.startswith("kvstore.") and getattr(module, "time", None) is time:
                    stepped = mock.patch.object(module, "time", _Stepped(seconds))
                    patches.enter_context(stepped)

        yield Scene(shared, happens, shared)


@fault(Expected())
def clock_one_hour_forward(shared: Server) -> Iterator[Scene]:
    yield from _steps(shared, 3600)


@fault(Expected())
def clock_one_hour_back(shared: Server) -> Iterator[Scene]:
    yield from _steps(shared, -3600)
