"""Levels of a calibration: what counts where calls fail, and in the first part of a run."""

import pytest
from made_load_tests import run_of_recorder

from kvstore.load_test import Calibration, Level
from kvstore.load_test.estimates import Estimate, steady_part
from kvstore.load_test.levels import level_of
from kvstore.measure.recorder import Recorder
from kvstore.protocol import STATUSES

OK, LATE = STATUSES.index("OK"), STATUSES.index("DEADLINE_EXCEEDED")


def level(in_flight, per_s, *, failed=0, ended=100):
    return Level(
        in_flight=in_flight,
        throughput=Estimate.within(per_s, 0.01),
        residence=Estimate.within(in_flight / per_s, 0.01),
        ended_per_s=per_s,
        ended_residence_s=in_flight / per_s,
        in_flight_mean=in_flight,
        statuses={"OK": ended - failed, "DEADLINE_EXCEEDED": failed},
    )


GOOD = [level(1, 10.0), level(2, 20.0), level(4, 39.0)]


def test_a_level_with_failures_is_no_ceiling_however_fast_it_looks():
    seen = Calibration(levels=[*GOOD, level(8, 2400.0, failed=97)], machine_cores=2)

    assert 8 == seen.fails_from.in_flight
    assert 39.0 == seen.ceiling_per_s


def test_a_longer_run_with_failures_is_no_ceiling_either():
    held = level(4, 7.0, failed=90)
    seen = Calibration(levels=GOOD, machine_cores=2, held=held)

    assert held is seen.fails_from
    assert 20.0 == seen.ceiling_per_s


def test_where_the_same_share_always_fails_the_fastest_level_is_the_ceiling():
    usual = [level(1, 8.0, failed=20), level(2, 16.0, failed=21), level(4, 31.0, failed=19)]

    assert 31.0 == Calibration(levels=usual, machine_cores=2).ceiling_per_s


def test_no_failure_of_a_few_calls_does_not_make_later_ones_new():
    lucky = [level(1, 8.0, ended=7), level(2, 16.0, failed=4, ended=20), level(4, 31.0, failed=20)]

    seen = Calibration(levels=lucky, machine_cores=2)

    assert seen.fails_from is None
    assert 31.0 == seen.ceiling_per_s
    assert seen.fails_always == pytest.approx(24 / 127)


def test_the_first_part_of_a_level_is_left_out():
    recorder, sent_s = Recorder(), 0.0
    while sent_s < 2.0:
        done_s = sent_s + (0.05 if sent_s < 0.25 else 0.01)
        recorder.record(float("nan"), sent_s, done_s, 2, OK, 8, 8)
        sent_s = done_s
    level = level_of(run_of_recorder(recorder, in_flight=1))

    assert level.residence_s == pytest.approx(0.01)
    assert level.throughput_per_s == pytest.approx(100)
    assert level.little == pytest.approx(1)


def test_a_few_calls_that_end_ok_together_are_counted_over_the_whole_window():
    """Within a millisecond of each other they would look like thousands per second."""
    recorder = Recorder()
    for number in range(400):
        ends_s = 0.01 * number
        status = OK if number in (200, 201, 202) else LATE
        if status == OK:
            ends_s = 2.0 + 0.0005 * (number - 200)
        recorder.record(float("nan"), ends_s - 0.04, ends_s, 2, status, 8, 8)
    steady = steady_part(run_of_recorder(recorder).records, 4, 0.0, 4.0)

    assert steady.throughput.value == pytest.approx(3 / 4, rel=0.05)
    assert steady.throughput.low < 3 / 4 < steady.throughput.high
    assert steady.residence.value == pytest.approx(0.04)
