"""Runs made by hand, so that every figure of theirs can be worked out on paper."""

import math
import random
from collections.abc import Iterable
from typing import Any, NamedTuple

from kvstore.measure import Run
from kvstore.measure.recorder import Recorder, sample_rows
from kvstore.measure.server_report import ServerReport
from kvstore.protocol import CREATE, DELETE, NO_ANSWER, NOT_FOUND, OK, RETRIEVE, UPDATE


class Made(NamedTuple):
    """One call, in the words of `Recorder.record`."""

    sent_s: float
    done_s: float
    kind: int = CREATE
    status: int = OK
    due_s: float = math.nan
    operations: int = 1
    ok_operations: int | None = None


CALLS = (
    Made(0.0, 1.0, CREATE),
    Made(0.5, 2.5, RETRIEVE),
    Made(1.0, 4.0, UPDATE, NOT_FOUND),
    Made(1.5, 5.5, DELETE),
    Made(2.0, 10.0, CREATE, NO_ANSWER),
)
"""Residence times of 1, 2, 3, 4 and 8 seconds; three calls answered OK."""


def run_of(calls: Iterable[Made], **facts: Any) -> Run:
    """A run of these calls; what is not said is what a whole run would say."""
    calls = list(calls)
    recorder = Recorder()
    for call in sorted(calls, key=lambda made: made.done_s):
        recorder.record(
            call.due_s,
            call.sent_s,
            call.done_s,
            call.kind,
            call.status,
            100,
            10,
            operations=call.operations,
            ok_operations=call.ok_operations,
        )
    usual: dict[str, Any] = {
        "strategy": "bounded",
        "in_flight": 2,
        "settings": {"calls": len(calls)},
        "server": ServerReport.of({"settings": {"locking": "global"}}),
        "host": {"cores": 2},
        "started_at": "2026-01-01T12:00:00+00:00",
        "window_s": max((call.done_s for call in calls), default=1.0),
        "issued": len(calls),
        "outcome": "complete",
        "records": recorder.array(),
        "sample_rows": sample_rows([]),
    }
    return Run(**{**usual, **facts})


def random_trace(seed: int, calls: int = 300) -> Run:
    """Calls that begin and end anywhere, overlap, touch, and sometimes take no time at all."""
    rng = random.Random(seed)
    made = []
    for _ in range(calls):
        sent_s = round(rng.uniform(0, 10), rng.choice([1, 6]))
        made.append(Made(sent_s, sent_s + rng.choice([0.0, 0.1, rng.expovariate(1.0)])))
    return run_of(made)
