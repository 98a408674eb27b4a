"""What a report says of a run besides its figures, from records made by hand."""

import math
from dataclasses import replace

import pytest
from test_levels_and_steps import run_of_recorder

from kvstore.load_test.estimates import steady_part
from kvstore.load_test.findings import findings
from kvstore.load_test.session import COMPLETE, MISSED, status_of
from kvstore.measure import Outcome
from kvstore.measure.recorder import Recorder, Sample, sample_rows
from kvstore.protocol import UNAVAILABLE


def test_the_first_round_of_a_level_is_not_in_its_residence_time():
    """Its calls began before the window that is counted: here they are slow, and no others."""
    recorder = Recorder()
    for number in range(60):
        ends_s = 1.0 + 0.1 * (number // 2)
        took_s = 1.0 if number < 2 else 0.1
        recorder.record(math.nan, ends_s - took_s, ends_s, 1, 0, 1, 1)

    level = steady_part(recorder.array(), 2, 0.0, 10.0)

    assert level.residence_s == pytest.approx(0.1)
    assert level.throughput_per_s == pytest.approx(20)


def closed_loop(took_s, *, stopped_s=()):
    """One call at a time; the samples are 0.1 s apart, but for the time in `stopped_s`."""
    recorder, at_s = Recorder(), 0.0
    for each_s in took_s:
        recorder.record(math.nan, at_s, at_s + each_s, 1, 0, 1, 1)
        at_s += each_s
    times_s = [0.1 * tenth for tenth in range(int(10 * at_s))]
    if stopped_s:
        times_s = [each for each in times_s if not stopped_s[0] < each < stopped_s[1]]
    rows = sample_rows([Sample(each, *[0] * 7) for each in times_s])
    return run_of_recorder(recorder, in_flight=1, sample_rows=rows)


STOOD_STILL = [0.02] * 40 + [12.0] + [0.02] * 40


def test_a_service_that_stood_still_is_found_and_the_generator_is_not_blamed():
    texts = {each.name: each.text for each in findings(closed_loop(STOOD_STILL))}

    assert "from 0.8 to 12.8 s" in texts["stood still"]
    assert not {"clock", "generator"} & {*texts}


def test_a_generator_that_was_stopped_does_not_blame_the_service():
    names = [each.name for each in findings(closed_loop(STOOD_STILL, stopped_s=(0.85, 12.7)))]

    assert "clock" in names
    assert "stood still" not in names


def test_a_time_in_which_calls_only_failed_is_named():
    recorder = Recorder()
    for number in range(100):
        status = UNAVAILABLE if 40 <= number < 60 else 0
        recorder.record(math.nan, number / 10, number / 10 + 0.01, 1, status, 1, 1)
    texts = {each.name: each.text for each in findings(run_of_recorder(recorder))}

    assert "from 3.9 to 6.0 s, for 2.1 s (20 calls failed)" in texts["away"]


@pytest.mark.parametrize("took_s", [[3.0] * 8, [0.02] * 100 + [0.5] + [0.02] * 100])
def test_a_slow_service_does_not_stand_still(took_s):
    assert "stood still" not in [each.name for each in findings(closed_loop(took_s))]


def test_a_run_whose_server_stopped_answering_is_no_success():
    run = closed_loop([0.02] * 9)

    assert COMPLETE == status_of(run)
    assert MISSED == status_of(replace(run, outcome=Outcome.SERVER_UNRESPONSIVE))
