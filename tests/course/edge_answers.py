"""Answers at the edges of a statement, and beside the clock of the judge: see verdicts.py."""

import asyncio
import math
import random
import select
import threading
import time
from queue import SimpleQueue

import grpc
from verdicts import edge, right
from wrong_answers import serving

from kvstore.course.exercises.client_trials import method_of
from kvstore.course.lessons.lesson_03.exercises_client import bounded
from kvstore.course.lessons.lesson_04.lost_update import compare_and_set, key_of
from kvstore.course.lessons.lesson_05.exercises_client import window
from kvstore.course.lessons.lesson_07.exercises_server import Front
from kvstore.course.lessons.lesson_09.exercises_server import Shed
from kvstore.course.lessons.lesson_10.exercises import retry_config
from kvstore.course.lessons.lesson_12.exercises import add_server, servers_needed
from kvstore.course.lessons.lesson_15.capstone import patient
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceServicer,
    add_KeyValueServiceServicer_to_server,
)

# ---- 01.read_all ---------------------------------------------------------------------------------


def reading(deadline_of):
    """A right reader, but for the deadline of each call."""

    def read_all(stub, keys, deadline_s):
        values, began_s = [], time.monotonic()
        for number, key in enumerate(keys):
            left_s = deadline_of(deadline_s, number, time.monotonic() - began_s)
            try:
                values.append(stub.Retrieve(pb.RetrieveRequest(key=key), left_s).value)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.NOT_FOUND:
                    raise
                values.append(None)
        return values

    return read_all


right("01.read_all")(reading(lambda deadline_s, number, passed_s: deadline_s))
for share in (0.3, 0.9, 1.02):
    edge("01.read_all", "gets the whole of it")(
        reading(lambda deadline_s, number, passed_s, share=share: share * deadline_s)
    )
edge("01.read_all", "not for all of them together")(
    reading(lambda deadline_s, number, passed_s: deadline_s - 0.01 * number)
)


# ---- 02.send_all, 03.bounded ---------------------------------------------------------------------


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


@edge("02.send_all", "")
def never_more_than_100(stub, requests):
    ended, places = SimpleQueue(), threading.Semaphore(100)
    count = 0
    for count, request in enumerate(requests, start=1):  # noqa: B007
        places.acquire()
        call = method_of(stub, request).future(request)
        call.add_done_callback(lambda call: (ended.put(call.code()), places.release()))
    return [ended.get() for _ in range(count)]


def with_a_pause(pause_s):
    def bounded_with_a_pause(stub, requests, in_flight):
        def slowly():
            for request in requests:
                time.sleep(pause_s)
                yield request

        bounded(stub, slowly(), in_flight)

    return bounded_with_a_pause


edge("03.bounded", "pauses for 0.1 s")(with_a_pause(0.1))
right("03.bounded")(with_a_pause(0.0))


@edge("03.bounded", "in flight")
def waits_by_the_clock(stub, requests, in_flight):
    free = threading.Semaphore(in_flight)
    for request in requests:
        free.acquire()
        call = method_of(stub, request).future(request)
        call.add_done_callback(lambda _: free.release())
    spin_for_seconds()


@edge("03.bounded", "a place stays empty")
def never_more_than_64(stub, requests, in_flight):
    bounded(stub, requests, min(in_flight, 64))


def counting_under(lock_of):
    """Counts open calls; the callback takes the lock, which is held while it is added."""

    def sender(stub, requests, in_flight):
        changed = threading.Condition(lock_of())
        count = [0]

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

    return sender


edge("03.bounded", "Hold no lock there")(counting_under(threading.Lock))
right("03.bounded")(counting_under(threading.RLock))


@right("03.bounded")
def a_queue_of_ends(stub, requests, in_flight):
    ended, count = SimpleQueue(), 0
    for request in requests:
        if count == in_flight:
            ended.get()
            count -= 1
        method_of(stub, request).future(request).add_done_callback(ended.put)
        count += 1
    for _ in range(count):
        ended.get()


# ---- 04.add_one ----------------------------------------------------------------------------------


def create(stub, counter, version, number):
    stub.Create(pb.CreateRequest(key=key_of(counter, version), value=b"%d" % number))


def number_of(stub, counter, version):
    return int(stub.Retrieve(pb.RetrieveRequest(key=key_of(counter, version))).value)


@edge("04.add_one", "let every other error leave the function")
def any_error_is_a_newer_version(stub, counter, version):
    while True:
        number = number_of(stub, counter, version)
        version += 1
        try:
            create(stub, counter, version, number + 1)
        except grpc.RpcError:
            continue
        return version


@edge("04.add_one", "let every other error leave the function")
def any_error_of_both_calls(stub, counter, version):
    while True:
        try:
            create(stub, counter, version + 1, number_of(stub, counter, version) + 1)
            return version + 1
        except grpc.RpcError:
            version += 1


@edge("04.add_one", "Let every other error leave the function")
def returns_in_finally(stub, counter, version):
    try:
        version = compare_and_set(stub, counter, version)
    finally:
        return version  # noqa: B012


@edge("04.add_one", "Let every other error leave the function")
def returns_after_unavailable(stub, counter, version):
    try:
        return compare_and_set(stub, counter, version)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            return version
        raise


def tries(times):
    def add_one(stub, counter, version):
        for _ in range(times):
            number = number_of(stub, counter, version)
            version += 1
            try:
                create(stub, counter, version, number + 1)
                return version
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                    raise
        return version

    return add_one


edge("04.add_one", "")(tries(3))
edge("04.add_one", "30 newer ones exist")(tries(25))


@right("04.add_one")
def looks_for_the_newest_first(stub, counter, version):
    while True:
        try:
            number = number_of(stub, counter, version)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            number = number_of(stub, counter, version - 1)
            try:
                create(stub, counter, version, number + 1)
                return version
            except grpc.RpcError as other:
                if other.code() is not grpc.StatusCode.ALREADY_EXISTS:
                    raise ValueError("no add") from other
        version += 1


@right("04.add_one")
def pauses_before_it_tries_again(stub, counter, version):
    while True:
        number = number_of(stub, counter, version)
        version += 1
        try:
            create(stub, counter, version, number + 1)
            return version
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
        time.sleep(0.1)


# ---- 04.server -----------------------------------------------------------------------------------


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


class ReentrantStore(Store):
    make_lock = staticmethod(threading.RLock)


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


class GoesOnAfterASecond(Store):
    def Update(self, request, context):
        self.known(request.key, context)
        lock, end_s = self.locks[request.key], time.monotonic() + 1
        while not (got := lock.acquire(blocking=False)) and time.monotonic() < end_s:
            time.sleep(0.001)
        try:
            self.disk.write(request.key)
            self.values[request.key] = request.value
        finally:
            if got:
                lock.release()
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


class GetsOrMakes(LooksThenMakes):
    def lock_of(self, key):
        lock = self.locks.get(key)
        if lock is None:
            lock = self.locks[key] = threading.Lock()
        return lock


class SetsDefault(LooksThenMakes):
    def lock_of(self, key):
        return self.locks.setdefault(key, threading.Lock())


right("04.server")(serving(SetsDefault))
edge("04.server", "each made a lock")(serving(LooksThenMakes))
edge("04.server", "each made a lock")(serving(GetsOrMakes))
right("04.server")(serving(Store))
right("04.server")(serving(ReentrantStore))
edge("04.server", "must not use the disk")(serving(ReadsTheDiskFirst))
edge("04.server", "before the lock is released")(serving(TakesTheLockTwice))
edge("04.server", "on the disk at the same time")(serving(GoesOnWithoutTheLock))
edge("04.server", "on the disk at the same time")(serving(GoesOnAfterASecond))


# ---- 05 ------------------------------------------------------------------------------------------


@edge("05.stream", "pauses for 10 s")
def pauses_before_each(stub, requests, in_flight):
    def slowly():
        for request in requests:
            time.sleep(10)
            yield request

    window(stub, slowly(), in_flight)


@edge("05.stream", "a place stays empty")
def at_most_twenty_open(stub, requests, in_flight):
    window(stub, requests, min(in_flight, 20))


@edge("05.in_order", "")
def looks_ten_back(calls):
    return list(calls["done_s"].rolling(10, min_periods=1).max())


@edge("05.commit_index", "")
def room_for_30(acknowledged):
    there, index, over_time = [False] * 1000, 0, []
    for entry in acknowledged:
        there[entry] = True
        while index < 30 and there[index + 1]:
            index += 1
        over_time.append(index)
    return over_time


# ---- 12: whole numbers and many --------------------------------------------------------------


@edge("12.servers_needed", "")
def one_more_server_than_the_whole_part(target_per_s, service_s, hottest_share):
    share = 1 / (target_per_s * service_s)
    if share >= 1:
        return 1
    if share <= hottest_share:
        return math.inf
    return int((1 - hottest_share) / (share - hottest_share)) + 1


def tried_up_to(most):
    def needed(target_per_s, service_s, hottest_share):
        for servers in range(1, most):
            busiest = hottest_share + (1 - hottest_share) / servers
            if busiest * target_per_s * service_s <= 1 + 1e-12:
                return servers
        return math.inf

    return needed


edge("12.servers_needed", "")(tried_up_to(1001))
right("12.servers_needed")(
    lambda x, s, q: servers_needed(x, s, q) if math.isfinite(x) else math.inf
)


@edge("12.add_server", "begin with a copy")
def adds_in_place(slots, servers):
    slots[:] = add_server(slots, servers)
    return slots


# ---- 07 ------------------------------------------------------------------------------------------


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


async def selects(self, request, context):
    select.select([], [], [], 0.5)
    return await Front.Retrieve(self, request, context)


async def waits_for_an_event(self, request, context):
    threading.Event().wait(5)
    return await Front.Retrieve(self, request, context)


async def a_short_nap(self, request, context):
    await asyncio.sleep(0.001)
    return await Front.Retrieve(self, request, context)


async def waits_for_a_second(self, request, context):
    done, _ = await asyncio.wait(
        [asyncio.ensure_future(Front.Retrieve(self, request, context))], timeout=1
    )
    return done.pop().result() if done else pb.RetrieveResponse()


async def at_most_64(self, request, context):
    if not hasattr(self, "places"):
        self.places = asyncio.Semaphore(64)
    async with self.places:
        return await Front.Retrieve(self, request, context)


for retrieve in (stands_still, selects, waits_for_an_event):
    edge("07.front", "a coroutine paused its thread")(front(retrieve))
edge("07.front", "before the back end had answered")(front(waits_for_a_second))
edge("07.front", "never more than 64 calls")(front(at_most_64))
right("07.front")(front(a_short_nap))


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


async def all_of(coroutines):
    return await asyncio.gather(*coroutines)


async def after_a_pause(coroutines):
    time.sleep(10)
    return await asyncio.gather(*coroutines)


async def after_two_seconds(coroutines):
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    if tasks:
        await asyncio.wait(tasks, timeout=2)
    return [task.result() if task.done() else None for task in tasks]


async def after_a_sleep(coroutines):
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    await asyncio.sleep(3)
    return [task.result() if task.done() else None for task in tasks]


async def at_most_100(coroutines):
    places = asyncio.Semaphore(100)

    async def placed(coroutine):
        async with places:
            return await coroutine

    return await asyncio.gather(*map(placed, coroutines))


right("07.ask_all")(asking(all_of))
edge("07.ask_all", "a coroutine paused its thread")(asking(after_a_pause))
edge("07.ask_all", "it waits for a time")(asking(after_two_seconds))
edge("07.ask_all", "it waits for a time")(asking(after_a_sleep))
edge("07.ask_all", "never more than 100")(asking(at_most_100))


# ---- 09 ------------------------------------------------------------------------------------------


class LooksAtTheMethod(Shed):
    """A right one, which reads the details of each call."""

    def intercept_service(self, continuation, details):
        assert details.method.startswith("/")
        return super().intercept_service(continuation, details)


class TriesForAWhile(Shed):
    """Takes a place that comes within a moment."""

    def intercept_service(self, continuation, details):
        handler = continuation(details)

        def answer(request, context):
            end_s = time.monotonic() + 0.05
            while not (got := self.free.acquire(blocking=False)) and time.monotonic() < end_s:
                pass
            if not got:
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls")
            try:
                return handler.unary_unary(request, context)
            finally:
                self.free.release()

        return grpc.unary_unary_rpc_method_handler(
            answer, handler.request_deserializer, handler.response_serializer
        )


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


right("09.shed")(LooksAtTheMethod)
edge("09.shed", "refused *at once*")(TriesForAWhile)
edge("09.shed", "took the last place")(counting_in_a_closure)


class Reader(KeyValueServiceServicer):
    def __init__(self, disk):
        self.disk = disk

    def pieces(self, request, context):
        for number in range(self.disk.pieces):
            if context.time_remaining() < self.disk.piece_s:
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "too late")
            yield self.disk.read(request.key, number)

    def Retrieve(self, request, context):
        return pb.RetrieveResponse(value=b"".join(self.pieces(request, context)))


class KeepsAllPieces(Reader):
    def __init__(self, disk):
        super().__init__(disk)
        self.value = b""

    def Retrieve(self, request, context):
        for piece in self.pieces(request, context):
            self.value += piece
        return pb.RetrieveResponse(value=self.value)


class KeepsPiecesOfACall(KeepsAllPieces):
    def Retrieve(self, request, context):
        self.value = b""
        return super().Retrieve(request, context)


right("09.give_up")(Reader)
edge("09.give_up", "one after the other")(KeepsAllPieces)
edge("09.give_up", "at the same time")(KeepsPiecesOfACall)


# ---- 10 ------------------------------------------------------------------------------------------


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


# ---- 13 ------------------------------------------------------------------------------------------


@edge("13.two_choices", "some were never drawn")
def of_the_first_ten(open_calls):
    one, other = random.sample(range(min(10, len(open_calls))), 2)
    return one if open_calls[one] < open_calls[other] else other


@edge("13.least_open", "")
def the_least_of_the_first_ten(open_calls):
    fewest = min(open_calls[:10])
    return random.choice([n for n, calls in enumerate(open_calls[:10]) if calls == fewest])


# ---- 15, 16 --------------------------------------------------------------------------------------


def resending(statuses=None, attempts=None):
    """A client that sends again after these statuses, so many times."""

    def client(addresses, operations, in_flight, timeout_s=1.0):
        stubs = [patient_stub(address) for address in addresses]
        free = threading.Semaphore(in_flight)

        def send(operation, number, attempt):
            call = operation.rpc(stubs[number % 2]).future(
                operation.request, timeout=min(timeout_s * 2**attempt, 60)
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
right("15.client")(patient)
right("15.client")(resending(attempts=10))
edge("15.client", "Whatever is not OK has failed")(resending(TWO, attempts=5))
edge("15.client", "give it up after")(resending())


@right("16.highest_rate")
def galloping(meets, low, high):
    step = 1
    while low + step < high and meets(low + step):
        low, step = low + step, 2 * step
    high = min(high, low + step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low


@right("16.highest_rate")
def halved_steps(meets, low, high):
    step = high - low
    while step > 0:
        while low + step < high and meets(low + step):
            low += step
        step //= 2
    return low


@right("16.highest_rate")
def each_run_twice(meets, low, high):
    while high - low > 1:
        middle = (low + high) // 2
        if meets(middle) and meets(middle):
            low = middle
        else:
            high = middle
    return low


@edge("16.highest_rate", "each run takes seconds")
def one_rate_after_the_other(meets, low, high):
    while low + 1 < high and meets(low + 1):
        low += 1
    return low


right("16.knee")(lambda levels: min(n / x for n, x, _ in levels) * max(x for _, x, _ in levels))
right("16.knee")(lambda levels: max(n / r for n, _, r in levels) * min(r for _, _, r in levels))
