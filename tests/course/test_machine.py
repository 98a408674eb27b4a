"""The tables, the figures and the verdict on a machine, from runs with known numbers."""

import dataclasses
import math

import pytest
from made_runs import run_of, staircase, timed

from kvstore.course import machine, rendering
from kvstore.measure import Cpu
from kvstore.model import bounds


def run_at(per_s, *, client_cpu_s=0.02, server_cpu_s=0.03, calls=100):
    """A run of `calls` calls, one after the other, at this throughput."""
    each_s = 1 / per_s
    made = run_of([(n * each_s, (n + 1) * each_s, "retrieve") for n in range(calls)])
    return dataclasses.replace(
        made, client_cpu=Cpu(client_cpu_s, 0.0), server_cpu=Cpu(0.0, server_cpu_s)
    )


GROUPS = {"A": [run_at(1000), run_at(1100)], "B": [run_at(1040), run_at(1060)]}
QUIET = machine.Noise(0.05, 0.01)


def test_the_verdict_follows_from_the_spread():
    verdicts = {0.0: "quiet", 0.10: "quiet", 0.11: "usable", 0.30: "usable", 0.31: "noisy"}

    assert verdicts == {spread: machine.Noise(spread, 0.0).verdict for spread in verdicts}


def test_noise_is_a_ratio_of_rates_and_a_noisy_machine_comes_with_advice(page):
    found = machine.noise(GROUPS)
    assert math.isclose(0.1, found.spread, abs_tol=1e-9)
    assert math.isclose(0.0, found.between_medians, abs_tol=1e-9)
    assert len(page) == 1

    machine.noise({"A": [run_at(1000), run_at(2000)], "B": [run_at(1000), run_at(1000)]})
    assert "Close other programs" in page[1]["text/plain"]
    assert "A noisy machine" in page[1]["text/html"]

    with pytest.raises(ValueError, match="2 or more runs, got 1"):
        machine.noise({"A": [run_at(1000)], "B": [run_at(1000)]})


def test_the_busier_process_binds_and_one_core_is_shared(monkeypatch):
    monkeypatch.setattr("kvstore.course.machine.cores", lambda: 2)
    bound = bounds.closed_loop(100, machine.cpu_stations(run_at(1000)))
    assert (bound.binds, round(bound.value)) == ("CPU of the server", 3333)

    monkeypatch.setattr("kvstore.course.machine.cores", lambda: 1)
    assert math.isclose(2000, bounds.closed_loop(100, machine.cpu_stations(run_at(1000))).value)
    assert machine.TIGHT == lessons()["06_saturation"]


def test_the_timer_table_compares_the_disk_time_set_with_the_one_measured():
    row = machine.timer({"asyncio": timed(0.0025, [0.002, 0.0021, 0.0023])}).loc[("asyncio", 2.5)]
    assert [2.0, 2.1, 2.3, -0.4] == pytest.approx(list(row))

    run = dataclasses.replace(staircase(), server={"settings": {}})
    with pytest.raises(ValueError, match="station_times=True"):
        machine.timer({"threads": run})


def lessons(**changed):
    given = {
        "round_trip": run_at(2000),
        "crud": run_at(3000),
        "pipelined": run_at(9000, client_cpu_s=0.005, server_cpu_s=0.005),
        "noise": QUIET,
        "free_bytes": 4e9,
    }
    return machine.lessons(**given | changed)["this machine"]


def test_a_good_machine_fits_every_lesson_and_each_lesson_has_its_own_need(monkeypatch):
    monkeypatch.setattr("kvstore.course.machine.cores", lambda: 2)
    assert [machine.YES] * 12 == list(lessons())

    slow = run_at(50)
    costly = run_at(3000, server_cpu_s=0.2)

    assert machine.TIGHT == lessons(noise=machine.Noise(0.5, 0.1))["00_start_here"]
    assert machine.NO == lessons(round_trip=slow)["01_blocking"]
    assert machine.NO == lessons(free_bytes=6e8)["02_futures"]
    assert machine.NO == lessons(crud=costly)["03_bounded"]
    assert machine.TIGHT == lessons(round_trip=run_at(500))["04_server"]
    assert machine.TIGHT == lessons(pipelined=run_at(1000, server_cpu_s=0.2))["05_pipelined"]
    assert (
        machine.TIGHT
        == lessons(round_trip=run_at(500, server_cpu_s=0.1))["07_threads_and_coroutines"]
    )
    assert machine.NO == lessons(free_bytes=6e8)["09_overload"]
    assert machine.NO == lessons(free_bytes=6e8)["12_beyond_one_machine"]
    costly_call = run_at(500, server_cpu_s=2.0)
    assert machine.NO == lessons(round_trip=costly_call)["15_design_one"]


def test_the_size_that_fits_keeps_the_processor_below_its_limit(monkeypatch):
    monkeypatch.setattr("kvstore.course.machine.cores", lambda: 2)
    most = machine.most_in_flight(run_at(3000, server_cpu_s=0.1), 0.040)

    assert most / 0.040 * 0.001 <= machine.MOST_BUSY  # calls/s times 1 ms each
    assert 30 <= most <= 40


def test_the_loops_cpu_time_stands_beside_a_run_that_has_a_loop():
    run = run_at(1000)
    looped = dataclasses.replace(run, client_cpu=run.client_cpu._replace(loop_s=run.issued * 80e-6))
    table = machine.cpu_per_call({"pool": run, "loop": looped})

    assert [rendering.NONE, 80] == list(table["client's loop (µs/call)"])
    assert "server's loop (µs/call)" not in table
