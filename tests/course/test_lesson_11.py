"""Lesson 11: hedged reads that its exercise accepts, its models, and its figures."""

import functools
import math

import made_runs
import numpy as np
import pytest

from kvstore.course.experiments import several_servers
from kvstore.course.lessons.lesson_11 import figures
from kvstore.course.questions import registered
from kvstore.server import serving

# 11.hedged ------------------------------------------------------------------------------------


# Hedged reads on real servers -------------------------------------------------------------------


def test_reads_are_made_counted_and_hedged():
    quick = {"read_delay_s": 0.0, "write_delay_s": 0, "locking": "per_key", "use_asyncio": True}
    with serving(**quick) as one, serving(**{**quick, "read_delay_s": 0.4}) as other:
        due_s = [0.0, 0.01, 0.02, 0.03, 9.0]
        single = several_servers.reads([one, other], several_servers.single, due_s, duration_s=1)
        hedged = several_servers.reads(
            [one, other],
            functools.partial(several_servers.hedged, after_s=0.02),
            due_s,
            duration_s=1,
        )

    assert len(single.took_s) == single.calls == 4
    assert single.slow_share(0.3) == 0.5
    assert hedged.calls > 4
    assert hedged.slow_share(math.inf) == 0.0


def test_an_error_of_a_read_that_is_no_status_is_raised():
    async def broken(first, second, request):
        raise ZeroDivisionError

    with serving(use_asyncio=True) as one, pytest.raises(BaseExceptionGroup) as raised:
        several_servers.reads([one], broken, [0.0], duration_s=1)

    assert raised.group_contains(ZeroDivisionError)


# Models and figures ----------------------------------------------------------------------------


def some_reads(slow, twice=0.0):
    took_s = np.array([0.2] * slow + [0.05] * (100 - slow))
    return several_servers.Reads(took_s, 100 + round(100 * twice), 4)


def test_the_models_of_the_questions():
    p90, slowest, hedged, busy = (
        registered(f"11.{name}") for name in ("stall_p90", "slowest", "hedged", "hedged_busy")
    )
    pages = several_servers.FanOut(np.array([[0.05, 0.2], [0.05, 0.05]]))

    assert p90.model(None).value == pytest.approx(0.155)
    assert slowest.measured(pages) == 0.5
    assert slowest.model(pages).value == pytest.approx(0.19)
    assert 0.01 < hedged.model(some_reads(2)).value < 0.02
    assert hedged.measured(some_reads(2)) == 0.02
    assert busy.model(some_reads(90, twice=1.0)).value == 1.0
    assert busy.model(some_reads(90, twice=0.1)).value == 0.0


# ---- tables --------------------------------------------------------------------------------------


def test_a_call_that_is_sent_late_is_slow_from_its_due_time_only():
    table = figures.latency_from_table({"paced": made_runs.paced(90)})

    assert ["sending", "due"] == list(table["from"])
    assert [20.0, 20.0] == list(table["50 % (ms)"])
    assert [20.0, 110.0] == list(table["90 % (ms)"])
    assert ["sending"] == list(figures.latency_from_table(made_runs.staircase())["from"])
