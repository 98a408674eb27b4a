"""The tables and the verdict on a machine, from runs with known numbers."""

import dataclasses
import math

import pytest
from made_runs import run_of, staircase, timed

from kvstore.course import machine
from kvstore.measure import Cpu, ServerReport
from kvstore.model import bounds


def run_at(per_s, *, client_cpu_s=0.02, server_cpu_s=0.03, calls=100):
    """A run of `calls` calls, one after the other, at this throughput."""
    each_s = 1 / per_s
    made = run_of([(n * each_s, (n + 1) * each_s, "retrieve") for n in range(calls)])
    return dataclasses.replace(
        made, client_cpu=Cpu(client_cpu_s, 0.0), server_cpu=Cpu(0.0, server_cpu_s)
    )


GROUPS = {"A": [run_at(1000), run_at(1100)], "B": [run_at(1040), run_at(1060)]}


def test_the_verdict_follows_from_the_spread():
    verdicts = {0.0: "quiet", 0.10: "quiet", 0.11: "usable", 0.30: "usable", 0.31: "noisy"}

    assert verdicts == {spread: machine.Noise(spread, 0.0).verdict for spread in verdicts}


def test_noise_is_a_ratio_of_rates_and_comes_with_advice():
    measured = machine.noise(GROUPS)
    assert math.isclose(0.1, measured.spread, abs_tol=1e-9)
    assert math.isclose(0.0, measured.between_medians, abs_tol=1e-9)
    assert "host" not in str(measured)
    assert "gave 0.50 of your cores" in str(machine.Noise(0.0, 0.0, stolen_cores=0.5))

    noisy = machine.noise({"A": [run_at(1000), run_at(2000)], "B": [run_at(1000), run_at(1000)]})
    assert machine.ADVICE["noisy"] in str(noisy)

    with pytest.raises(ValueError, match="2 or more runs, got 1"):
        machine.noise({"A": [run_at(1000)], "B": [run_at(1000)]})


def test_the_busier_process_binds_and_one_core_is_shared(monkeypatch):
    monkeypatch.setattr("kvstore.course.machine.cores", lambda: 2)
    bound = bounds.closed_loop(100, machine.cpu_stations(run_at(1000)))
    assert (bound.binds, round(bound.value)) == ("CPU of the server", 3333)

    monkeypatch.setattr("kvstore.course.machine.cores", lambda: 1)
    assert math.isclose(2000, bounds.closed_loop(100, machine.cpu_stations(run_at(1000))).value)


def test_the_timer_table_compares_the_disk_time_set_with_the_one_measured():
    row = machine.timer({"asyncio": timed(0.0025, [0.002, 0.0021, 0.0023])}).loc[("asyncio", 2.5)]
    assert [2.0, 2.1, 2.3, -0.4] == pytest.approx(list(row))

    run = dataclasses.replace(staircase(), server=ServerReport.of({"settings": {"threads": 8}}))
    with pytest.raises(ValueError, match="station_times=True"):
        machine.timer({"threads": run})
