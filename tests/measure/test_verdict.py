"""verdict.py: whether the generator limited a run, told by hand-made facts."""

import math
from collections import namedtuple

import psutil
import pytest
from traces import Made, run_of

from kvstore.measure import Cpu, summary, verdict
from kvstore.measure.sampler import machine_busy_s, machine_stolen_s

TEN_S = [Made(n, n + 1.0) for n in range(10)]


def judged(client_s, server_s, **facts):
    """Ten calls in ten seconds, with so much processor time on each side, on four cores."""
    facts = {"host": {"cores": 4}, "client_cpu": Cpu(client_s, 0), **facts}
    return verdict(run_of(TEN_S, server_cpu=Cpu(0, server_s), **facts))


@pytest.mark.parametrize(
    ("client_s", "server_s", "binds", "says"),
    [
        (0.5, 9.9, False, "kept 0.05 of a core busy: no sign that it was the limit"),
        (8.4, 1.0, False, "no sign that it was the limit"),
        (8.6, 1.0, True, "kept 0.86 of a core busy: it may be the generator that was measured"),
        (9.0, 9.0, True, "of a core busy, the server 0.90: it may be the generator"),
    ],
)
def test_a_generator_with_no_time_left_may_be_the_limit(client_s, server_s, binds, says):
    told = judged(client_s, server_s)

    assert (client_s / 10, server_s / 10) == pytest.approx((told.client_cores, told.server_cores))
    assert binds == told.generator_binds
    assert says in str(told)


def test_on_a_full_machine_each_takes_the_others_time():
    told = judged(4.8, 4.9, host={"cores": 1})

    assert told.generator_binds
    assert 0.97 == pytest.approx(told.machine_share)
    assert "97% of this machine" in told.reason


def test_two_generators_have_a_core_each():
    assert not judged(12.0, 1.0, settings={"processes": 2}).generator_binds
    assert judged(18.0, 1.0, settings={"processes": 2}).generator_binds


@pytest.mark.parametrize(
    ("late_s", "residence_s", "binds"),
    [(0.004, 0.001, False), (0.2, 1.0, False), (0.3, 1.0, True), (0.006, 0.001, True)],
)
def test_in_an_open_loop_lateness_is_held_against_what_a_call_takes(late_s, residence_s, binds):
    calls = [Made(n, n + residence_s, due_s=n - late_s) for n in range(20)]
    told = verdict(run_of(calls, client_cpu=Cpu(0.1, 0.1), server_cpu=Cpu(0.1, 0.1)))

    assert pytest.approx(late_s) == told.late_s
    assert binds == told.generator_binds
    assert binds == ("the generator was late" in told.reason)


def test_in_a_closed_loop_nothing_is_late():
    assert math.isnan(judged(1, 1).late_s)


@pytest.mark.parametrize(
    "run",
    [run_of(TEN_S), run_of([Made(0, 0.1)], client_cpu=Cpu(9, 9)), run_of([], window_s=0.0)],
    ids=["unseen", "short", "empty"],
)
def test_what_cannot_be_told_is_not_claimed(run):
    assert not verdict(run).generator_binds
    assert "too short, or too far away, to tell" in str(verdict(run))


def test_the_summary_of_a_run_says_it():
    run = run_of(TEN_S, client_cpu=Cpu(9, 0.5), server_cpu=Cpu(1, 0))

    assert "it may be the generator that was measured" in summary(run).loc["verdict"].iloc[0]


@pytest.mark.parametrize(
    ("others", "crowded"), [(math.nan, False), (0.1, False), (1.0, False), (3.0, True)]
)
def test_other_programs_that_leave_no_core_are_named(others, crowded, monkeypatch):
    """Client and server keep one of four cores busy between them."""
    monkeypatch.setattr("psutil.cpu_count", lambda: 4)
    told = judged(5.0, 5.0, machine_cpu_s=10.0 * (others + 1.0))

    assert pytest.approx(others, nan_ok=True) == told.others_cores
    assert crowded == ("other programs kept 3.0 of 4 cores busy" in told.reason)
    assert "no sign that it was the limit" in told.reason


@pytest.mark.parametrize(("stolen_s", "told"), [(math.nan, 0.0), (0.4, 0.04), (4.0, 0.4)])
def test_what_the_host_took_is_named_and_is_not_other_programs(stolen_s, told):
    seen = judged(5.0, 5.0, machine_cpu_s=14.0, machine_stolen_s=stolen_s)

    assert pytest.approx(told) == seen.stolen_cores
    assert pytest.approx(0.4 - told) == seen.others_cores
    assert ("host of this virtual machine took 0.40 of a core" in seen.reason) == (told > 0.05)


def test_what_the_host_took_is_part_of_what_the_machine_was_busy_with(monkeypatch):
    """With the field of Linux, and without it, as on other systems."""
    fields = {"user": 3.0, "system": 2.0, "idle": 9.0, "steal": 1.5}
    monkeypatch.setattr("psutil.cpu_times", lambda: namedtuple("times", fields)(**fields))
    assert (6.5, 1.5) == (machine_busy_s(), machine_stolen_s())

    del fields["steal"]
    monkeypatch.setattr("psutil.cpu_times", lambda: namedtuple("times", fields)(**fields))
    assert machine_busy_s() == 5.0
    assert math.isnan(machine_stolen_s())


def test_the_time_of_the_whole_machine_is_at_least_ours():
    before_s, ours = machine_busy_s(), psutil.Process()
    mine_s = sum(ours.cpu_times()[:2])
    while sum(ours.cpu_times()[:2]) - mine_s < 0.1:
        sum(range(10_000))

    assert machine_busy_s() - before_s > 0.05
