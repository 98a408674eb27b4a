"""Other clients (ghz, h2load and the like) against our server, if they are installed."""

import psutil

from benchmarks.results import Round
from kvstore.course.external_clients import PROGRAMS, path_of
from kvstore.server import Server

CALLS_PER_S = {1: 1_500, 100: 8_000}
"""Calls per second to assume, by the number in flight: the tools take a count of calls."""
END_S = 120.0
"""Seconds after which a tool that is much slower than assumed is stopped."""


def installed() -> list[str]:
    """Return the names of the installed tools."""
    return [name for name in PROGRAMS if path_of(name)]


def tool(name: str, server: Server, in_flight: int, seconds: float) -> Round:
    """Retrieve one small value repeatedly on one connection for about `seconds`.

    The server counts the calls answered OK. The CPU time includes start and end of the tool's
    process. Raises the errors of the tools.
    """
    own, others = psutil.Process().cpu_times(), psutil.Process(server.pid).cpu_times()
    done = PROGRAMS[name](
        server, streams=in_flight,
        requests=max(in_flight, round(CALLS_PER_S[in_flight] * seconds)), timeout_s=END_S,
    )  # fmt: skip
    own_now, others_now = psutil.Process().cpu_times(), psutil.Process(server.pid).cpu_times()
    client_s = (
        own_now.children_user + own_now.children_system - own.children_user - own.children_system
    )
    server_s = others_now.user + others_now.system - others.user - others.system
    answered = max(1, done.answered_ok)
    return Round(
        done.throughput_per_s, client_s / answered, server_s / answered,
        lost=done.requests - done.answered_ok,
    )  # fmt: skip
