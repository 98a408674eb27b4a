"""The processors of a machine as stations, from runs with known numbers."""

import dataclasses
import math

from made_runs import run_of, staircase

from kvstore.course import machine
from kvstore.measure import Cpu
from kvstore.model import bounds


def run_at(per_s, *, client_cpu_s=0.02, server_cpu_s=0.03, calls=100):
    """A run of `calls` calls, one after the other, at this throughput."""
    each_s = 1 / per_s
    made = run_of([(n * each_s, (n + 1) * each_s, "retrieve") for n in range(calls)])
    return dataclasses.replace(
        made, client_cpu=Cpu(client_cpu_s, 0.0), server_cpu=Cpu(0.0, server_cpu_s)
    )


def test_the_busier_process_binds_and_one_core_is_shared(monkeypatch):
    monkeypatch.setattr("kvstore.course.machine.cores", lambda: 2)
    bound = bounds.closed_loop(100, machine.cpu_stations(run_at(1000)))
    assert (bound.binds, round(bound.value)) == ("CPU of the server", 3333)

    monkeypatch.setattr("kvstore.course.machine.cores", lambda: 1)
    assert math.isclose(2000, bounds.closed_loop(100, machine.cpu_stations(run_at(1000))).value)


def test_the_demand_of_a_process_is_the_part_of_its_loop():
    """gRPC's own threads work beside the loop: their time is no demand on the interpreter."""
    run = dataclasses.replace(
        staircase(1000, in_flight=20),
        client_cpu=Cpu(0.10, 0.02, loop_s=0.08),
        server_cpu=Cpu(0.30, 0.10, loop_s=0.30),
    )

    bound = bounds.closed_loop(100, machine.cpu_stations(run))
    assert 1000 / 0.40 < bound.value <= 1000 / 0.26 + 1e-6
