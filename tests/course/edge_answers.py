"""Answers at the edges of a statement, and beside the clock of the judge: see verdicts.py."""

import asyncio
import contextlib
import select
import threading
import time

import grpc
from verdicts import edge
from wrong_answers import serving

from kvstore.course.exercises.client_trials import method_of
from kvstore.course.lessons.lesson_01.exercises import read_all
from kvstore.course.lessons.lesson_03.exercises_client import bounded
from kvstore.course.lessons.lesson_04.lost_update import compare_and_set, key_of
from kvstore.course.lessons.lesson_05.exercises_client import window
from kvstore.course.lessons.lesson_07.exercises_server import Front
from kvstore.course.lessons.lesson_10.exercises import retry_config
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceServicer,
    add_KeyValueServiceServicer_to_server,
)

# 01.read_all


@edge("01.read_all", "gets the whole of it")
def with_less_time(stub, keys, deadline_s):
    return read_all(stub, keys, 0.9 * deadline_s)


# 02.send_all, 03.bounded


def after_all_are_sent(wait):
    """Sends all, waits so, and returns what has been noted."""

    def send_all(stub, requests):
        ended = []
        for request in requests:
            call = method_of(stub, request).future(request)
            call.add_done_callback(lambda call: ended.append(call.code()))
        wait()
        return ended

    return send_all


def spin_for_seconds():
    end_s = time.monotonic() + 10
    while time.monotonic() < end_s:
        pass


def doze_for_seconds():
    end_s = time.perf_counter() + 10
    while time.perf_counter() < end_s:
        time.sleep(0.01)


async def waited_for_a_second():
    await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=1)


def count_nanoseconds():
    end_ns = time.time_ns() + 10**10
    while time.time_ns() < end_ns:
        threading.Event().wait(0.01)


for wait in (
    spin_for_seconds,
    doze_for_seconds,
    count_nanoseconds,
    lambda: select.select([], [], [], 10),
    lambda: asyncio.run(asyncio.sleep(1)),
    lambda: asyncio.run(waited_for_a_second()),
):
    edge("02.send_all", "while 1 of")(after_all_are_sent(wait))


@edge("02.send_all", "Hold no lock there")
def notes_under_a_lock(stub, requests):
    lock, ended, codes = threading.Condition(threading.Lock()), [0], []

    def note(call):
        with lock:
            codes.append(call.code())
            lock.notify_all()

    for request in requests:
        with lock:
            method_of(stub, request).future(request).add_done_callback(note)
        ended[0] += 1
    with lock:
        lock.wait_for(lambda: len(codes) == ended[0])
    return codes


@edge("03.bounded", "pauses for 0.1 s")
def bounded_with_a_pause(stub, requests, in_flight):
    def slowly():
        for request in requests:
            time.sleep(0.1)
            yield request

    bounded(stub, slowly(), in_flight)


@edge("03.bounded", "Hold no lock there")
def counting_under_a_lock(stub, requests, in_flight):
    """The callback takes the lock, which is held while it is added."""
    changed, count = threading.Condition(threading.Lock()), [0]

    def ended(_):
        with changed:
            count[0] -= 1
            changed.notify_all()

    for request in requests:
        with changed:
            changed.wait_for(lambda: count[0] < in_flight)
            count[0] += 1
            method_of(stub, request).future(request).add_done_callback(ended)
    with changed:
        changed.wait_for(lambda: count[0] == 0)


# 04.add_one


def create(stub, counter, version, number):
    stub.Create(pb.CreateRequest(key=key_of(counter, version), value=b"%d" % number))


def number_of(stub, counter, version):
    return int(stub.Retrieve(pb.RetrieveRequest(key=key_of(counter, version))).value)


@edge("04.add_one", "let every other error leave the function")
def any_error_of_both_calls(stub, counter, version):
    while True:
        try:
            create(stub, counter, version + 1, number_of(stub, counter, version) + 1)
            return version + 1
        except grpc.RpcError:
            version += 1


@edge("04.add_one", "Let every other error leave the function")
def returns_after_any_error(stub, counter, version):
    with contextlib.suppress(grpc.RpcError):
        version = compare_and_set(stub, counter, version)
    return version


@edge("04.add_one", "30 newer ones exist")
def tries_25_times(stub, counter, version):
    for _ in range(25):
        number = number_of(stub, counter, version)
        version += 1
        try:
            create(stub, counter, version, number + 1)
            return version
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
    return version


# 04.server


class Store(KeyValueServiceServicer):
    make_lock = staticmethod(threading.Lock)

    def __init__(self, disk, values):
        self.disk, self.values = disk, dict(values)
        self.locks = {key: self.make_lock() for key in values}

    def known(self, key, context):
        if key not in self.values:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")

    def Retrieve(self, request, context):
        self.known(request.key, context)
        self.disk.read(request.key)
        return pb.RetrieveResponse(value=self.values[request.key])

    def Update(self, request, context):
        self.known(request.key, context)
        with self.locks[request.key]:
            self.disk.write(request.key)
            self.values[request.key] = request.value
        return pb.UpdateResponse()


class ReadsTheDiskFirst(Store):
    def Retrieve(self, request, context):
        self.disk.read(request.key)
        self.known(request.key, context)
        return pb.RetrieveResponse(value=self.values[request.key])


class TakesTheLockTwice(Store):
    def Update(self, request, context):
        self.known(request.key, context)
        with self.locks[request.key]:
            self.disk.write(request.key)
        with self.locks[request.key]:
            self.values[request.key] = request.value
        return pb.UpdateResponse()


class GoesOnWithoutTheLock(Store):
    def Update(self, request, context):
        self.known(request.key, context)
        got = self.locks[request.key].acquire(timeout=1.0)
        try:
            self.disk.write(request.key)
            self.values[request.key] = request.value
        finally:
            if got:
                self.locks[request.key].release()
        return pb.UpdateResponse()


class LooksThenMakes(Store):
    def __init__(self, disk, values):
        super().__init__(disk, values)
        self.locks = {}

    def lock_of(self, key):
        if key not in self.locks:
            self.locks[key] = threading.Lock()
        return self.locks[key]

    def Update(self, request, context):
        self.known(request.key, context)
        with self.lock_of(request.key):
            self.disk.write(request.key)
            self.values[request.key] = request.value
        return pb.UpdateResponse()


edge("04.server", "each made a lock")(serving(LooksThenMakes))
edge("04.server", "must not use the disk")(serving(ReadsTheDiskFirst))
edge("04.server", "before the lock is released")(serving(TakesTheLockTwice))
edge("04.server", "on the disk at the same time")(serving(GoesOnWithoutTheLock))


# 05


@edge("05.stream", "pauses for 10 s")
def pauses_before_each(stub, requests, in_flight):
    def slowly():
        for request in requests:
            time.sleep(10)
            yield request

    window(stub, slowly(), in_flight)


# 07


def front(retrieve):
    """`serve` of a front whose Retrieve is this coroutine function."""

    class Other(Front):
        async def Retrieve(self, request, context):
            return await retrieve(self, request, context)

    async def serve(stub):
        server = grpc.aio.server()
        add_KeyValueServiceServicer_to_server(Other(stub), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        return server, port

    return serve


async def stands_still(self, request, context):
    time.sleep(10)
    return await Front.Retrieve(self, request, context)


async def waits_for_a_second(self, request, context):
    done, _ = await asyncio.wait(
        [asyncio.ensure_future(Front.Retrieve(self, request, context))], timeout=1
    )
    return done.pop().result() if done else pb.RetrieveResponse()


edge("07.front", "a coroutine paused its thread")(front(stands_still))
edge("07.front", "before the back end had answered")(front(waits_for_a_second))


def asking(gather):
    """`ask_all` which gathers its coroutines so."""

    async def ask_all(stub, keys):
        async def one(key):
            try:
                return (await stub.Retrieve(pb.RetrieveRequest(key=key))).value
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.NOT_FOUND:
                    raise

        return await gather([one(key) for key in keys])

    return ask_all


async def after_a_pause(coroutines):
    time.sleep(10)
    return await asyncio.gather(*coroutines)


async def after_two_seconds(coroutines):
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    if tasks:
        await asyncio.wait(tasks, timeout=2)
    return [task.result() if task.done() else None for task in tasks]


edge("07.ask_all", "a coroutine paused its thread")(asking(after_a_pause))
edge("07.ask_all", "it waits for a time")(asking(after_two_seconds))


# 09


def counting_in_a_closure(limit):
    """Looks at a count and raises it: two steps."""
    count = 0

    class Counts(grpc.ServerInterceptor):
        def intercept_service(self, continuation, details):
            handler = continuation(details)

            def answer(request, context):
                nonlocal count
                if count >= limit:
                    context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls")
                count += 1
                try:
                    return handler.unary_unary(request, context)
                finally:
                    count -= 1

            return grpc.unary_unary_rpc_method_handler(
                answer, handler.request_deserializer, handler.response_serializer
            )

    return Counts()


edge("09.shed", "took the last place")(counting_in_a_closure)


# 10


@edge("10.retry_config", "returned the text")
def config_as_text(attempts, first_pause_s, tokens, ratio):
    import json

    return json.dumps(retry_config(attempts, first_pause_s, tokens, ratio))


def config_with(**changes):
    def config(attempts, first_pause_s, tokens, ratio):
        made = retry_config(attempts, first_pause_s, tokens, ratio)
        made["methodConfig"][0]["retryPolicy"] |= changes
        return made

    return config


edge("10.retry_config", "`initialBackoff` is text")(config_with(initialBackoff=0.05))
edge("10.retry_config", "`maxBackoff` is text")(config_with(maxBackoff="1"))
edge("10.retry_config", "`maxAttempts` is a whole number")(config_with(maxAttempts=1))
edge("10.retry_config", "`retryableStatusCodes` is a list")(
    config_with(retryableStatusCodes="UNAVAILABLE")
)


# 13


# 15, 16


def resending(statuses=None, attempts=None):
    """A client that sends again after these statuses, so many times."""

    def client(addresses, operations, in_flight, timeout_s=1.0):
        stubs = [patient_stub(address) for address in addresses]
        free = threading.Semaphore(in_flight)

        def send(operation, number, attempt):
            call = method_of(stubs[number % 2], operation).future(
                operation, timeout=min(timeout_s * 2**attempt, 60)
            )
            call.add_done_callback(lambda call: ended(call, operation, number, attempt))

        def ended(call, operation, number, attempt):
            again = call.code() is not grpc.StatusCode.OK and (
                statuses is None or call.code() in statuses
            )
            if again and (attempts is None or attempt + 1 < attempts):
                send(operation, number + 1, attempt + 1)
            else:
                free.release()

        for number, operation in enumerate(operations):
            free.acquire()
            send(operation, number, 0)
        for _ in range(in_flight):
            free.acquire()

    return client


def patient_stub(address):
    from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

    return KeyValueServiceStub(grpc.insecure_channel(address))


TWO = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
edge("15.client", "Whatever is not OK has failed")(resending(TWO, attempts=5))
edge("15.client", "give it up after")(resending())
