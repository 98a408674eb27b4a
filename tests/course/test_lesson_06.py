"""Lesson 06: what its exercises accept, and the models of its questions."""

import dataclasses
import math
from contextlib import ExitStack

import grpc
import pytest
from made_runs import closed_loop, run_of

from kvstore.course.experiments.several_servers import spread_over
from kvstore.course.lessons.lesson_06 import exercises as lesson_06
from kvstore.course.lessons.lesson_06 import figures, questions
from kvstore.measure.run import Cpu
from kvstore.server import serving

# ---- channels ------------------------------------------------------------------------------------


def plain(address, count):
    return [grpc.insecure_channel(address) for _ in range(count)]


def test_a_run_over_two_connections_fills_the_streams_of_both():
    """Two channels that share one connection get the cap of one."""
    capped = {"use_asyncio": True, "locking": "per_key", "read_delay_s": 0.040, "max_streams": 2}
    one_per_s = 2 / 0.040

    def rate_per_s(opening):
        with serving(**capped, refuse_streams=False) as server, ExitStack() as stack:
            channels = [stack.enter_context(each) for each in opening(server.address, 2)]
            return spread_over([server], *channels, in_flight=8, duration_s=0.6).answered_per_s

    assert rate_per_s(plain) < 1.1 * one_per_s
    # a busy machine can slow a run down, and speed up none beyond its streams
    assert any(rate_per_s(lesson_06.own_connections) > 1.3 * one_per_s for _ in range(3))


# ---- behind a cap --------------------------------------------------------------------------------


@pytest.mark.parametrize("in_flight", [1, 4, 7, 20])
@pytest.mark.parametrize("connections", [1, 2, 3])
def test_the_rate_behind_a_cap_is_that_of_a_queue_walked_through(in_flight, connections):
    """Every call keeps its stream for the disk and the CPU, one after the other at the CPU."""
    disk_s, cpu_s, cap, calls = 0.010, 0.001, 4, 4_000
    streams = [0.0] * min(in_flight, connections * cap)
    cpu_free_s = 0.0
    for _ in range(calls):
        place = streams.index(min(streams))
        from_disk_s = streams[place] + disk_s
        cpu_free_s = max(cpu_free_s, from_disk_s) + cpu_s
        streams[place] = cpu_free_s

    assert calls / cpu_free_s == pytest.approx(
        lesson_06.rate_per_s(in_flight, connections, cap, disk_s, cpu_s), rel=0.02
    )


# ---- models of the questions ---------------------------------------------------------------------


def made(in_flight, per_s, *, connections=1, cap=4, read_delay_s=0.010, wanted=None):
    """A closed loop at a rate, against a server with a disk and a cap of streams."""
    settings = {"read_delay_s": read_delay_s, "max_streams": cap}
    return dataclasses.replace(
        closed_loop(in_flight, per_s, rounds=20),
        connections=connections,
        settings={"connections": connections if wanted is None else wanted},
        server={"settings": settings, "operations": {}},
    )


def test_the_model_of_the_bend_comes_from_another_run_than_the_measurement():
    """The first edition showed U/D beside X: the CPU time per call cancelled, so it always held."""
    ceiling = next(each for each in questions.PREDICTIONS if each.id == "06.ceiling")
    cpu = Cpu(user_s=0.1, system_s=0.0, loop_s=0.1)
    probe = dataclasses.replace(made(10, 100), client_cpu=cpu, server_cpu=cpu)
    slow, fast = [made(10, 300)], [made(10, 600)]

    assert ceiling.model(probe, slow).value == ceiling.model(probe, fast).value
    assert ceiling.measured(probe, fast) == pytest.approx(2 * ceiling.measured(probe, slow))


# ---- two clients ---------------------------------------------------------------------------------


def two_connections():
    """Two calls on each of two connections; the last call of the second was refused."""
    run = run_of(
        [
            (0.00, 0.01, "retrieve"),
            (0.00, 0.03, "retrieve"),
            (0.01, 0.02, "retrieve"),
            (0.03, 0.04, "retrieve", "UNAVAILABLE"),
        ],
        in_flight=2,
        window_s=0.1,
    )
    records = run.records.copy()
    records["connection"] = [0, 0, 1, 1]  # in the order of their answers
    return dataclasses.replace(run, records=records, connections=2, connect_s=(0.5, 0.7))


def test_the_spread_by_hand():
    assert [1.0, 9.0, 4.0, 3.0, 75.0] == pytest.approx(figures.spread([1.0, 3.0, 3.0, 9.0]))
    assert all(math.isnan(cell) for cell in figures.spread([]))


def test_a_run_in_the_form_of_h2loads_table():
    table = figures.h2load_table(two_connections())

    assert [10.0, 30.0] == list(table.loc["request (ms)", ["min", "max"]])
    assert [500.0, 700.0, 600.0] == list(table.loc["connect (ms)", ["min", "max", "mean"]])
    # The first connection sends at 0 and hears at 0.01; the second at 0 and at 0.03.
    assert [510.0, 730.0] == list(table.loc["first byte (ms)", ["min", "max"]])
    assert [10.0, 20.0] == list(table.loc["calls/s of a connection", ["min", "max"]])


def test_two_clients_stand_side_by_side():
    mine = two_connections()
    table = figures.side_by_side_table(
        {"1b": mine}, {"1b": dataclasses.replace(mine, window_s=0.05)}
    )

    assert [2, 30.0, 60.0, 0.5] == list(
        table.loc[
            "1b",
            [
                "connections, counted",
                "ours (operations/s)",
                "h2load (operations/s)",
                "ours ÷ h2load",
            ],
        ]
    )
