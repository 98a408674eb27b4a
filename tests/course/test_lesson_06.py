"""Lesson 06: what its exercises accept, and the models of its questions."""

import dataclasses
from contextlib import ExitStack

import grpc
import pytest
from made_runs import closed_loop

from kvstore.course.exercises import find
from kvstore.course.exercises.grading import judged
from kvstore.course.experiments.several_servers import spread_over
from kvstore.course.lessons.lesson_06 import exercises as lesson_06
from kvstore.course.lessons.lesson_06 import external_clients, questions
from kvstore.measure.run import Cpu
from kvstore.server import serving

# ---- channels ------------------------------------------------------------------------------------


def with_different_options(address, count):
    """Channels share only with channels of the same options."""
    return [
        grpc.insecure_channel(address, options=[("grpc.primary_user_agent", f"caller {place}")])
        for place in range(count)
    ]


def in_a_tuple(address, count):
    channels = ()
    while len(channels) < count:
        options = (("grpc.use_local_subchannel_pool", True),)
        channels += (grpc.insecure_channel(target=f"ipv4:{address}", options=options),)
    return channels


class PassesOn(grpc.UnaryUnaryClientInterceptor):
    def intercept_unary_unary(self, continuation, client_call_details, request):
        return continuation(client_call_details, request)


def connected_first(address, count):
    channels = lesson_06.own_connections(address, count)
    for channel in channels:
        grpc.channel_ready_future(channel).result(timeout=5)
    return channels


def intercepted(address, count):
    return [
        grpc.intercept_channel(channel, PassesOn())
        for channel in lesson_06.own_connections(address, count)
    ]


@pytest.mark.parametrize(
    "answer", [with_different_options, in_a_tuple, connected_first, intercepted]
)
def test_channels_with_own_connections_in_another_style_are_right(answer):
    verdict = judged(find("06.own_connections"), answer)

    assert verdict.passed, verdict.message


@pytest.mark.parametrize("answer", lesson_06.MORE_WRONG_CHANNELS)
def test_more_wrong_channels_are_rejected(answer):
    assert judged(find("06.own_connections"), answer).outcome == "not yet"


def plain(address, count):
    return [grpc.insecure_channel(address) for _ in range(count)]


def test_a_run_over_two_connections_fills_the_streams_of_both():
    """Two channels that share one connection get the cap of one."""
    capped = {"use_asyncio": True, "locking": "per_key", "read_delay_s": 0.040, "max_streams": 2}
    per_s = {}
    for opening in (plain, lesson_06.own_connections):
        with serving(**capped, refuse_streams=False) as server, ExitStack() as stack:
            channels = [stack.enter_context(each) for each in opening(server.address, 2)]
            run = spread_over([server], *channels, in_flight=8, duration_s=0.6)
        per_s[opening] = run.answered_per_s

    assert per_s[plain] < 1.1 * 2 / 0.040
    assert per_s[lesson_06.own_connections] > 1.4 * per_s[plain]


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


def with_two_ifs(in_flight, connections, max_streams, disk_s, cpu_s):
    inside = in_flight
    if inside > connections * max_streams:
        inside = connections * max_streams
    if inside * cpu_s >= disk_s + cpu_s:
        return cpu_s**-1
    return inside * (disk_s + cpu_s) ** -1


def by_the_longest_time(in_flight, connections, max_streams, disk_s, cpu_s):
    inside = sorted([in_flight, connections * max_streams])[0]
    return 1.0 / max(cpu_s, (disk_s + cpu_s) / inside)


def by_each_connection(in_flight, connections, max_streams, disk_s, cpu_s):
    shares = [in_flight // connections + (k < in_flight % connections) for k in range(connections)]
    inside = sum(min(share, max_streams) for share in shares)
    return min(inside / (disk_s + cpu_s), 1 / cpu_s)


@pytest.mark.parametrize("answer", [with_two_ifs, by_the_longest_time, by_each_connection])
def test_a_rate_behind_a_cap_in_another_style_is_right(answer):
    verdict = judged(find("06.behind_a_cap"), answer)

    assert verdict.passed, verdict.message


def test_constants_are_rejected():
    """The first edition tried four fixed inputs, so a table of their four results passed."""
    table = {(20, 1, 4): 200.0, (20, 2, 4): 400.0, (2, 4, 4): 100.0, (1000, 100, 10): 5000.0}

    def constants(in_flight, connections, max_streams, disk_s, cpu_s):
        return table.get((in_flight, connections, max_streams), 0.0)

    assert judged(find("06.behind_a_cap"), constants).outcome == "not yet"


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


# ---- the published log ---------------------------------------------------------------------------


@pytest.mark.skipif(external_clients.path_of("h2load") is None, reason="h2load is not installed")
@pytest.mark.parametrize("cap", [1, 8])
def test_h2load_loses_whole_multiples_of_what_the_cap_refuses(cap):
    quick = {"use_asyncio": True, "locking": "per_key", "read_delay_s": 0}
    with serving(**quick, max_streams=cap, refuse_streams=False) as server:
        failed = external_clients.refused_by_cap(server, connections=20, streams=10, requests=400)

    assert failed % (10 - cap) == 0
    assert failed <= 20 * (10 - cap)
