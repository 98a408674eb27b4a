"""The measured channel, both kinds: every call is recorded once, whatever becomes of it.

Real servers in their own process. gRPC's health and reflection services stand for services that
are not ours: one has a unary method and a stream of replies, the other a bidirectional stream.
"""

import asyncio
import inspect
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from stacks import listening

from kvstore.client import measured_channel
from kvstore.client.errors import StreamBroken
from kvstore.measure import Run, audit
from kvstore.protocol import KINDS, NOT_FOUND, OK
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceServicer,
    KeyValueServiceStub,
    add_KeyValueServiceServicer_to_server,
)

HANG_S = 20.0

either_kind = pytest.mark.parametrize("aio", [False, True], ids=["grpc", "grpc.aio"])


def measured(server: Any, work: Callable[..., Any], aio: bool, **settings: Any) -> tuple[Run, Any]:
    """Run a coroutine function of the channel in its block, over a channel of either kind.

    Return the run afterwards and what the function returned. Over a channel of `grpc`, it awaits
    nothing: see `value` and `replies`.
    """
    channels = measured_channel(server, **settings)

    async def on_a_loop() -> Any:
        async with channels as channel:
            return await asyncio.wait_for(work(channel), HANG_S)

    if aio:
        found = asyncio.run(on_a_loop())
    else:
        with channels as channel, pytest.raises(StopIteration) as ended:
            work(channel).send(None)
        found = ended.value.value
    run = channels.run()
    assert run.issued == len(run.records), "a call was lost or recorded twice"
    return run, found


async def value(call: Any) -> Any:
    """The reply of a call, or its code."""
    try:
        return await call if inspect.isawaitable(call) else call.result()
    except grpc.RpcError as error:
        return error.code()


async def replies(call: Any) -> list[Any]:
    """All replies of a stream, over either kind of channel."""
    return [reply async for reply in call] if hasattr(call, "__aiter__") else list(call)


def starting(channel: Any, method: Any) -> Any:
    """What starts a unary call and does not wait for it, over either kind of channel."""
    return method if isinstance(channel, grpc.aio.Channel) else method.future


async def a_moment(channel: Any, seconds: float) -> None:
    if isinstance(channel, grpc.aio.Channel):
        await asyncio.sleep(seconds)
    else:
        time.sleep(seconds)


CLOSED = """
from kvstore.client import measured_channel
from kvstore.v1 import kvstore_pb2, kvstore_pb2_grpc

with measured_channel("{address}") as channel:
    pass
stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)
try:
    stub.Retrieve(kvstore_pb2.RetrieveRequest())
except ValueError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_stub_on_a_closed_channel_says_so_and_does_not_crash(quick_server):
    """A stub on a closed channel of gRPC's own crashes the process, and so the learner's kernel."""
    command = [sys.executable, "-c", CLOSED.format(address=quick_server.address)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert "closed channel" in done.stdout, done.stderr
    assert 0 == done.returncode


def by_call(method: Any, request: Any) -> Any:
    return method(request)


def by_with_call(method: Any, request: Any) -> Any:
    return method.with_call(request)[0]


def by_future(method: Any, request: Any) -> Any:
    return method.future(request).result()


async def by_await(method: Any, request: Any) -> Any:
    return await method(request)


def made(way: Callable[..., Any], *calls: tuple[str, Any]) -> Callable[[Any], Any]:
    """A coroutine function of the channel that makes these calls; it returns replies and codes."""

    async def work(channel: Any) -> list[Any]:
        stub, found = KeyValueServiceStub(channel), []
        for name, request in calls:
            try:
                reply = way(getattr(stub, name), request)
                found.append(await reply if inspect.isawaitable(reply) else reply)
            except grpc.RpcError as error:
                found.append(error.code())
        return found

    return work


@pytest.mark.parametrize("way", [by_call, by_with_call, by_future, by_await])
def test_a_unary_call_is_one_record_with_all_that_is_known(way, quick_server, keys):
    key = next(keys)
    calls = [
        ("Create", pb.CreateRequest(key=key, value=bytes(300))),
        ("Retrieve", pb.RetrieveRequest(key=key)),
        ("Update", pb.UpdateRequest(key=next(keys), value=b"1")),
    ]
    run, found = measured(quick_server, made(way, *calls), inspect.iscoroutinefunction(way))
    records = run.records

    assert found == [
        pb.CreateResponse(),
        pb.RetrieveResponse(value=bytes(300)),
        grpc.StatusCode.NOT_FOUND,
    ]
    assert [1, 2, 3] == records["kind"].tolist()
    assert [OK, OK, NOT_FOUND] == records["status"].tolist()
    assert [request.ByteSize() for _, request in calls] == records["request_bytes"].tolist()
    assert [0, found[1].ByteSize(), 0] == records["reply_bytes"].tolist()
    assert np.isnan(records["due_s"]).all()
    assert (0 <= records["sent_s"]).all()
    assert (records["sent_s"] < records["done_s"]).all()
    stations_s = sum(records[name] for name in ("pool_s", "lock_s", "disk_s", "rest_s"))
    assert (stations_s <= records["done_s"] - records["sent_s"]).all()
    assert (records["disk_s"] > 0).all()
    assert audit(run).holds


@either_kind
def test_the_deadline_of_the_channel_applies_where_a_call_sets_none(aio, own_server, keys):
    server = own_server(write_delay_s=0.4)

    async def work(channel: Any) -> list[Any]:
        create = starting(channel, KeyValueServiceStub(channel).Create)
        own = create(pb.CreateRequest(key=next(keys)), timeout=HANG_S)
        of_channel = create(pb.CreateRequest(key=next(keys)))
        if not aio:
            with pytest.raises(grpc.RpcError):
                KeyValueServiceStub(channel).Create(pb.CreateRequest(key=next(keys)))
        return [await value(own), await value(of_channel)]

    run, found = measured(server, work, aio, deadline_s=0.1)

    assert [pb.CreateResponse(), grpc.StatusCode.DEADLINE_EXCEEDED] == found
    assert {"OK": 1, "DEADLINE_EXCEEDED": 1 if aio else 2} == run.outcomes()


@either_kind
def test_a_cancelled_call_is_recorded_once(aio, own_server, keys):
    server = own_server(write_delay_s=5.0)

    async def work(channel: Any) -> None:
        create = starting(channel, KeyValueServiceStub(channel).Create)
        create(pb.CreateRequest(key=next(keys))).cancel()  # before it was begun
        create(pb.CreateRequest(key=next(keys)))  # the object is dropped at once
        started = create(pb.CreateRequest(key=next(keys)))
        await a_moment(channel, 0.1)
        started.cancel()
        started.cancel()
        if aio:
            waiting = asyncio.create_task(value(create(pb.CreateRequest(key=next(keys)))))
            await asyncio.sleep(0.1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    run, _ = measured(server, work, aio)

    assert {"CANCELLED": 4 if aio else 3} == run.outcomes()


@either_kind
def test_leaving_the_block_ends_and_records_what_is_in_flight(aio, own_server, keys):
    server = own_server(write_delay_s=5.0)
    requests = [pb.CreateRequest(key=next(keys)) for _ in range(5)]

    async def work(channel: Any) -> list[Any]:
        stub = KeyValueServiceStub(channel)
        calls = [starting(channel, stub.Create)(request) for request in requests]
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        await watch.read() if aio else next(watch)
        stream = stub.Pipeline(iter([piped(1, requests[0].key)]))
        await a_moment(channel, 0.2)
        return [*calls, watch, stream]  # still held when the block ends

    begin_s = time.perf_counter()
    run, _ = measured(server, work, aio)

    assert {"CANCELLED": 6, "NO_ANSWER": 1} == run.outcomes()
    assert time.perf_counter() - begin_s < 4


@either_kind
def test_a_call_after_the_end_is_refused_as_grpc_does_and_nothing_is_lost(aio, quick_server, keys):
    request = pb.CreateRequest(key=next(keys))

    async def work(channel: Any) -> None:
        stub, health = KeyValueServiceStub(channel), health_pb2_grpc.HealthStub(channel)
        if aio:
            await channel.close()
            for _ in range(3):  # each connection is taken, and given back
                with pytest.raises(grpc.aio.UsageError):
                    stub.Create(request)
            return
        channel.close()
        for way in (by_call, by_future):
            with pytest.raises(ValueError, match=r"[Cc]losed"):
                way(stub.Create, request)
        with pytest.raises(ValueError, match=r"[Cc]losed"):
            health.Watch(health_pb2.HealthCheckRequest())

    run, _ = measured(quick_server, work, aio, connections=2)
    assert ({} if aio else {"CANCELLED": 3}) == run.outcomes()


def piped(number: int, key: bytes, value: bytes | None = None) -> pb.PipelineRequest:
    """A request of one operation: a create where there is a value, else a retrieve."""
    kind, values = (2, []) if value is None else (1, [value])
    return pb.PipelineRequest(id=number, kinds=bytes([kind]), keys=[key], values=values)


async def by_iterator(channel: Any, requests: list[Any]) -> list[Any]:
    return await replies(KeyValueServiceStub(channel).Pipeline(iter(requests)))


async def by_write_and_read(channel: Any, requests: list[Any]) -> list[Any]:
    call = KeyValueServiceStub(channel).Pipeline()
    for request in requests:
        await call.write(request)
    await call.done_writing()
    return [await call.read() for _ in requests]


every_stream = pytest.mark.parametrize(
    ("stream", "aio"), [(by_iterator, False), (by_iterator, True), (by_write_and_read, True)]
)
either_stream = pytest.mark.parametrize(
    ("stream", "aio"), [(by_iterator, False), (by_write_and_read, True)]
)


@every_stream
def test_a_request_on_a_stream_is_one_record_with_all_that_is_known(
    stream, aio, quick_server, keys
):
    known, batch = next(keys), [next(keys) for _ in range(3)]
    requests = [
        piped(7, known, bytes(300)),
        piped(3, next(keys)),
        pb.PipelineRequest(id=5, kinds=bytes([1, 2, 1]), keys=batch, values=[b"1", b"2"]),
    ]
    run, found = measured(quick_server, lambda channel: stream(channel, requests), aio)
    calls = run.calls.sort_values("sent_s")

    assert {3, 5, 7} == {reply.id for reply in found}
    assert ["create", "retrieve", "batch"] == calls["operation"].tolist()
    assert ["OK", "NOT_FOUND", "NOT_FOUND"] == calls["status"].tolist()
    assert [1, 1, 3] == calls["operations"].tolist()
    assert [1, 0, 2] == calls["ok_operations"].tolist()
    assert 5 == run.issued_operations
    size = {reply.id: reply.ByteSize() for reply in found}
    assert [size[request.id] for request in requests] == calls["reply_bytes"].tolist()
    assert [request.ByteSize() for request in requests] == calls["request_bytes"].tolist()
    assert (calls["residence_s"] > 0).all()
    assert (calls["disk_s"] > 0).all()


def test_the_last_replies_of_a_stream_are_not_lost_to_its_end(quick_server, keys):
    """The end of the stream arrives right behind them, before a slow reader has taken them."""

    async def work(channel: Any) -> int:
        stub, count = KeyValueServiceStub(channel), 0
        for _ in range(20):
            for _ in stub.Pipeline(iter([piped(1, next(keys)), piped(2, next(keys))])):
                time.sleep(0.003)
                count += 1
        return count

    run, count = measured(quick_server, work, False)

    assert (40, {"NOT_FOUND": 40}) == (count, run.outcomes())


def answering(pipeline: Callable[..., Iterator[Any]]) -> Any:
    """A server whose method `Pipeline` is this function of the requests and the context."""

    service = KeyValueServiceServicer()
    service.Pipeline = pipeline
    return listening(lambda server: add_KeyValueServiceServicer_to_server(service, server))


def after_three(*answers: Any, then: Callable[[Any], Any] = lambda context: None) -> Any:
    """A method that answers so after three requests, and then does this to the call."""

    def pipeline(requests: Any, context: Any) -> Iterator[Any]:
        for _ in range(3):
            next(requests)
        yield from answers
        then(context)

    return pipeline


def abort(context: Any) -> None:
    context.abort(grpc.StatusCode.UNAVAILABLE, "the test says so")


def cancel(context: Any) -> None:
    context.cancel()  # the client sees RST_STREAM
    time.sleep(0.1)


def be_silent(context: Any) -> None:
    while context.is_active():
        time.sleep(0.02)


TO_NONE = pb.PipelineResponse(id=99, statuses=b"\x00")
TOO_LITTLE = pb.PipelineResponse(id=1)


@either_stream
@pytest.mark.parametrize(
    ("answers", "says", "code"),
    [
        (after_three(), "the server closed it", "UNKNOWN"),
        (after_three(then=abort), "UNAVAILABLE: the test says so", "UNAVAILABLE"),
        (after_three(then=cancel), "CANCELLED", "CANCELLED"),
        (
            after_three(TO_NONE, then=be_silent),
            "the reply with id 99 answers no open request",
            None,
        ),
        (after_three(TOO_LITTLE, then=be_silent), "0 statuses for 1 operations", None),
        (after_three(then=be_silent), "no reply within the deadline of 0.3 s", "CANCELLED"),
    ],
)
def test_a_stream_that_breaks_accounts_for_all_that_waits(stream, aio, answers, says, code):
    async def work(channel: Any) -> StreamBroken:
        with pytest.raises(StreamBroken) as broken:
            await stream(channel, [piped(number, b"key") for number in (1, 2, 3)])
        return broken.value

    with answering(answers) as address:
        deadline_s = 0.3 if "deadline" in says else 30.0
        run, broken = measured(address, work, aio, deadline_s=deadline_s)

    assert {"NO_ANSWER": 3} == run.outcomes()
    assert isinstance(broken, grpc.RpcError)
    assert says in str(broken)
    assert "3 requests unanswered" in str(broken)
    assert code is None or code == broken.code().name


@either_stream
def test_two_open_requests_with_one_id_are_refused(stream, aio):
    async def work(channel: Any) -> None:
        with pytest.raises((grpc.RpcError, ValueError)):
            await stream(channel, [piped(1, b"key"), piped(1, b"key")])

    with answering(after_three(then=be_silent)) as address:
        run, _ = measured(address, work, aio)

    assert {"NO_ANSWER": 1} == run.outcomes()


def test_a_stream_that_is_cancelled_accounts_for_all_that_waits(own_server, keys):
    server = own_server(read_delay_s=5.0)
    requests = [piped(number, next(keys)) for number in (1, 2)]

    async def from_a_thread(channel: Any) -> None:
        call = KeyValueServiceStub(channel).Pipeline(iter(requests))
        time.sleep(0.2)
        call.cancel()
        with pytest.raises(StreamBroken, match="2 requests unanswered"):
            next(call)

    async def task_cancelled(channel: Any) -> None:
        async def reads() -> None:
            call = KeyValueServiceStub(channel).Pipeline(requests)
            await call.read()

        task = asyncio.create_task(reads())
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):  # not StreamBroken: the task is to end
            await task

    async def call_cancelled(channel: Any) -> None:
        call = KeyValueServiceStub(channel).Pipeline()
        for request in requests:
            await call.write(request)
        call.cancel()
        with pytest.raises(StreamBroken, match="it was cancelled"):
            await call.read()

    for work in (from_a_thread, task_cancelled, call_cancelled):
        run, _ = measured(server, work, work is not from_a_thread)
        assert {"NO_ANSWER": 2} == run.outcomes()


LIST = reflection_pb2.ServerReflectionRequest(list_services="")


@either_kind
def test_any_service_is_measured_under_the_names_of_its_methods(aio, quick_server):
    requested = health_pb2.HealthCheckRequest()

    async def work(channel: Any) -> None:
        health = health_pb2_grpc.HealthStub(channel)
        await value(starting(channel, health.Check)(requested))
        watch = health.Watch(requested)
        await watch.read() if aio else next(watch)
        watch.cancel()
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        await replies(reflection.ServerReflectionInfo(iter([LIST, LIST])))

    run, _ = measured(quick_server, work, aio)
    calls = run.calls.set_index("operation")

    assert KINDS == run.kinds[: len(KINDS)]  # codes of our own service are always the same
    assert "OK" == calls.loc["check", "status"]
    assert "CANCELLED" == calls.loc["watch", "status"]
    assert 2 == calls.loc["watch", "reply_bytes"]  # one reply: SERVING
    info = calls.loc["serverreflectioninfo"]
    assert ("OK", 2 * LIST.ByteSize()) == (info["status"], info["request_bytes"])
    assert info["reply_bytes"] > 40
    assert calls["disk_s"].isna().all()
    assert {"check": 1 / 2, "serverreflectioninfo": 1 / 2} == pytest.approx(run.mix())


class EchoesMetadata(grpc.GenericRpcHandler):
    """A service of raw bytes, one method of each shape; it answers with what `tenant` says."""

    def service(self, details: Any) -> Any:
        tenant = dict(details.invocation_metadata).get("tenant", "none").encode()
        return {
            "/any/UnaryUnary": grpc.unary_unary_rpc_method_handler(lambda _, context: tenant),
            "/any/UnaryStream": grpc.unary_stream_rpc_method_handler(
                lambda _, context: iter([tenant, tenant])
            ),
            "/any/StreamUnary": grpc.stream_unary_rpc_method_handler(
                lambda requests, context: tenant * len(list(requests))
            ),
            "/any/StreamStream": grpc.stream_stream_rpc_method_handler(
                lambda requests, context: (tenant for _ in requests)
            ),
        }.get(details.method)


@either_kind
def test_metadata_goes_along_with_every_shape_of_call(aio):
    expected, own = b"blue", (("tenant", "blue"),)

    async def work(channel: Any) -> list[Any]:
        one = starting(channel, channel.unary_unary("/any/UnaryUnary"))
        many = starting(channel, channel.stream_unary("/any/StreamUnary"))
        both = channel.stream_stream("/any/StreamStream")
        return [
            await value(one(b"ab", metadata=own)),
            await replies(channel.unary_stream("/any/UnaryStream")(b"ab", metadata=own)),
            await value(many(iter([b"ab", b"c"]), metadata=own)),
            await replies(both(iter([b"ab", b"c"]), metadata=own)),
        ]

    with listening(lambda server: server.add_generic_rpc_handlers([EchoesMetadata()])) as address:
        run, found = measured(address, work, aio)
    size = len(expected)

    assert [expected, [expected] * 2, expected * 2, [expected] * 2] == found
    assert {"OK": 4} == run.outcomes()
    sizes = run.calls[["operation", "request_bytes", "reply_bytes"]].to_numpy().tolist()
    assert [
        ["streamstream", 3, 2 * size],
        ["streamunary", 3, 2 * size],
        ["unarystream", 2, 2 * size],
        ["unaryunary", 2, size],
    ] == sorted(sizes)


def test_the_run_of_a_channel_can_be_saved_and_audited_and_its_block_is_for_one_use(
    quick_server, keys, tmp_path
):
    channels = measured_channel(quick_server, deadline_s=9.0)
    with channels as channel:
        KeyValueServiceStub(channel).Create(pb.CreateRequest(key=next(keys)))
        inside = channel.run()
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    run = channel.run()
    loaded = Run.load(run.save(tmp_path / "run.npz"))

    assert (1, 2) == (inside.issued, run.issued)
    assert ("channel", 9.0) == (run.strategy, run.settings["deadline_s"])
    assert run.kinds == loaded.kinds
    assert run.mix() == {"create": 0.5, "check": 0.5}
    assert run.records["done_s"].max() == run.window_s
    assert run.client_cpu.total_s >= 0
    assert audit(run).holds
    assert audit(loaded) == audit(run)
    with pytest.raises(RuntimeError, match="was opened before: make another one"), channels:
        pass


@pytest.mark.parametrize(
    ("says", "settings"),
    [
        ("connections must be a whole number of 1 or more, got 0", {"connections": 0}),
        ("target must be one server, got a:1,b:2", {"target": "a:1,b:2"}),
    ],
)
def test_settings_that_make_no_sense_are_refused(says, settings):
    with pytest.raises(ValueError, match=says):
        measured_channel(**{"target": "127.0.0.1:1", **settings})
