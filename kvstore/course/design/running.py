"""The service itself: a server as the case says, a few calls to find out, and a design tried."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kvstore.client import load, strategies
from kvstore.course import live
from kvstore.course.design.choice import WAYS, Design
from kvstore.course.design.service import Case
from kvstore.course.exercises import NOT_ATTEMPTED
from kvstore.course.exercises.base import NotAttempted
from kvstore.measure import Run
from kvstore.server import Server, ShardedServer, serving, serving_sharded

PROBE_CALLS = 150
"""Calls that a visit may make in all."""
PROBE_IN_FLIGHT = 8
"""Calls that a visit may have in flight: others use the service meanwhile."""


class ProbeSpent(ValueError):
    """A probe that asks for more than the visit allows; nothing was sent."""


class Probe:
    """A visit to the service before anything is changed: call it to make a few calls."""

    def __init__(self, case: Case, server: Server) -> None:
        self.left = PROBE_CALLS
        """Calls that may still be made."""
        self._case = case
        self._server = server

    def __call__(self, calls: int, in_flight: int = 1, connections: int = 1) -> Run:
        """Make so many calls, with the traffic of the case; the run tells the station times.

        Raises `ProbeSpent` when the visit does not allow it, before any call is made.
        """
        if not 1 <= in_flight <= PROBE_IN_FLIGHT:
            raise ProbeSpent(
                f"a probe has 1 to {PROBE_IN_FLIGHT} calls in flight, got {in_flight}: others use"
                " the service meanwhile. What more would bring is what you predict"
            )
        if not 1 <= calls <= self.left:
            raise ProbeSpent(
                f"{calls} calls were asked for, and {self.left} of {PROBE_CALLS} are left: what"
                " the ones before told is in their runs"
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
def served(
    case: Case, design: Design | NotAttempted | None = None
) -> Iterator[Server | ShardedServer | None]:
    """Serve the case with the design's changes while the block lasts; as it is without one.

    For a design that is not attempted there is no server: None. Raises `DesignRefused`, before
    anything starts, for a design that cannot be had.
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
    """Visit the service as it is while the block lasts."""
    with serving(**case.settings(case.start), station_times=True) as server:
        yield Probe(case, server)


def tried(
    case: Case,
    design: Design | NotAttempted,
    server: Server | ShardedServer | None,
    *,
    duration_s: float,
    closes: str | Sequence[str] = (),
) -> Run | None:
    """Call as the design says for so long, and show it; None where nothing was attempted.

    `closes` names the questions for which no prediction is taken from now on.
    """
    if isinstance(design, NotAttempted) or server is None:
        return None
    case.refuse(design)
    options: dict[str, Any] = {"metadata": case.headers, **design.options}
    return live.run(
        WAYS[design.strategy],
        server,
        case.workload,
        duration_s=duration_s,
        closes=closes,
        **options,
    )
