"""Another client beside runs of ours: the same server, the same layout, as many calls."""

from collections.abc import Mapping

from kvstore.course.peers.beside import PeerRun
from kvstore.course.peers.ghz import ghz
from kvstore.course.peers.h2load import h2load
from kvstore.course.peers.programs import found
from kvstore.measure import Run

PROGRAMS = {"h2load": h2load, "ghz": ghz}
"""All the clients of other makes, by the names of their programs."""
LEAST_S, SLOWER = 30.0, 10.0
"""A program may take ten times as long as our run before it is stopped, and half a minute."""


def beside(program: str, server: object, ours: Mapping[str, Run]) -> dict[str, PeerRun]:
    """For each of our runs one of h2load or ghz against the same server, under the same name.

    It makes as many calls as ours had answered. Where the program is not installed, the page
    says how to get it, and the answer is empty. Raises `ValueError` for another program, for a
    run whose connections nobody counted, and what the program's own function raises.
    """
    if program not in PROGRAMS:
        raise ValueError(f"program must be one of {', '.join(PROGRAMS)}, got {program!r}")
    for name, run in ours.items():
        if not 1 <= run.connections <= run.in_flight:
            raise ValueError(
                f"the run {name} had {run.connections} connections for {run.in_flight} calls in"
                " flight: only a run whose connections were counted can be laid out again"
            )
    if not found(program):
        return {}
    return {
        name: PROGRAMS[program](
            server,
            connections=run.connections,
            streams=run.in_flight // run.connections,
            requests=max(run.in_flight, run.operations_ok),
            timeout_s=LEAST_S + SLOWER * run.window_s,
        )
        for name, run in ours.items()
    }
