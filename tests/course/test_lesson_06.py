"""Lesson 06: what its exercises accept, and the models of its questions."""

import dataclasses
from contextlib import ExitStack

import grpc
import pytest
from made_runs import closed_loop
from stacks import reads_per_s

from kvstore.course.lessons.lesson_06 import questions
from kvstore.course.my_code import course_version
from kvstore.course.questions import registered
from kvstore.measure import ServerReport
from kvstore.measure.run import Cpu
from kvstore.server import serving


def plain(address, count):
    return [grpc.insecure_channel(address) for _ in range(count)]


def test_a_run_over_two_connections_fills_the_streams_of_both():
    """Two channels that share one connection get the cap of one."""
    capped = {"use_asyncio": True, "locking": "per_key", "read_delay_s": 0.040, "max_streams": 2}
    one_per_s = 2 / 0.040

    def rate_per_s(opening):
        with serving(**capped, refuse_streams=False) as server, ExitStack() as stack:
            channels = [stack.enter_context(each) for each in opening(server.address, 2)]
            return reads_per_s([server], *channels, duration_s=0.6)[0]

    assert rate_per_s(plain) < 1.1 * one_per_s
    # a busy machine can slow a run down, and speed up none beyond its streams
    own_connections = course_version("clients.own_connections")
    assert any(rate_per_s(own_connections) > 1.3 * one_per_s for _ in range(3))


def made(in_flight, per_s):
    """A closed loop at a rate, against a server with a disk and a cap of streams."""
    server = ServerReport.of({"settings": {"read_delay_s": 0.010, "max_streams": 4}})
    return dataclasses.replace(closed_loop(in_flight, per_s, rounds=20), server=server)


def with_cpu(run, client_s, server_s):
    """The run with so many CPU seconds in each process, all of them in its loop."""
    seconds = {"client_cpu": client_s, "server_cpu": server_s}
    cpu = {name: Cpu(user_s=s, system_s=0.0, loop_s=s) for name, s in seconds.items()}
    return dataclasses.replace(run, **cpu)


def test_the_model_of_the_curve_comes_from_another_run_than_the_measurement():
    """The first edition showed U/D beside X: the CPU time per call cancelled, so it always held."""
    curve = registered("06.curve")
    probe = with_cpu(made(10, 100), 0.1, 0.1)
    slow, fast = [made(20, 300)], [made(20, 600)]

    assert curve.model(probe, slow) == curve.model(probe, fast)
    assert curve.measured(probe, fast)[20] == pytest.approx(2 * curve.measured(probe, slow)[20])


def test_a_second_client_doubles_what_a_client_limits_until_the_cores_are_full():
    def times(client_s, server_s):
        run = with_cpu(made(10, 100), client_s, server_s)
        return questions.second_client(dataclasses.replace(run, host={"cores": 8}), run).value

    assert times(0.8, 0.1) == pytest.approx(2)
    assert times(0.8, 0.5) == pytest.approx(0.8 / 0.5)
    assert times(0.1, 0.8) == pytest.approx(1)
