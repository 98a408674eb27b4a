"""The service of a case: a server, a probe of a few calls, and the run of a design."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kvstore.client import load, strategies
from kvstore.course import live
from kvstore.course.capstone.cases import Case
from kvstore.course.capstone.designs import STRATEGIES, Design
from kvstore.course.exercises import NOT_ATTEMPTED
from kvstore.course.exercises.base import NotAttempted
from kvstore.measure import Run
from kvstore.server import Server, ShardedServer, serving, serving_sharded

PROBE_CALLS = 150
"""The most calls of a probe in all."""
PROBE_IN_FLIGHT = 8
"""The most calls of a probe in flight: others use the service too."""


class ProbeSpent(ValueError):
    """A probe of more calls than are allowed; no call was made."""


class Probe:
    """A probe of the unchanged service: call it to make a few calls."""

    def __init__(self, case: Case, server: Server) -> None:
        self.left = PROBE_CALLS
        """Calls that may still be made."""
        self._case = case
        self._server = server

    def __call__(self, calls: int, in_flight: int = 1, connections: int = 1) -> Run:
        """Make `calls` calls with the workload of the case; the run has station times.

        Raise `ProbeSpent` for more than is allowed, before any call is made.
        """
        if not 1 <= in_flight <= PROBE_IN_FLIGHT:
            raise ProbeSpent(
                f"a probe has 1 to {PROBE_IN_FLIGHT} calls in flight, got {in_flight}: others use"
                " the service too. Predict the throughput of more"
            )
        if not 1 <= calls <= self.left:
            raise ProbeSpent(
                f"calls must be from 1 to {self.left}, got {calls}: {self.left} of {PROBE_CALLS}"
                " are left. Read the runs of the earlier probes"
            )
        self.left -= calls
        return load.run(
            strategies.bounded,
            self._server,
            self._case.workload,
            in_flight=in_flight,
            connections=connections,
            calls=calls,
            metadata=self._case.headers,
        )


@contextmanager
def serving_case(
    case: Case, design: Design | NotAttempted | None = None
) -> Iterator[Server | ShardedServer | None]:
    """Serve the case with the design's changes while the block lasts; unchanged without a design.

    Yield None for a design that is not attempted. Raise `DesignRefused` for a design that the case
    does not accept, before a server starts.
    """
    if design is NOT_ATTEMPTED:
        yield None
        return
    chosen = case.start if design is None else design
    case.refuse(chosen)
    assert isinstance(chosen, Design)
    settings = {**case.settings(chosen), "station_times": True}
    if chosen.servers > 1:
        with serving_sharded(chosen.servers, **settings) as several:
            yield several
        return
    with serving(**settings) as server:
        yield server


@contextmanager
def probing(case: Case) -> Iterator[Probe]:
    """Serve the unchanged case while the block lasts, and yield a probe."""
    with serving(**case.settings(case.start), station_times=True) as server:
        yield Probe(case, server)


def run_design(
    case: Case,
    design: Design | NotAttempted,
    server: Server | ShardedServer | None,
    *,
    duration_s: float,
    closes: str | Sequence[str] = (),
) -> Run | None:
    """Run the design for `duration_s` and show the run; return None if nothing was attempted.

    `closes` names the questions that refuse predictions from now on.
    """
    if isinstance(design, NotAttempted) or server is None:
        return None
    case.refuse(design)
    options: dict[str, Any] = {"metadata": case.headers, **design.options}
    return live.run(
        STRATEGIES[design.strategy],
        server,
        case.workload,
        duration_s=duration_s,
        closes=closes,
        **options,
    )
