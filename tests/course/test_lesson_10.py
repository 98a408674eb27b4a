"""Lesson 10: what its exercises accept, the models of its questions, and what grpcio does."""

import dataclasses
import random

import grpc
import made_runs
import pytest

from kvstore.client import load, measured_channel, strategies, workload
from kvstore.course.lessons.lesson_10 import exercises as lesson_10
from kvstore.course.lessons.lesson_10 import questions as lesson_10_questions
from kvstore.course.my_code import course_version
from kvstore.course.questions import registered
from kvstore.measure.recorder import Recorder
from kvstore.server import serving
from kvstore.v1.kvstore_pb2 import RetrieveRequest
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

# What grpcio does -----------------------------------------------------------------------------


def attempts_seen(config, status="UNAVAILABLE", calls=1):
    """The attempts that a server counts of calls which end with this status."""
    with lesson_10._calling(config) as (server, call):
        for _ in range(calls):
            call(status)
        return len(server.arrived)


def test_grpc_caps_the_attempts_at_five_and_ignores_a_hedging_policy():
    """If this grpcio hedges one day, the lesson need not hedge by hand."""
    nine = course_version("limits.retry_config")(9, 0.01, 100, 0.1)
    policy = {"maxAttempts": 3, "hedgingDelay": "0.01s", "nonFatalStatusCodes": ["UNAVAILABLE"]}
    hedged = {"methodConfig": [{"name": [{}], "hedgingPolicy": policy}]}

    assert attempts_seen(nine) == 5
    assert attempts_seen(hedged) == 1


def test_a_run_and_a_measured_channel_take_a_service_config():
    """The front answers UNAVAILABLE; its count has all attempts, the records have the calls."""
    creates = workload.Workload(mix={"create": 1}, value_bytes_mean=8)
    config = course_version("limits.retry_config")(3, 0.005, 1000, 0.1)
    with serving(use_asyncio=True, back_end="127.0.0.1:1") as front:
        run = load.run(strategies.futures, front, creates, calls=6, service_config=config)
        tasks = load.run(
            strategies.tasks, front, creates, calls=4, in_flight=2, service_config=config
        )
        with measured_channel(front, service_config=config) as channel:
            with pytest.raises(grpc.RpcError):
                KeyValueServiceStub(channel).Retrieve(RetrieveRequest(key=b"k"), timeout=5)
            assert len(channel.run().records) == 1

    assert dict(run.outcomes()) == {"UNAVAILABLE": 6}
    assert run.server.operations == {"create/UNAVAILABLE": 18}
    assert tasks.server.operations == {"create/UNAVAILABLE": 12}


@pytest.mark.parametrize("use_asyncio", [True, False])
def test_a_front_gives_up_on_a_slow_back_end(use_asyncio):
    """UNAVAILABLE while the caller still waits, DEADLINE_EXCEEDED when it does not."""
    slow = {"read_delay_s": 0.6, "write_delay_s": 0, "locking": "per_key"}
    reads = workload.reads(keys=1, value_bytes_mean=8)
    with (
        serving(**slow) as back,
        serving(use_asyncio=use_asyncio, back_end=back.address, back_end_timeout_s=0.2) as front,
    ):
        patient = load.run(strategies.futures, front, reads, calls=2, deadline_s=20)
        hasty = load.run(strategies.futures, front, reads, calls=2, deadline_s=0.1)

    assert dict(patient.outcomes()) == {"UNAVAILABLE": 2}
    assert dict(hasty.outcomes()) == {"DEADLINE_EXCEEDED": 2}


# Models of the questions -----------------------------------------------------------------------


def storm(failing=1.0):
    """Calls for 6 s, 70 a second; the given share of those due in the last third fails."""
    recorder = Recorder()
    for number in range(420):
        due_s = number / 70
        late = due_s >= 4 and (number % 10) < 10 * failing
        recorder.record(due_s, due_s, due_s + 0.1, 2, 14 if late else 0, 64, 64)
    return dataclasses.replace(
        made_runs.run_of([]),
        settings={"duration_s": 6.0},
        issued=420,
        records=recorder.array(),
    )


def test_the_models_of_the_storm_and_of_a_fault_that_lasts():
    late = registered("10.storm")

    assert late.measured(storm(0.5)) == 50
    assert late.model(storm()).value == 100
    assert lesson_10_questions.failing_for_long(0.2, 0.1).value == pytest.approx(20)
    assert lesson_10_questions.failing_for_long(0.2, 0.5).value == pytest.approx(0.16)


@pytest.mark.parametrize(("failing", "lasts"), [(0.07, True), (0.12, False)])
def test_a_budget_lasts_while_few_enough_attempts_fail(failing, lasts):
    """gRPC's tokens, one attempt after the other: the law is f <= r/(1 + r), here 9 %."""
    draw, left, tokens, retried, calls = random.Random(10), 1000.0, 1000.0, 0, 40_000
    for number in range(calls):
        for attempt in range(1, 5):
            failed = draw.random() < failing
            left = min(tokens, max(0.0, left + (-1 if failed else 0.1)))
            if not failed or left <= tokens / 2 or attempt == 4:
                break
            retried += number > calls / 2

    assert lasts == (lesson_10_questions.failing_for_long(failing, 0.1).value < failing * 50)
    assert lasts == (retried > 0.5 * failing * calls / 2)
