"""What lesson 07 and its further lessons ask."""

import math
from collections.abc import Mapping
from typing import Any, Final

from kvstore.client import pacing
from kvstore.course.questions import Answer
from kvstore.measure import Run, during
from kvstore.measure.parts import During
from kvstore.model import Prediction, Station, bounds


def waiting_for(back: Any, run: Run) -> list[Station]:
    """Return the station of a call: the back end's delay, in a pool of threads or in a task.

    `back` is the server behind the front, or its settings. On the event loop, all calls may wait at
    once.
    """
    front = run.server.settings
    places = math.inf if front.use_asyncio else front.threads
    name = "event loop" if front.use_asyncio else "thread pool"
    return [Station(name, _delay_s(back), places)]


def _delay_s(back: Any) -> float:
    return float(back["read_delay_s"] if isinstance(back, Mapping) else back.settings.read_delay_s)


def all_there(back: Any, run: Run) -> During:
    """Return the run from two delays of the back end after the last user came, to its end."""
    joins = run.settings.get("joins") or [0.0]
    ends_s = run.settings["duration_s"]
    from_s = min(joins[-1] + 2 * _delay_s(back), ends_s - _delay_s(back))
    return during(run, from_s, ends_s)


def own_threads(run: Run) -> float:
    """Return the threads of the server process before the users came."""
    return float(run.samples["server_threads"].iloc[0])


def most_threads(run: Run) -> float:
    """Return the most threads that the server process had."""
    return float(run.samples["server_threads"].max())


ANSWERS: Final = {
    "07.pool_rate": Answer(
        lambda back, run: all_there(back, run).answered_per_s,
        lambda back, run: bounds.closed_loop(run.in_flight, waiting_for(back, run)),
    ),
    "07.loop_rate": Answer(
        lambda back, run: all_there(back, run).answered_per_s,
        lambda back, run: bounds.closed_loop(run.in_flight, waiting_for(back, run)),
    ),
    "07.loop_threads": Answer(
        lambda run: most_threads(run),
        lambda run: Prediction(
            own_threads(run), "threads", "those it had before: a call that waits is a task"
        ),
    ),
}


USERS, CLIMB_S, THREADS = 250, 30.0, 200


def lost_to_limit(threads: int = THREADS, wait_s: float = 0.1) -> float:
    """Return the share of calls that a limit of threads takes from the published climb."""
    joins = list(pacing.joins(pacing.climb(0, USERS, steps=USERS, over_s=CLIMB_S)))
    limited, free = (
        bounds.calls(joins, [Station("wait", wait_s, places)], CLIMB_S).value
        for places in (threads, math.inf)
    )
    return 1 - limited / free
