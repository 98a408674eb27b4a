"""validity.py: whether the load generator limited a run, judged from constructed facts."""

import math
from collections import namedtuple

import pytest
from traces import Made, run_of

from kvstore.measure import Cpu, verdict
from kvstore.measure.recorder import machine_busy_s, machine_stolen_s

TEN_S = [Made(n, n + 1.0) for n in range(10)]


def judged(client_s, server_s, **facts):
    """The verdict on ten calls in ten seconds on four cores, with this CPU time of each process."""
    facts = {"host": {"cores": 4}, "client_cpu": Cpu(client_s, 0), **facts}
    return verdict(run_of(TEN_S, server_cpu=Cpu(0, server_s), **facts))


def test_a_generator_without_idle_cpu_time_may_be_the_bottleneck(subtests):
    two = {"settings": {"processes": 2}}
    for client_s, server_s, facts, binds, says in [
        (8.4, 1.0, {}, False, "no sign that it was the bottleneck"),
        (8.6, 1.0, {}, True, "used 0.86 of a core: it may be the bottleneck"),
        (9.0, 9.0, {}, True, "of a core, the server 0.9: it may be the bottleneck"),
        (12.0, 1.0, two, False, "no sign that it was the bottleneck"),
        (18.0, 1.0, two, True, "used 0.9 of a core: it may be the bottleneck"),
        (4.8, 4.9, {"host": {"cores": 1}}, True, "97 % of this machine"),
    ]:
        with subtests.test(client_s=client_s, server_s=server_s, binds=binds, says=says):
            found = judged(client_s, server_s, **facts)

            assert binds == found.generator_binds
            assert says in str(found)


@pytest.mark.parametrize(
    ("late", "late_s", "residence_s", "binds"),
    [
        (1000, 0.2, 1.0, False),
        (1000, 0.3, 1.0, True),
        (2, 0.5, 0.01, False),  # of a thousand calls
    ],
)
def test_in_an_open_loop_lateness_is_compared_with_the_residence_time(
    late, late_s, residence_s, binds
):
    calls = [Made(n, n + residence_s, due_s=n - late_s * (n < late)) for n in range(1000)]
    found = verdict(run_of(calls, client_cpu=Cpu(0.1, 0.1), server_cpu=Cpu(0.1, 0.1)))

    assert binds == found.generator_binds
    assert binds == ("the load generator was late" in found.reason)


def test_without_data_there_is_no_claim(subtests):
    for run in [
        run_of(TEN_S),
        run_of([Made(0, 0.1)], client_cpu=Cpu(9, 9)),
        run_of([], window_s=0.0),
    ]:
        with subtests.test(run=run):
            assert not verdict(run).generator_binds
            assert "unknown whether the load generator was the bottleneck" in str(verdict(run))


def test_a_run_shorter_than_the_clock_of_cpu_time_is_not_judged_by_it():
    """The system counts in steps of 10 ms: 34 cores in a run of 1 ms."""
    found = verdict(
        run_of(
            [Made(0, 0.001)],
            client_cpu=Cpu(0.01, 0.0),
            server_cpu=Cpu(0.01, 0.0),
            machine_cpu_s=0.054,
            machine_stolen_s=0.01,
        )
    )

    assert found.client_cores <= 2
    assert math.isnan(found.other_cores)
    assert "" == found.crowd
    assert "too short" in found.reason


@pytest.mark.parametrize(
    ("client_s", "machine_s", "stolen_s", "says"),
    [
        (5.0, 20.0, 0.0, []),
        (5.0, 40.0, 0.0, ["other programs used 3 of 4 cores"]),
        (5.0, 14.0, 4.0, ["host of this virtual machine took 0.4 of a core"]),
        (9.0, 40.0, 4.0, ["other programs used 2.2", "host of this virtual machine took 0.4"]),
    ],
)
def test_other_programs_and_the_host_are_named(client_s, machine_s, stolen_s, says, monkeypatch):
    monkeypatch.setattr("psutil.cpu_count", lambda: 4)
    found = judged(client_s, 5.0, machine_cpu_s=machine_s, machine_stolen_s=stolen_s)

    assert len(says) == len(list(filter(None, found.crowd.split("; "))))
    assert all(each in found.crowd for each in says)
    shown = says[1:] if client_s > 8.5 else says[:1]  # a generator that binds took the time itself
    assert ("; but " in found.reason) == bool(shown)
    assert all(each in found.reason for each in shown)


def test_what_the_host_took_is_part_of_what_the_machine_was_busy_with(monkeypatch):
    """With the field of Linux, and without it, as on other systems."""
    fields = {"user": 3.0, "system": 2.0, "idle": 9.0, "steal": 1.5}
    monkeypatch.setattr("psutil.cpu_times", lambda: namedtuple("times", fields)(**fields))
    assert (6.5, 1.5) == (machine_busy_s(), machine_stolen_s())

    del fields["steal"]
    monkeypatch.setattr("psutil.cpu_times", lambda: namedtuple("times", fields)(**fields))
    assert machine_busy_s() == 5.0
    assert math.isnan(machine_stolen_s())
