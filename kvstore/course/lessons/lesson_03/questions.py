"""What lesson 03 and its further lessons ask, and the figures of their runs."""

import math
from typing import Final

from kvstore.course.questions import Answer
from kvstore.measure import Run
from kvstore.model import Prediction, Station, bounds, service_time_s

WRITE_S = 0.050


def disk_s(run: Run) -> float:
    """Mean disk time of the operations that the run sent, from the delays of its server."""
    settings = run.server.settings
    return service_time_s(
        run.mix(),
        read_delay_s=settings.read_delay_s,
        write_delay_s=settings.write_delay_s,
    )


def stations(run: Run) -> list[Station]:
    """The station that serves one call at a time, or the disk that all calls use at once."""
    locking = run.server.settings.locking
    if locking == "global":
        return [Station("lock", disk_s(run))]
    return [Station("disk", disk_s(run), math.inf)]


def bound(run: Run) -> Prediction:
    """X ≤ min(N/D, 1/D_max) for the server of the run."""
    return bounds.closed_loop(run.in_flight, stations(run))


def settled_residence_s(run: Run) -> float:
    """Mean residence time after the queue has filled: without the first N calls.

    These found the queue shorter than it is later. If a busy machine made no more, it is the time
    of the last one, which found the others before it.
    """
    residence_s = run.calls["residence_s"]
    return float(residence_s[min(run.in_flight, len(residence_s) - 1) :].mean())


def while_sending_per_s(run: Run) -> float:
    """Calls answered per second until the last call was sent.

    When the sending stops, the keys drain, and the one with the longest queue drains alone.
    """
    until_s = float(run.calls["sent_s"].max())
    return float((run.calls["done_s"] <= until_s).sum() / until_s)


ANSWERS: Final = {
    "03.global_lock": Answer(lambda run: run.answered_per_s, bound),
    "03.global_wait": Answer(
        settled_residence_s, lambda run: bounds.residence(run.in_flight, stations(run))
    ),
    "03.per_key": Answer(lambda run: run.answered_per_s, bound),
    "03.curve": Answer(
        lambda known, fewer: {r.in_flight: r.answered_per_s for r in (known, *fewer)},
        lambda known, _: {
            n: bounds.closed_loop(n, stations(known)).value for n in (1, 5, 10, 20, 50, 100)
        },
    ),
    "03.hot_keys": Answer(
        while_sending_per_s,
        lambda run: bounds.closed_loop(
            run.in_flight, [Station("one of 4 keys", WRITE_S, servers=4)]
        ),
    ),
    "03.zipf": Answer(
        lambda run, simulated: while_sending_per_s(run),
        lambda run, simulated: Prediction(
            simulated, "calls/s", "a simulation: some of the 4 calls wait for the same key"
        ),
    ),
}


def served_at_once(run: Run) -> float:
    """Calls that the disk works on at one time, on average: X times the mean disk time."""
    return run.answered_per_s * disk_s(run)
