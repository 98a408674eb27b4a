"""Clients of other makes against our server, where they are installed."""

import psutil

from benchmarks.results import Round
from kvstore.course.peers import PROGRAMS
from kvstore.course.peers.programs import path_of
from kvstore.server import Server

CALLS_PER_S = {1: 1_500, 100: 8_000}
"""Calls in flight, and how many calls then pass for a second: the tools are given a count."""
END_S = 120.0
"""Seconds for a count that takes far longer than it was thought to."""


def installed() -> list[str]:
    """Names of the tools there are here."""
    return [name for name in PROGRAMS if path_of(name)]


def tool(name: str, server: Server, in_flight: int, seconds: float) -> Round:
    """Retrieve one small value over and over on one connection; some seconds' worth of calls.

    What was answered OK is the server's own count. Start and end of the tool's process are in
    its processor time. Raises as the tools do.
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
