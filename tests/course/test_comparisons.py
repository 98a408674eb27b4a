"""comparisons.py: ratios, bands, and whether a lesson's main comparison agrees."""

import dataclasses
import math
import re
from datetime import UTC, datetime, timedelta

import pytest
from made_runs import run_of, staircase

from kvstore.course import compare, comparisons, predict, progress, rendering
from kvstore.course.comparisons import Agreement
from kvstore.course.questions import UnitError
from kvstore.measure import Cpu, throughput_interval
from kvstore.model import Prediction
from kvstore.numbers import number

pytestmark = pytest.mark.usefixtures("lesson_97")


@pytest.mark.parametrize(
    ("guess", "measured", "words", "off"),
    [
        (100, 110, "spot on", "1.1 x too low"),
        (25, 25, "spot on", "equal"),
        (125, 100, "close", "1.25 x too high"),
        (50, 100, "factor of 2", "2 x too low"),
        (1000, 100, "factor of 10", "10 x too high"),
        (1001, 100, "more than a factor of 10", "10 x too high"),
    ],
)
def test_the_scale_is_of_ratios_and_the_same_both_ways(page, guess, measured, words, off):
    predict("97.plain", guess)
    made = compare("97.plain", measured)

    assert words in made.verdict
    assert made.log_error == pytest.approx(abs(math.log10(guess / measured)))
    assert made.log_error == progress.ask("97.plain").log_error
    assert off in page[-1]["text/plain"].replace(rendering.TIMES, "x")
    assert "model" not in page[-1]["text/plain"] + page[-1]["text/html"]  # the question has none


def test_yours_the_models_and_measured_stand_side_by_side(page):
    predict("97.plain", 20)
    compare("97.plain", 25.0, Prediction(24.0, "calls/s", "1 / <W>", "disk"))

    plain, html = page[-1]["text/plain"], page[-1]["text/html"]
    yours, model = plain.splitlines()[2:4]
    assert ("1.25 × too low" in yours, "1.04 × too low" in model) == (True, True)  # noqa: RUF001
    assert "1 / &lt;W&gt;" in html
    assert tuple(
        page[-1][comparisons.MIME_TYPE][name] for name in ("yours", "model", "measured")
    ) == (20.0, 24.0, 25.0)


@pytest.mark.parametrize(
    ("guess", "measured", "said"),
    [
        (41.1, 25.0, "mean of the four"),
        (19.5, 25.0, "the slowest one"),
        (42.0, 25.0, ""),  # more than 3 % away
        (40.0, 39.5, ""),  # it is right here
    ],
)
def test_a_known_mistake_is_named_after_the_run(page, guess, measured, said):
    predict("97.rates", guess)
    assert "mean" not in page[-1]["text/plain"] + page[-1]["text/html"]
    made = compare("97.rates", measured, measured)

    named = [each for each in ("mean of the four", "the slowest one") if each in repr(made).lower()]
    assert named == ([said] if said else [])
    assert ("<em>rates</em>" in page[-1]["text/html"]) == (said == "mean of the four")


def test_without_a_prediction_the_comparison_is_shown_and_marked(page):
    comparison = compare("97.plain", 25.0, 24.0)

    assert comparison.verdict == "not predicted"
    assert "not predicted" in page[-1]["text/html"]
    assert page[-1][comparisons.MIME_TYPE]["yours"] is None


@pytest.mark.parametrize("measured", [0.0, math.nan])
def test_a_run_that_measured_nothing_is_not_scored(page, measured):
    predict("97.plain", 20)

    assert "not scored" in compare("97.plain", measured).verdict


def test_a_number_committed_after_the_run_began_does_not_count(page):
    predict("97.plain", 20)
    began = datetime.now(UTC) - timedelta(seconds=10)
    run = dataclasses.replace(staircase(), started_at=f"{began:%Y-%m-%dT%H:%M:%S}.000000+00:00")
    comparison = compare("97.plain", run.mean_residence_s, 24.0, run)

    assert comparison.yours is None
    assert "after the run began" in comparison.verdict


def test_a_number_committed_in_the_second_the_run_began_counts(page):
    predict("97.plain", 20)
    began = datetime.now(UTC)
    run = dataclasses.replace(staircase(), started_at=f"{began:%Y-%m-%dT%H:%M:%S}+00:00")

    assert compare("97.plain", run.throughput_per_s, None, run).yours == 20


def test_what_is_no_number_is_named(page):
    with pytest.raises(TypeError, match="answered by a number, got list"):
        compare("97.plain", [1])


def test_a_main_comparison_tells_programs_its_band_and_why(page):
    compare("97.main", 25.0, 24.0)
    compare("97.busy", 25.0, 24.0)
    compare("97.plain", 25.0, 24.0)

    assert [each[comparisons.MIME_TYPE]["main"] for each in page] == [
        {"band": 0.10, "why": ""},
        {"band": 0.20, "why": ""},
        None,
    ]


@pytest.mark.parametrize(
    ("unit", "model", "shown"),
    [
        ("calls/s", Prediction(24.0, "operations/s", ""), 24.0),
        ("ms", Prediction(0.024, "s", ""), 24.0),
    ],
)
def test_the_model_is_brought_to_the_unit_of_the_question(page, unit, model, shown):
    comparison = compare(f"97.{unit.removesuffix('/s').replace('calls', 'plain')}", 25.0, model)

    assert (unit, pytest.approx(shown)) == (comparison.known.unit, comparison.model)


def test_a_run_is_compared_with_its_interval(page):
    run = run_of([(n / 100, n / 100 + 0.01 + n % 7 / 1000, "create") for n in range(1000)])
    low, high = throughput_interval(run)
    made = compare("97.operations", run.throughput_per_s, None, run)

    assert made.interval == (low, high)
    assert f"({number(low)} to {number(high)})" in page[-1]["text/plain"]


def test_a_run_outside_its_band_says_when_the_machine_was_the_limit(page):
    def of(run, model):
        return run.throughput_per_s, Prediction(model, "operations/s", ""), run

    cpu = Cpu(0.25, 0.0, loop_s=0.1)
    calls = [(n / 100, n / 100 + 0.2, "create") for n in range(100)]
    run = dataclasses.replace(
        run_of(calls, in_flight=20, window_s=1.0), client_cpu=cpu, server_cpu=cpu, machine_cpu_s=0.5
    )
    for given, client_s, limited in ((run, 0.25, False), (run, 0.6, True)):
        given = dataclasses.replace(given, client_cpu=Cpu(client_s, 0.0, loop_s=0.1))
        made = compare("97.operations", *of(given, 200.0))
        assert bool(made.machine) == limited
        assert ("take turns" in page[-1]["text/html"]) == limited
    inside = compare("97.operations", *of(given, 100.0))
    assert inside.machine == ""


def test_calls_of_many_operations_are_no_operations(page):
    batches = dataclasses.replace(staircase(), operations_sent=8 * staircase().issued)

    with pytest.raises(UnitError, match="a call of this run has 8 operations"):
        compare("97.operations", 40.0, Prediction(10.0, "calls/s", ""), batches)


def test_a_model_of_another_quantity_is_refused(page):
    with pytest.raises(UnitError, match="asks for calls/s, but the model's prediction is in s"):
        compare("97.plain", 25.0, Prediction(0.024, "s", ""))


def made(measured, *, band=0.10, why="", predicted=100.0, lesson="03_bounded"):
    return Agreement(lesson, "03.rate", "calls/s", predicted, measured, band, why)


@pytest.mark.parametrize(
    ("measured", "band", "within"),
    [
        (110, 0.10, True),
        (111, 0.10, False),
        (89, 0.10, False),
        (81, 0.20, True),
        (121, 0.20, False),
        (None, 0.20, False),
    ],
)
def test_the_band_is_about_measured_over_predicted(measured, band, within):
    assert made(measured, band=band).within is within


def test_it_is_read_from_what_a_comparison_published(page):
    compare("97.busy", 90.0, 100.0)
    read = Agreement.of("03_bounded", page[-1][comparisons.MIME_TYPE])

    assert read == dataclasses.replace(made(90.0, band=0.20), question_id="97.busy")


def test_the_table_has_a_line_for_each_and_says_what_a_full_run_leaves_unexplained():
    several = [made(95.0), made(80.0), made(80.0, why="timers are late")]
    said = comparisons.table(several, ["03_bounded", "09_new"], full=True)

    assert [" ".join(line.split()[3:]) for line in said.splitlines()[1:4]] == [
        "100 95 0.950 ±10 % within",
        "100 80 0.800 ±10 % outside",
        "100 80 0.800 ±10 % outside: this machine may be why",
    ]
    assert "03.rate: outside 10 %, because timers are late" in said
    assert said.endswith("OUTSIDE ITS BAND AND NOT EXPLAINED: 1 of 3")
    assert "09_new: no main comparison" in said
    assert "03_bounded: no main" not in said
    assert "all 1 main comparisons" in comparisons.table(several[:1], ["03_bounded"], full=True)
    short = comparisons.table(several, ["03_bounded"], full=False)
    assert "meant for --full" in short
    assert "NOT EXPLAINED" not in short


@pytest.mark.parametrize("guess", [20, 400])
def test_the_learners_number_stands_on_the_side_of_the_run_where_it_belongs(page, guess):
    predict("97.plain", guess)
    compare("97.plain", 25.0, 25.0)

    drawn = page[-1]["text/html"]
    yours, model = (float(x) for x in re.findall(r'd="M([\d.]+),24 V', drawn))
    measured = float(re.search(r'cx="([\d.]+)"', drawn)[1])
    assert measured == model
    assert (yours > measured) == (guess > 25)
