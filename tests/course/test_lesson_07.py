"""Lesson 07: what its exercises accept, and the models of its questions."""

import asyncio
import dataclasses
from types import SimpleNamespace

import made_runs
import pandas as pd
import pytest

from kvstore.client import pacing
from kvstore.course.exercises import find
from kvstore.course.exercises.grading import judged
from kvstore.course.my_code import course_version
from kvstore.course.questions import registered
from kvstore.measure import Sample, ServerReport
from kvstore.protocol import StationTimes

# 07.front -------------------------------------------------------------------------------------


def test_the_loop_ends_after_its_last_task():
    # as the tasks of a server that was not returned, which stops itself once it is forgotten
    ends = []

    async def ends_late():
        try:
            await asyncio.sleep(0.3)
            ends.append("returned")
        except BaseException as end:
            ends.append(end)
            raise

    async def port_only(stub):
        asyncio.get_running_loop().late = asyncio.create_task(ends_late())
        return (await course_version("front.serve")(stub))[1]

    assert "must return two things" in judged(find("07.front"), port_only).message
    assert ["returned"] == ends


# Models of the questions -----------------------------------------------------------------------

BACK = SimpleNamespace(settings=SimpleNamespace(read_delay_s=0.1))


def front(*, use_asyncio=False, each_s=0.2, rounds=10, seen=(10, 14)):
    """A run of eight users who call a front, one call after the other from the start on."""
    stations = StationTimes(0.0, 0.0, 0.1, 0.0)
    calls = [
        (turn * each_s, (turn + 1) * each_s, "retrieve", "OK", stations)
        for turn in range(rounds)
        for _ in range(8)
    ]
    samples = pd.DataFrame(0.0, index=range(len(seen)), columns=list(Sample._fields))
    samples["server_threads"] = seen
    joins = list(pacing.joins(pacing.climb(0, 8, steps=8, over_s=0.4)))
    return dataclasses.replace(
        made_runs.run_of(calls, in_flight=8),
        sample_rows=samples.to_records(index=False),
        server=ServerReport.of({"settings": {"threads": 4, "use_asyncio": use_asyncio}}),
        settings={"joins": joins, "duration_s": rounds * each_s},
    )


POOL = front()
LOOP = front(use_asyncio=True, each_s=0.1, rounds=20, seen=(10, 10))


def test_the_model_of_a_question_is_computed_from_the_runs_settings():
    rate, loop_rate, threads = (
        registered(f"07.{name}") for name in ("pool_rate", "loop_rate", "loop_threads")
    )

    assert rate.model(BACK, POOL).value == pytest.approx(40.0)
    assert rate.measured(BACK, POOL) == pytest.approx(40.0, rel=0.1)
    assert loop_rate.model(BACK, LOOP).value == pytest.approx(80.0)
    assert threads.measured(LOOP) == threads.model(LOOP).value == 10
