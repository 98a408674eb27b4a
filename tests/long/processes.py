"""Faults of the server's process."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

from long.table import (
    GONE,
    SILENT,
    SILENT_STREAM,
    Expected,
    Scene,
    doomed,
    fault,
)

from kvstore.server import Server
from kvstore.server.__main__ import GRACE_S


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
