"""The interval of a model's value, and what it is built from."""

import dataclasses

import numpy as np
import pytest
from made_runs import closed_loop

from kvstore.course import calibration
from kvstore.measure import cores
from kvstore.measure.server_report import ServerReport

THIS = calibration.Calibration(0.001, 0.0015, 0.0003, cores(), delays_spread=0.02, cpu_spread=0.10)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.sqlite"))

    def keep(made):
        calibration._path().write_text(calibration.json.dumps(dataclasses.asdict(made)))

    return keep


def test_nine_of_ten_further_runs_lie_within_the_spread_of_five():
    draw, held = np.random.default_rng(), []
    for _ in range(2_000):
        *rates, further = np.exp(draw.normal(0.0, 0.1, calibration.RUNS + 1))
        runs = [closed_loop(1, 100 * rate, rounds=2) for rate in rates]
        mean = np.exp(np.mean(np.log([run.answered_per_s for run in runs])))
        held.append(
            abs(np.log(100 * further / mean))
            < calibration.spread([run.answered_per_s for run in runs])
        )

    assert np.mean(held) == pytest.approx(0.9, abs=0.03)


def test_a_machine_that_varies_more_gets_wider_intervals(kept):
    run = closed_loop(1, 100, rounds=20)
    wide = []
    for spread in (0.02, 0.20):
        kept(dataclasses.replace(THIS, delays_spread=spread))
        low, high = calibration.interval(100.0, run, cpu=False, unit="calls")
        assert low < 100 < high
        wide.append(high - low)

    assert wide[1] > 3 * wide[0]


def test_a_ratio_varies_more_than_a_run(kept):
    kept(THIS)
    run = closed_loop(1, 100, rounds=20)
    one, two = (calibration.interval(2.0, run, cpu=True, unit=each) for each in ("calls", "times"))

    assert two[0] < one[0] < one[1] < two[1]


def test_a_rate_may_be_lower_by_what_a_call_takes_beyond_its_disk(kept):
    kept(dataclasses.replace(THIS, pace_s=1e-9, beyond_disk_s=0.010))
    alone, many = (closed_loop(n, 100, rounds=20) for n in (1, 100))
    low = {
        run.in_flight: calibration.interval(100.0, run, cpu=False, unit="calls/s")[0]
        for run in (alone, many)
    }

    assert low[1] < 55 < 90 < low[100]  # 10 ms more of 10 ms, and of 1 s
    assert calibration.interval(0.010, alone, cpu=False, unit="s")[1] > 0.020


def test_a_rate_may_be_as_low_as_a_processor_of_calls_lets_it_be(kept):
    kept(dataclasses.replace(THIS, pace_s=0.001))
    few, many = (closed_loop(n, 25 * n, rounds=20) for n in (4, 100))
    low = {
        run.in_flight: calibration.interval(25.0 * run.in_flight, run, cpu=False, unit="calls/s")[0]
        for run in (few, many)
    }

    assert 80 < low[4] < 100  # the processor is hardly used
    assert 700 < low[100] < 1_000  # 2,500 by the delays, 1,000 by the processor


def test_a_call_through_a_front_takes_the_processor_twice(kept):
    kept(dataclasses.replace(THIS, pace_s=0.001))
    run = closed_loop(100, 2_500, rounds=20)
    front = ServerReport.of({"settings": {"back_end": "127.0.0.1:9"}})
    behind = dataclasses.replace(run, server=front)
    low, lower = (
        calibration.interval(2_500.0, each, cpu=False, unit="calls/s")[0] for each in (run, behind)
    )

    assert lower == pytest.approx(low / 2, rel=0.1)


def test_what_a_call_takes_beyond_its_disk_may_differ_between_two_runs(kept):
    kept(dataclasses.replace(THIS, pace_s=1e-9, beyond_disk_s=0.002))
    short, long = (closed_loop(8, 8 / each_s, rounds=20) for each_s in (0.010, 1.0))
    wide, narrow = (
        calibration.interval(1.0, run, cpu=False, unit="times") for run in (short, long)
    )

    assert wide[0] < 1 / 1.2 < narrow[0] < narrow[1] < 1.2 < wide[1]


def test_the_last_of_calls_that_were_sent_at_once_waits_for_the_others(kept):
    kept(dataclasses.replace(THIS, pace_s=0.001))
    alone, many = (closed_loop(n, 20 * n, rounds=1) for n in (1, 100))
    latest = [calibration.interval(50.0, run, cpu=False, unit="ms")[1] for run in (alone, many)]

    assert latest[0] < 60 < 145 < latest[1]


@pytest.mark.parametrize("text", ["[]", '{"cores": 1}'])
def test_a_calibration_that_cannot_be_read_is_none(kept, text):
    kept(THIS)
    assert calibration.known() == THIS
    calibration._path().write_text(text)
    assert calibration.known() is None


def test_another_machine_is_calibrated_anew(kept):
    kept(dataclasses.replace(THIS, cores=cores() + 1))
    assert calibration.known() is None
