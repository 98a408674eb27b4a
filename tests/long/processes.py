"""Faults of the server's process, its limits, its disk; and Ctrl-C."""

import contextlib
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
from long.table import (
    GONE,
    SILENT,
    SILENT_STREAM,
    Expected,
    Scene,
    doomed,
    fault,
)

from kvstore.client.workload import crud
from kvstore.server import Server
from kvstore.server.__main__ import GRACE_S
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub


@fault(GONE)
def kill_9(shared: Server) -> Iterator[Scene]:
    with doomed(shared) as server:
        yield Scene(server, lambda: os.kill(server.pid, signal.SIGKILL), options={"duration_s": 20})


@fault(GONE)
def sigterm(shared: Server) -> Iterator[Scene]:
    with doomed(shared) as server:
        ended = (server.pid, signal.SIGTERM)
        options = {"duration_s": 20}
        yield Scene(server, lambda: os.kill(*ended), options=options, grace_s=GRACE_S)


@fault(SILENT, SILENT_STREAM)
def sigstop(shared: Server) -> Iterator[Scene]:
    with doomed(shared) as server:
        yield Scene(server, lambda: os.kill(server.pid, signal.SIGSTOP))


@fault(
    Expected(shows="DEADLINE_EXCEEDED"),
    Expected("failed", shows="NO_ANSWER", says="no reply within the deadline of 0.4 s"),
)
def sigstop_for_a_second(shared: Server) -> Iterator[Scene]:
    def stalls() -> None:
        os.kill(server.pid, signal.SIGSTOP)
        resumed.start()

    with doomed(shared) as server:
        resumed = threading.Timer(1.0, os.kill, (server.pid, signal.SIGCONT))
        yield Scene(server, stalls, server, {"duration_s": 1.5})
        resumed.join()


@fault(Expected("ServerNotReached", says="no server answers at .*Is it running"))
def killed_before_the_first_call(shared: Server) -> Iterator[Scene]:
    with doomed(shared) as server:
        server.kill()
        yield Scene(server.address)


@fault(
    Expected("complete|server gone", shows="UNAVAILABLE|CANCELLED", may="DEADLINE_EXCEEDED"),
    Expected("server gone|failed", shows="NO_ANSWER", says="no server answers|the stream broke"),
)
def restart_on_the_same_port(shared: Server) -> Iterator[Scene]:
    with doomed(shared) as first, contextlib.ExitStack() as second:
        port = int(first.address.rpartition(":")[2])

        def restarts() -> None:
            first.kill()
            second.enter_context(doomed(shared, port=port))

        restarting = threading.Thread(target=restarts)
        yield Scene(first.address, restarting.start, options={"duration_s": 2.0})
        restarting.join()


@fault(Expected("WrongServer", says="another program has taken the port. Start the server again"))
def another_server_on_its_port(shared: Server) -> Iterator[Scene]:
    with doomed(shared) as first:
        port = int(first.address.rpartition(":")[2])
        first.kill()
        with doomed(shared, port=port):
            yield Scene(first)


# ---- limits ----------------------------------------------------------------------------------


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


@fault(Expected("memory ceiling", may="CANCELLED"), Expected("memory ceiling", may="NO_ANSWER"))
def a_memory_ceiling_below_what_is_used(shared: Server) -> Iterator[Scene]:
    yield Scene(shared, server=shared, options={"memory_ceiling_bytes": 10e6, "duration_s": 20})


@fault(Expected("interrupted", says="interrupted, with every call accounted for"))
def ctrl_c(shared: Server) -> Iterator[Scene]:
    interrupt = (os.getpid(), signal.SIGINT)
    yield Scene(shared, lambda: os.kill(*interrupt), shared, {"duration_s": 20})


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
