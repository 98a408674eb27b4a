import dataclasses
import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from made_runs import staircase

from kvstore.course import claims, compare, comparisons, predict, progress
from kvstore.course.units import UnitError
from kvstore.model import Prediction


@pytest.mark.parametrize(
    ("guess", "measured", "words"),
    [
        (110, 100, "spot on"),
        (100, 110, "spot on"),
        (111, 100, "close"),
        (125, 100, "close"),
        (126, 100, "factor of 2"),
        (50, 100, "factor of 2"),
        (49, 100, "factor of 10"),
        (1000, 100, "factor of 10"),
        (1001, 100, "more than a factor of 10"),
    ],
)
def test_the_scale_is_of_ratios_and_the_same_both_ways(page, guess, measured, words):
    predict("01.mix", guess)

    assert words in compare("01.mix", measured).verdict


def test_the_error_is_the_logarithm_of_the_ratio(page):
    predict("01.mix", 1000)

    assert math.isclose(1.0, compare("01.mix", 100).log_error)
    assert math.isclose(1.0, progress.ask("01.mix").log_error)


def test_yours_the_models_and_measured_stand_side_by_side(page):
    predict("01.mix", 20)
    compare("01.mix", 25.0, Prediction(24.0, "calls/s", "1 / <W>", "disk"))

    plain, html = page[-1]["text/plain"], page[-1]["text/html"]
    assert [[line.split()[-3], line.split()[-1]] for line in plain.splitlines()[2:4]] == [
        ["20", "0.8"],
        ["24", "0.96"],
    ]
    assert "1 / &lt;W&gt;" in html
    assert tuple(
        page[-1][comparisons.MIME_TYPE][name] for name in ("yours", "model", "measured")
    ) == (20.0, 24.0, 25.0)


def test_without_a_prediction_the_comparison_is_shown_and_marked(page):
    comparison = compare("01.mix", 25.0, 24.0)

    assert comparison.verdict == "not predicted"
    assert "not predicted" in page[-1]["text/html"]
    assert page[-1][comparisons.MIME_TYPE]["yours"] is None


def test_a_run_stands_for_its_throughput(page):
    run = staircase()

    assert run.throughput_per_s == compare("01.mix", run).measured


@pytest.mark.parametrize("measured", [0.0, math.nan])
def test_a_run_that_measured_nothing_is_not_scored(page, measured):
    predict("01.mix", 20)

    assert "not scored" in compare("01.mix", measured).verdict


@pytest.mark.parametrize("fraction", ["", ".000000"])
def test_a_number_committed_after_the_run_began_does_not_count(page, fraction):
    predict("01.mix", 20)
    began = datetime.now(UTC) - timedelta(seconds=10)
    run = dataclasses.replace(staircase(), started_at=f"{began:%Y-%m-%dT%H:%M:%S}{fraction}+00:00")
    comparison = compare("01.mix", run.mean_residence_s, run=run)

    assert not comparison.predicted
    assert "after the run began" in comparison.verdict


def test_a_number_committed_in_the_second_the_run_began_counts(page):
    predict("01.mix", 20)
    began = datetime.now(UTC)
    run = dataclasses.replace(staircase(), started_at=f"{began:%Y-%m-%dT%H:%M:%S}+00:00")

    assert compare("01.mix", run).predicted


def test_what_is_no_number_is_named(page):
    with pytest.raises(TypeError, match="measured must be a number or a run, got list"):
        compare("01.mix", [1])


def test_numbers_of_numpy_can_be_read_by_programs(page):
    compare("01.mix", np.float64(25.0), np.float64(24.0))

    assert float is type(page[-1][comparisons.MIME_TYPE]["measured"])


def test_without_a_prediction_the_result_is_in_the_unit_of_the_question(page):
    predict("00.price", None, unit="µs/call")

    assert compare("00.price", 501.0).unit == "µs/call"


def test_a_main_comparison_tells_programs_its_band_and_why(page):
    shown = claims.claim("the timer is late by a tenth", True)
    compare("01.mix", 25.0, 24.0, main=True, why=shown)
    compare("06.knee", 25.0, 24.0, main=True, binds="cpu")
    compare("01.other", 25.0, 24.0)

    assert [each[comparisons.MIME_TYPE]["main"] for each in page[1:]] == [
        {"band": 0.10, "why": "the timer is late by a tenth"},
        {"band": 0.20, "why": ""},
        None,
    ]


def test_a_claim_that_does_not_hold_explains_nothing(page):
    comparison = compare("01.mix", 25.0, 24.0, main=True, why=claims.claim("pigs fly", False))

    assert comparison.why == ""


def test_a_main_comparison_needs_a_model(page):
    with pytest.raises(ValueError, match=r"01\.mix: a main comparison needs the model"):
        compare("01.mix", 25.0, main=True)


@pytest.mark.parametrize(
    ("asked", "model", "shown"),
    [
        ("calls/s", Prediction(24.0, "operations/s", ""), 24.0),
        ("ms", Prediction(0.024, "s", ""), 24.0),
        ("s", Prediction(24_000.0, "ms", ""), 24.0),
        ("times", Prediction(24.0, "times", ""), 24.0),
    ],
)
def test_the_model_is_brought_to_the_unit_of_the_question(page, asked, model, shown):
    predict("01.mix", None, unit=asked)

    comparison = compare("01.mix", 25.0, model)

    assert (asked, pytest.approx(shown)) == (comparison.unit, comparison.model)


def test_a_model_of_another_quantity_is_refused_and_nothing_is_closed(page):
    predict("01.mix", 20)

    with pytest.raises(UnitError, match="asks for calls/s, but the model's prediction is in s"):
        compare("01.mix", 25.0, Prediction(0.024, "s", ""))
    assert predict("01.mix", 21).status == "kept"


def test_a_run_is_no_time(page):
    predict("01.one_call", None, unit="ms")

    with pytest.raises(UnitError, match="asks for ms, but a run given as it is, its throughput,"):
        compare("01.one_call", staircase())


def test_calls_of_many_operations_are_no_operations(page):
    batches = dataclasses.replace(staircase(), operations_sent=8 * staircase().issued)
    predict("05.window", None)
    predict("05.peak", None, unit="operations/s")

    with pytest.raises(UnitError, match="a call of this run carried 8 operations"):
        compare("05.window", batches)
    with pytest.raises(UnitError, match="the model's prediction is in calls/s"):
        compare("05.peak", batches, Prediction(10.0, "calls/s", ""))
    assert compare("05.peak", batches).measured == batches.throughput_per_s
