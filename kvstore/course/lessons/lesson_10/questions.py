"""What lesson 10 asks."""

import math
from dataclasses import replace
from typing import Any, Final

import numpy as np

from kvstore import numbers
from kvstore.course.lessons.lesson_10 import storm
from kvstore.course.questions import Answer
from kvstore.measure import Run
from kvstore.model import Prediction, overload
from kvstore.protocol import OK

NINETY = 1.645
"""90 % of a normal distribution lie within so many standard deviations."""


def failed_late(run: Run) -> float:
    """Return how many of 100 calls failed, of those that were due in the last third of the run."""
    late = _late(run)
    return 100 * float(np.mean(late["status"] != OK)) if len(late) else float("nan")


def _late(run: Run) -> Any:
    due_s = run.records["due_s"]
    return run.records[due_s >= 2 / 3 * due_s.max()]


def counted(run: Run) -> int:
    """Return the attempts that the server counted in a run."""
    return run.server.answered


def failing_for_long(failing: float, ratio: float, attempts: int = storm.ATTEMPTS) -> Prediction:
    """Return how many of 100 calls fail while this share of the attempts does, with a budget.

    Each failed attempt costs a token and each other one earns `ratio` of a token. So there are
    tokens for retries only while f <= (1 - f) ratio.
    """
    lasts = failing <= ratio / (1 + ratio)
    share = numbers.percent(ratio / (1 + ratio))
    reason = (
        f"{numbers.percent(failing)} of the attempts fail, and the budget lasts up to {share}: "
        + (f"a call fails when all {attempts} attempts do" if lasts else "no call is retried")
    )
    return Prediction(100 * (failing**attempts if lasts else failing), "calls", reason)


def failing_of(run: Run, failing: float, ratio: float) -> Prediction:
    """Return `failing_for_long` with the interval of so many late calls: each fails by chance."""
    model, late = failing_for_long(failing, ratio), max(1, len(_late(run)))
    share = model.value / 100
    half = 100 * NINETY * math.sqrt(share * (1 - share) / late)
    return replace(model, interval=(model.value - half, model.value + half))


ANSWERS: Final = {
    "10.storm": Answer(
        failed_late, lambda run: storm.prediction(np.sort(run.records["due_s"]).tolist())
    ),
    "10.lasting_fault": Answer(failed_late, lambda run: failing_of(run, 0.2, 0.1)),
    "10.in_step": Answer(
        lambda attempts: attempts, lambda attempts: overload.retries_in_lockstep(40, 4)
    ),
}
