"""Lesson 07: what its exercises accept, and the models of its questions."""

import asyncio
import dataclasses
import re
from types import SimpleNamespace

import grpc
import made_runs
import pandas as pd
import pytest
from grpc.aio import AioRpcError

from kvstore.client import pacing
from kvstore.course.exercises.grading import judged
from kvstore.course.lessons.lesson_07 import exercises as lesson_07
from kvstore.course.lessons.lesson_07 import exercises_server as lesson_07_server
from kvstore.course.questions import registered
from kvstore.measure import Sample
from kvstore.measure.run import Cpu
from kvstore.protocol import StationTimes
from kvstore.v1.kvstore_pb2 import RetrieveRequest, RetrieveResponse
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceServicer,
    add_KeyValueServiceServicer_to_server,
)

# 07.front -------------------------------------------------------------------------------------


class SetsTheCode(KeyValueServiceServicer):
    """No `abort`: the status is set, and an empty reply is returned."""

    def __init__(self, stub):
        self.stub = stub

    async def Retrieve(self, request, context):
        call = self.stub.Retrieve(request, timeout=context.time_remaining())
        if await call.code() is not grpc.StatusCode.OK:
            context.set_code(await call.code())
            context.set_details(await call.details())
            return RetrieveResponse()
        return await call


class WithATask(lesson_07_server.Front):
    """The call runs in a task of its own, and its reply is copied."""

    async def Retrieve(self, request, context):
        async def ask():
            left_s = context.time_remaining()
            return await self.stub.Retrieve(RetrieveRequest(key=request.key), timeout=left_s)

        try:
            reply = await asyncio.create_task(ask())
        except AioRpcError as error:
            await context.abort(error.code(), error.details())
        return RetrieveResponse(value=reply.value)


async def with_a_handler(stub):
    """No servicer class: a generic handler for the one method."""

    async def retrieve(request, context):
        try:
            return await stub.Retrieve(request, timeout=context.time_remaining())
        except grpc.RpcError as error:
            await context.abort(error.code(), error.details())

    method = grpc.unary_unary_rpc_method_handler(
        retrieve, RetrieveRequest.FromString, RetrieveResponse.SerializeToString
    )
    server = grpc.aio.server()
    handlers = grpc.method_handlers_generic_handler(
        "kvstore.v1.KeyValueService", {"Retrieve": method}
    )
    server.add_generic_rpc_handlers((handlers,))
    port = server.add_insecure_port("localhost:0")
    await server.start()
    return [server, port]


@pytest.mark.parametrize(
    "serve",
    [
        lesson_07_server.serving_with(SetsTheCode),
        lesson_07_server.serving_with(WithATask),
        with_a_handler,
    ],
)
def test_a_front_in_another_style_is_right(serve):
    verdict = judged(lesson_07_server.FRONT, serve)

    assert verdict.passed, verdict.message


class InAThread(lesson_07_server.Front):
    """Ties up one of Python's own threads for each call."""

    async def Retrieve(self, request, context):
        loop = asyncio.get_running_loop()
        wait = lesson_07_server.Front.Retrieve(self, request, context)
        return await asyncio.to_thread(
            lambda: asyncio.run_coroutine_threadsafe(wait, loop).result()
        )


def test_a_front_with_a_thread_for_each_call_is_found_out():
    """48 calls at once are more than `asyncio.to_thread` has threads, on any machine."""
    verdict = judged(lesson_07_server.FRONT, lesson_07_server.serving_with(InAThread))

    assert "never more than" in verdict.message


def test_the_loop_ends_after_its_last_task():
    # as the tasks of a server that was not returned, which stops itself once it is forgotten
    ends = []

    async def ends_late():
        try:
            await asyncio.sleep(0.3)
            ends.append("returned")
        except BaseException as end:
            ends.append(end)
            raise

    async def port_only(stub):
        asyncio.get_running_loop().late = asyncio.create_task(ends_late())
        return (await lesson_07_server.serve(stub))[1]

    assert "must return two things" in judged(lesson_07_server.FRONT, port_only).message
    assert ["returned"] == ends


def test_an_unwritten_method_is_met_with_a_sentence():
    class Unwritten(lesson_07_server.Front):
        async def Retrieve(self, request, context):
            return NotImplemented

    async def serve(stub):
        server = grpc.aio.server()
        add_KeyValueServiceServicer_to_server(Unwritten(stub), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        return server, port

    verdict = judged(lesson_07_server.FRONT, serve)

    assert verdict.outcome == "not yet"
    assert "reply message" in verdict.message


# 07.ask_all -----------------------------------------------------------------------------------


async def one(stub, key):
    try:
        return (await stub.Retrieve(RetrieveRequest(key=key))).value
    except AioRpcError as error:
        if error.code() != grpc.StatusCode.NOT_FOUND:
            raise
        return None


async def with_gather(stub, keys):
    return await asyncio.gather(*(one(stub, key) for key in keys))


async def calls_first(stub, keys):
    """A grpc.aio call starts when it is made: no task is needed."""
    calls = [stub.Retrieve(RetrieveRequest(key=key)) for key in keys]
    values = []
    for call in calls:
        try:
            values.append((await call).value)
        except AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            values.append(None)
    return values


async def by_place(stub, keys):
    values = [None] * len(keys)

    async def fill(place):
        values[place] = await one(stub, keys[place])

    async with asyncio.TaskGroup() as group:
        for place in range(len(keys)):
            group.create_task(fill(place))
    return values


@pytest.mark.parametrize("answer", [with_gather, calls_first, by_place])
def test_a_client_in_another_style_is_right(answer):
    verdict = judged(lesson_07.ASK_ALL, answer)

    assert verdict.passed, verdict.message


async def only_unavailable_leaves(stub, keys):
    async def careless(key):
        try:
            return (await stub.Retrieve(RetrieveRequest(key=key))).value
        except AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                raise
            return None

    return await asyncio.gather(*map(careless, keys))


def test_another_status_than_unavailable_must_leave_as_well():
    """The first edition looked at a back end that was gone, and at no other failure."""
    verdict = judged(lesson_07.ASK_ALL, only_unavailable_leaves)

    (status,) = re.findall(r"ended with ([A-Z_]+)", verdict.message)
    assert status not in ("OK", "NOT_FOUND", "UNAVAILABLE")


# 07.calls_in_climb ----------------------------------------------------------------------------


@pytest.mark.parametrize(("users", "threads"), [(1, 1), (10, 400), (250, 200), (100, 40)])
def test_the_calls_of_a_climb_are_those_of_small_steps(users, threads):
    steps, climb_s, wait_s = 20_000, 30.0, 0.25
    slow = sum(
        min(users * (step + 0.5) / steps, threads) / wait_s * climb_s / steps
        for step in range(steps)
    )

    assert lesson_07.calls_in_climb(users, climb_s, threads, wait_s) == pytest.approx(slow, 1e-4)


def test_the_calls_of_a_climb_in_another_style_are_right():
    def mine(users, climb_s, threads, wait_s):
        if users <= threads:
            return users * climb_s / 2 / wait_s
        return (threads * climb_s - threads**2 * climb_s / (2 * users)) / wait_s

    assert judged(lesson_07.CALLS_IN_CLIMB, mine).passed


# Models of the questions -----------------------------------------------------------------------

BACK = SimpleNamespace(settings=SimpleNamespace(read_delay_s=0.1))


def front(*, threads=4, use_asyncio=False, users=8, each_s=0.2, rounds=10, seen=(10, 14), **more):
    """A run of users who call a front, one call after the other from the start on."""
    stations = StationTimes(more.get("pool_s", 0.0), 0.0, 0.1, 0.0)
    calls = [
        (turn * each_s, (turn + 1) * each_s, "retrieve", more.get("status", "OK"), stations)
        for turn in range(rounds)
        for _ in range(users)
    ]
    run = made_runs.run_of(calls, in_flight=users)
    joins = list(pacing.joins(pacing.climb(0, users, steps=users, over_s=0.4)))
    samples = pd.DataFrame(0.0, index=range(len(seen)), columns=list(Sample._fields))
    samples["server_threads"] = seen
    server = {"settings": {"threads": threads, "use_asyncio": use_asyncio}}
    settings = {"joins": joins, "duration_s": rounds * each_s}
    cpu = Cpu(len(calls) * more.get("cpu_s", 0.001), 0.0)
    return dataclasses.replace(
        run, sample_rows=samples.to_records(index=False), server=server, settings=settings,
        server_cpu=cpu,
    )  # fmt: skip


POOL = front()
LOOP = front(use_asyncio=True, each_s=0.1, rounds=20, seen=(10, 10))


def test_the_model_of_a_question_is_computed_from_the_runs_settings():
    rate, loop_rate, threads = (
        registered(f"07.{name}") for name in ("pool_rate", "loop_rate", "loop_threads")
    )

    assert rate.model(BACK, POOL).value == pytest.approx(40.0)
    assert rate.measured(BACK, POOL) == pytest.approx(40.0, rel=0.1)
    assert loop_rate.model(BACK, LOOP).value == pytest.approx(80.0)
    assert threads.measured(LOOP) == threads.model(LOOP).value == 10
