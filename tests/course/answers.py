"""Answers that were tried, and known-wrong ones of the lessons from 07 on: see verdicts.py."""

import asyncio
import bisect
import contextlib
import itertools
import json
import math
import queue
import random
import statistics
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from queue import SimpleQueue

import grpc
import numpy as np
from verdicts import known, right, wrong
from wrong_answers import serving

from kvstore.course.experiments import several_servers
from kvstore.course.lessons.lesson_00.exercises import first_client
from kvstore.course.lessons.lesson_01.exercises import read_all
from kvstore.course.lessons.lesson_04.exercises import adds_the_version
from kvstore.course.lessons.lesson_04.lost_update import key_of
from kvstore.course.lessons.lesson_06.exercises import own_connections
from kvstore.course.lessons.lesson_07.exercises_search import Search
from kvstore.course.lessons.lesson_07.exercises_server import Front
from kvstore.course.lessons.lesson_09.exercises import Reader
from kvstore.course.lessons.lesson_09.exercises_server import Shed
from kvstore.course.lessons.lesson_09.giving_up import NeverLooks
from kvstore.course.lessons.lesson_12.exercises import add_server
from kvstore.course.lessons.lesson_13.exercises import least_open
from kvstore.course.lessons.lesson_14.exercises import create_if_absent
from kvstore.course.lessons.lesson_15.capstone import patient, plain
from kvstore.protocol import RETRIEVE
from kvstore.v1 import etcd_pb2
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceServicer,
    KeyValueServiceStub,
    add_KeyValueServiceServicer_to_server,
)

# ---- 00.first_client ----------------------------------------------------------------------------


@right("00.first_client")
def with_call(stub, items):
    for key, value in items:
        stub.Create.with_call(pb.CreateRequest(key=key, value=value))
    return [stub.Retrieve.with_call(pb.RetrieveRequest(key=key))[0].value for key, _ in items]


@right("00.first_client")
def futures_one_at_a_time(stub, items):
    for key, value in items:
        stub.Create.future(pb.CreateRequest(key=key, value=value)).result()
    return [stub.Retrieve.future(pb.RetrieveRequest(key=key)).result().value for key, _ in items]


@right("00.first_client")
def from_a_pool_of_one(stub, items):
    with ThreadPoolExecutor(1) as pool:
        list(
            pool.map(lambda item: stub.Create(pb.CreateRequest(key=item[0], value=item[1])), items)
        )
        replies = pool.map(lambda item: stub.Retrieve(pb.RetrieveRequest(key=item[0])), items)
        return [reply.value for reply in replies]


@right("00.first_client")
def through_a_queue(stub, items):
    queue, values = SimpleQueue(), []
    for key, value in items:
        stub.Create(pb.CreateRequest(key=key, value=value), timeout=5)
        queue.put(key)
    while not queue.empty():
        values.append(stub.Retrieve(pb.RetrieveRequest(key=queue.get())).value)
    return values


wrong("00.first_client", "1 Create and 1 Retrieve")(
    lambda stub, items: first_client(stub, [(value, key) for key, value in items])
)
wrong("00.first_client", "It should be")(lambda stub, items: first_client(stub, items[:-1]))
wrong("00.first_client", "Return a list")(
    lambda stub, items: dict(zip(items, first_client(stub, items), strict=True))
)
wrong("00.first_client", "and you return")(lambda stub, items: sorted(first_client(stub, items)))


# ---- 00.mean_in_flight, 00.utilisation ----------------------------------------------------------


@right("00.mean_in_flight")
def mean_of_each_millisecond(calls, window_s):
    sent_ms, done_ms = (np.rint(1e3 * calls[name]).astype(int) for name in ("sent_s", "done_s"))
    at_ms = np.arange(round(1e3 * window_s))
    inside = [sum((sent_ms <= at) & (at < done_ms)) for at in at_ms]
    return float(np.mean(inside))


wrong("00.mean_in_flight", "calls from none")(  # NaN for no call at all
    lambda calls, window_s: len(calls) / window_s * (calls["done_s"] - calls["sent_s"]).mean()
)
right("00.utilisation")(lambda calls_per_s, cpu_us: calls_per_s / 1e3 * (cpu_us / 1e3))


# ---- 00.median_ms --------------------------------------------------------------------------------


def times_ms(stub, operations):
    times = []
    for operation in operations:
        began_s = time.perf_counter()
        operation.rpc(stub)(operation.request)
        times.append(1e3 * (time.perf_counter() - began_s))
    return times


@wrong("00.median_ms", "")
def middle_of_the_unsorted(stub, operations):
    times = times_ms(stub, operations)
    return times[len(times) // 2]


@wrong("00.median_ms", "sort the times first")
def second_call(stub, operations):
    return times_ms(stub, operations)[1]


@wrong("00.median_ms", "sort the times first")
def fourth_call(stub, operations):
    return times_ms(stub, operations)[3]


@right("00.median_ms")
def middle_of_the_sorted(stub, operations):
    times = sorted(times_ms(stub, operations))
    return times[len(times) // 2]


right("00.median_ms")(lambda stub, operations: np.quantile(times_ms(stub, operations), 0.5))
wrong("00.median_ms", "the records of the client")(
    lambda stub, operations: statistics.median(times_ms(stub, operations)) * 1e3
)
wrong("00.median_ms", "got nan")(
    lambda stub, operations: math.nan * len(times_ms(stub, operations))
)


@wrong("00.median_ms", "Calls overlapped")
def reads_that_overtake_their_creates(stub, operations):
    """The read fails; what the learner has to change is that nothing waits for the create."""
    calls = [each.rpc(stub).future(each.request) for each in reversed(operations)]
    return statistics.median(call.result() is None for call in reversed(calls))


# ---- 01.read_all, 01.mix_to_rate ----------------------------------------------------------------


@right("01.read_all")
def with_match(stub, keys, deadline_s):
    def one(key):
        try:
            return stub.Retrieve(pb.RetrieveRequest(key=key), timeout=deadline_s).value
        except grpc.RpcError as error:
            match error.code():
                case grpc.StatusCode.NOT_FOUND:
                    return None
            raise

    return [one(key) for key in keys]


@right("01.read_all")
def with_futures(stub, keys, deadline_s):
    values = []
    for key in keys:
        call = stub.Retrieve.future(pb.RetrieveRequest(key=key), timeout=deadline_s)
        missing = call.code() is grpc.StatusCode.NOT_FOUND  # waits for the end
        values.append(None if missing else call.result().value)
    return values


@right("01.read_all")
def with_a_generator(stub, keys, deadline_s):
    def values():
        for key in keys:
            try:
                reply, _ = stub.Retrieve.with_call(pb.RetrieveRequest(key=key), deadline_s)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.NOT_FOUND:
                    raise
                yield None
            else:
                yield reply.value

    return list(values())


@wrong("01.read_all", "more call")
def raising_late(stub, keys, deadline_s):
    values, last = [], None
    for key in keys:
        try:
            values.append(stub.Retrieve(pb.RetrieveRequest(key=key), timeout=deadline_s).value)
        except grpc.RpcError as error:
            values.append(None)
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                last = error
    if last:
        raise last
    return values


@wrong("01.read_all", "It should be one call")
def retrying(stub, keys, deadline_s):
    values = []
    for key in keys:
        for _ in range(2):
            value = read_all(stub, [key], deadline_s)[0]
            if value is not None:
                break
        values.append(value)
    return values


for missing in (b"", None):
    wrong("01.read_all", "is right, and you returned")(
        lambda stub, keys, deadline_s, missing=missing: [
            value or missing for value in read_all(stub, keys, deadline_s)
        ]
    )
wrong("01.read_all", "had only")(lambda stub, keys, deadline_s: read_all(stub, keys, 1.0))
wrong("01.read_all", "had only")(
    lambda stub, keys, deadline_s: read_all(stub, keys, deadline_s / 10)
)


@right("01.mix_to_rate")
def rate_of_calls_laid_end_to_end(sent, read_s, write_s):
    at_s = 0.0
    for kind, count in sent.items():
        for _ in range(count):
            at_s += read_s if kind == "retrieve" else write_s
    return sum(sent.values()) / at_s


# ---- 02.send_all ---------------------------------------------------------------------------------


def sent_noting(stub, operations, in_flight=0):
    codes = []
    for operation in operations:
        call = operation.rpc(stub).future(operation.request)
        call.add_done_callback(lambda call: codes.append(call.code()))
    return codes


@wrong("02.send_all", "calls were in flight")
def send_all_then_a_pause(stub, operations, in_flight=0):
    codes = sent_noting(stub, operations)
    time.sleep(1)
    return codes


@wrong("02.send_all", "calls were in flight")
def send_all_then_a_timed_event(stub, operations, in_flight=0):
    codes = sent_noting(stub, operations)
    threading.Event().wait(0.5)
    return codes


@wrong("02.send_all", "calls were in flight")
def send_all_until_nothing_comes(stub, operations, in_flight=0):
    ended, codes = queue.Queue(), []
    for operation in operations:
        call = operation.rpc(stub).future(operation.request)
        call.add_done_callback(lambda call: ended.put(call.code()))
    try:
        while True:
            codes.append(ended.get(timeout=0.5))
    except queue.Empty:
        return codes


@wrong("02.send_all", "calls were in flight")
def send_all_until_nothing_comes_in_c(stub, operations, in_flight=0):
    ended, codes = SimpleQueue(), []
    for operation in operations:
        call = operation.rpc(stub).future(operation.request)
        call.add_done_callback(lambda call: ended.put(call.code()))
    try:
        while True:
            codes.append(ended.get(timeout=0.5))
    except queue.Empty:
        return codes


@wrong("02.send_all", "note the failed calls too")
def send_all_without_other_failures(stub, operations, in_flight=0):
    operations = list(operations)
    ended = SimpleQueue()
    seen = (grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND)

    def note(call):
        ended.put(call.code() if call.code() in seen else None)

    for operation in operations:
        operation.rpc(stub).future(operation.request).add_done_callback(note)
    return [code for code in (ended.get() for _ in operations) if code]


@wrong("02.send_all", "IndexError")
def send_all_of_at_least_one(stub, operations, in_flight=0):
    operations = list(operations)
    first = operations[0]
    ended = SimpleQueue()
    for operation in [first, *operations[1:]]:
        call = operation.rpc(stub).future(operation.request)
        call.add_done_callback(lambda call: ended.put(call.code()))
    return [ended.get() for _ in operations]


@wrong("02.send_all", "where two have the same key")
def send_all_by_key(stub, operations, in_flight=0):
    """One call for each key: two operations of one key become one."""
    operations = list(operations)
    ended = SimpleQueue()
    for operation in {operation.key: operation for operation in operations}.values():
        call = operation.rpc(stub).future(operation.request)
        call.add_done_callback(lambda call: ended.put(call.code()))
    return [ended.get() for _ in operations]


@right("02.send_all")
def send_all_with_a_condition(stub, operations, in_flight=0):
    operations = list(operations)
    codes, changed = [], threading.Condition()

    def note(call):
        with changed:
            codes.append(call.code())
            changed.notify()

    for operation in operations:
        operation.rpc(stub).future(operation.request).add_done_callback(note)
    with changed:
        changed.wait_for(lambda: len(codes) == len(operations))
    return codes


@right("02.send_all")
def send_all_with_an_event(stub, operations, in_flight=0):
    operations = list(operations)
    codes, lock, all_ended = [], threading.Lock(), threading.Event()

    def note(call):
        with lock:
            codes.append(call.code())
            if len(codes) == len(operations):
                all_ended.set()

    for operation in operations:
        operation.rpc(stub).future(operation.request).add_done_callback(note)
    if operations:
        all_ended.wait()
    return codes


@right("02.send_all")
def send_all_with_asyncio(stub, operations, in_flight=0):
    operations = list(operations)

    async def work():
        loop, ended = asyncio.get_running_loop(), asyncio.Queue()
        for operation in operations:
            operation.rpc(stub).future(operation.request).add_done_callback(
                lambda call: loop.call_soon_threadsafe(ended.put_nowait, call.code())
            )
        return [await ended.get() for _ in operations]

    return asyncio.run(work())


@right("02.send_all")
def send_all_looking_again(stub, operations, in_flight=0):
    operations = list(operations)
    codes = sent_noting(stub, operations)
    while len(codes) < len(operations):
        time.sleep(0.01)
    return codes


@right("02.send_all")
def send_all_with_a_guard(stub, operations, in_flight=0):
    operations = list(operations)
    ended = queue.Queue()
    for operation in operations:
        call = operation.rpc(stub).future(operation.request)
        call.add_done_callback(lambda call: ended.put(call.code()))
    return [ended.get(timeout=60) for _ in operations]


@wrong("02.send_all", "send each one once")
def sends_again_after_the_end(stub, operations, in_flight=0):
    operations = list(operations)
    send_all_looking_again(stub, operations)
    time.sleep(0.5)
    return send_all_looking_again(stub, operations)


# ---- 02 and 03: numbers -------------------------------------------------------------------------


@right("02.latency_of_kth")
def latency_of_a_queue_walked_through(k, sent_per_s, answered_per_s):
    free_s = 0.0
    for call in range(k):
        sent_s = call / sent_per_s
        free_s = max(free_s, sent_s) + 1 / answered_per_s
    return free_s - sent_s


right("02.seconds_until_full")(
    lambda c, b, kb, sent, x: math.inf if sent <= x else 1e3 * (c - b) / (kb * (sent - x))
)
right("03.hot_key")(
    lambda shares, part, s: 1 / (max(shares.values()) * part * s) if part else math.inf
)
right("03.in_flight_for")(
    lambda x, disk, trip, most: math.inf if x > most else math.ceil(round(x * (disk + trip), 9))
)


# ---- 03.bounded ----------------------------------------------------------------------------------


def bounded_without_its_end(stub, operations, in_flight):
    free = threading.Semaphore(in_flight)
    for operation in operations:
        free.acquire()
        operation.rpc(stub).future(operation.request).add_done_callback(lambda _: free.release())
    return free


@wrong("03.bounded", "still in flight")
def bounded_then_a_pause(stub, operations, in_flight):
    bounded_without_its_end(stub, operations, in_flight)
    time.sleep(0.5)


@wrong("03.bounded", "still in flight")
def bounded_then_timed_acquires(stub, operations, in_flight):
    free = bounded_without_its_end(stub, operations, in_flight)
    for _ in range(in_flight):
        free.acquire(timeout=1)


@wrong("03.bounded", "it returned with 1 call still in flight")
def bounded_with_one_acquire_too_few_at_the_end(stub, operations, in_flight):
    free = bounded_without_its_end(stub, operations, in_flight)
    for _ in range(in_flight - 1):
        free.acquire()


@wrong("03.bounded", "were in flight")
def bounded_with_a_timed_acquire(stub, operations, in_flight):
    free = threading.Semaphore(in_flight)
    for operation in operations:
        free.acquire(timeout=1)
        operation.rpc(stub).future(operation.request).add_done_callback(lambda _: free.release())
    for _ in range(in_flight):
        free.acquire()


@wrong("03.bounded", "after a call had failed")
def bounded_releasing_twice_on_failure(stub, operations, in_flight):
    free = threading.Semaphore(in_flight)

    def ended(call):
        if call.code() is not grpc.StatusCode.OK:
            free.release()
        free.release()

    for operation in operations:
        free.acquire()
        operation.rpc(stub).future(operation.request).add_done_callback(ended)
    for _ in range(in_flight):
        free.acquire()


@wrong("03.bounded", "the oldest one")
def bounded_waiting_for_the_oldest(stub, operations, in_flight):
    calls = deque()
    for operation in operations:
        if len(calls) == in_flight:
            calls.popleft().exception()
        calls.append(operation.rpc(stub).future(operation.request))
    for call in calls:
        call.exception()


@wrong("03.bounded", "in flight")
def bounded_by_a_timer(stub, operations, in_flight):
    free = threading.Semaphore(in_flight)
    for operation in operations:
        free.acquire()
        operation.rpc(stub).future(operation.request)
        threading.Timer(0.15, free.release).start()
    for _ in range(in_flight):
        free.acquire()


@wrong("03.bounded", "in flight")
def bounded_by_pauses(stub, operations, in_flight):
    calls = []
    for number, operation in enumerate(operations):
        if number % in_flight == 0:
            time.sleep(0.15)
        calls.append(operation.rpc(stub).future(operation.request))
    for call in calls:
        call.exception()


@wrong("03.bounded", "fails must release its place too")
def bounded_releasing_after_known_statuses(stub, operations, in_flight):
    free = threading.Semaphore(in_flight)

    def ended(call):
        if call.code() in (grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND):
            free.release()

    for operation in operations:
        free.acquire()
        operation.rpc(stub).future(operation.request).add_done_callback(ended)
    for _ in range(in_flight):
        free.acquire()


@right("03.bounded")
def bounded_with_blocking_calls(stub, operations, in_flight):
    taking = threading.Lock()

    def caller():
        while True:
            with taking:
                operation = next(operations, None)
            if operation is None:
                return
            try:
                operation.rpc(stub)(operation.request)
            except grpc.RpcError:
                pass

    with ThreadPoolExecutor(in_flight) as pool:
        for _ in range(in_flight):
            pool.submit(caller)


@right("03.bounded")
def bounded_with_a_pool(stub, operations, in_flight):
    def work():
        while True:
            with taking:
                operation = next(operations, None)
            if operation is None:
                return
            operation.rpc(stub).future(operation.request).exception()

    taking = threading.Lock()
    operations = iter(operations)
    with ThreadPoolExecutor(in_flight) as pool:
        for _ in range(in_flight):
            pool.submit(work)


@right("03.bounded")
def bounded_with_a_queue(stub, operations, in_flight):
    free = queue.Queue()
    for place in range(in_flight):
        free.put(place)
    for operation in operations:
        place = free.get()
        operation.rpc(stub).future(operation.request).add_done_callback(
            lambda _, place=place: free.put(place)
        )
    for _ in range(in_flight):
        free.get()


@right("03.bounded")
def bounded_with_asyncio(stub, operations, in_flight):
    async def work():
        loop, free = asyncio.get_running_loop(), asyncio.Semaphore(in_flight)
        for operation in operations:
            await free.acquire()
            call = operation.rpc(stub).future(operation.request)
            call.add_done_callback(lambda _: loop.call_soon_threadsafe(free.release))
        for _ in range(in_flight):
            await free.acquire()

    asyncio.run(work())


@right("03.bounded")
def bounded_sending_first_with_one_place_fewer(stub, operations, in_flight):
    """The order of the first edition's solution: the calls count, not the spelling."""
    free, sent = threading.Semaphore(0), 0
    for operation in operations:
        if sent >= in_flight:
            free.acquire()
        sent += 1
        operation.rpc(stub).future(operation.request).add_done_callback(lambda _: free.release())
    for _ in range(min(sent, in_flight)):
        free.acquire()


@right("03.bounded")
def bounded_with_a_condition(stub, operations, in_flight):
    changed, count = threading.Condition(), 0

    def ended(_):
        nonlocal count
        with changed:
            count -= 1
            changed.notify()

    for operation in operations:
        with changed:
            while count >= in_flight:
                changed.wait()
            count += 1
        operation.rpc(stub).future(operation.request).add_done_callback(ended)
    with changed:
        changed.wait_for(lambda: count == 0)


# ---- 04.server -----------------------------------------------------------------------------------


class Store(KeyValueServiceServicer):
    """A right one, with a lock that is made when it is first needed."""

    def __init__(self, disk, values):
        self.disk, self.values = disk, dict(values)
        self.locks, self.guard = {}, threading.Lock()

    def Retrieve(self, request, context):
        if request.key not in self.values:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        self.disk.read(request.key)
        return pb.RetrieveResponse(value=self.values[request.key])

    def lock_of(self, key):
        with self.guard:
            if key not in self.locks:
                self.locks[key] = threading.Lock()
            return self.locks[key]

    def Update(self, request, context):
        if request.key not in self.values:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        with self.lock_of(request.key):
            self.disk.write(request.key)
            self.values[request.key] = request.value
        return pb.UpdateResponse()


class ValueAfterTheLock(Store):
    def Update(self, request, context):
        if request.key not in self.values:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        with self.lock_of(request.key):
            self.disk.write(request.key)
        self.values[request.key] = request.value
        return pb.UpdateResponse()


class LooksThenMakes(Store):
    def lock_of(self, key):
        if key not in self.locks:
            self.locks[key] = threading.Lock()
        return self.locks[key]


class GetsOrMakes(Store):
    def lock_of(self, key):
        self.locks[key] = self.locks.get(key) or threading.Lock()
        return self.locks[key]


class MadeByTheFirstWriter(Store):
    def lock_of(self, key):
        try:
            return self.locks[key]
        except KeyError:
            lock = threading.Lock()
            self.locks[key] = lock
            return lock


class SetsDefault(Store):
    def lock_of(self, key):
        return self.locks.setdefault(key, threading.Lock())


class NoneForEmpty(Store):
    def Retrieve(self, request, context):
        if not self.values.get(request.key):
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        return super().Retrieve(request, context)


class KeepsEmptyOut(Store):
    def Update(self, request, context):
        if not self.values.get(request.key):
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        return super().Update(request, context)


wrong("04.server", "before the lock is released")(serving(ValueAfterTheLock))
wrong("04.server", "each made a lock")(serving(LooksThenMakes))
wrong("04.server", "each made a lock")(serving(GetsOrMakes))
wrong("04.server", "each made a lock")(serving(MadeByTheFirstWriter))
wrong("04.server", "empty")(serving(NoneForEmpty))
wrong("04.server", "empty")(serving(KeepsEmptyOut))
right("04.server")(serving(Store))
right("04.server")(serving(SetsDefault))


class BusyKeys(Store):
    """A set of the keys that are being written, and a condition in place of locks."""

    def __init__(self, disk, values):
        self.disk, self.values = disk, values
        self.busy, self.changed = set(), threading.Condition()

    def Update(self, request, context):
        if request.key not in self.values:
            context.set_code(grpc.StatusCode.NOT_FOUND)
            return pb.UpdateResponse()
        with self.changed:
            self.changed.wait_for(lambda: request.key not in self.busy)
            self.busy.add(request.key)
        try:
            self.disk.write(request.key)
            self.values[request.key] = request.value
        finally:
            with self.changed:
                self.busy.discard(request.key)
                self.changed.notify_all()
        return pb.UpdateResponse()


class LockOfEachValue(Store):
    """Each entry is a value with its lock; reads use `get`."""

    def __init__(self, disk, values):
        self.disk = disk
        self.entries = {key: [value, threading.Semaphore(1)] for key, value in values.items()}

    def Retrieve(self, request, context):
        entry = self.entries.get(request.key)
        if entry is None:
            context.set_code(grpc.StatusCode.NOT_FOUND)
            return pb.RetrieveResponse()
        self.disk.read(request.key)
        return pb.RetrieveResponse(value=entry[0])

    def Update(self, request, context):
        entry = self.entries.get(request.key)
        if entry is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "")
        with entry[1]:
            self.disk.write(request.key)
            entry[0] = request.value
        return pb.UpdateResponse()


right("04.server")(serving(BusyKeys))
right("04.server")(serving(LockOfEachValue))
# ---- 04.where_they_are, 04.add_one ---------------------------------------------------------------


@right("04.add_one")
def add_recursively(stub, counter, version):
    reply = stub.Retrieve(pb.RetrieveRequest(key=key_of(counter, version)), timeout=5)
    value = b"%d" % (int(reply.value) + 1)
    try:
        stub.Create(pb.CreateRequest(key=key_of(counter, version + 1), value=value), timeout=5)
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.ALREADY_EXISTS:
            return add_recursively(stub, counter, version + 1)
        raise
    return version + 1


@right("04.add_one")
def add_with_futures(stub, counter, version):
    while True:
        number = int(
            stub.Retrieve.future(pb.RetrieveRequest(key=key_of(counter, version))).result().value
        )
        version += 1
        request = pb.CreateRequest(key=key_of(counter, version), value=str(number + 1).encode())
        if stub.Create.future(request).code() is grpc.StatusCode.OK:
            return version


@right("04.add_one")
def add_looking_ahead(stub, counter, version):
    """It reads on until there is no later version, and creates that one."""
    newest = stub.Retrieve(pb.RetrieveRequest(key=key_of(counter, version)))
    while True:
        try:
            newest = stub.Retrieve(pb.RetrieveRequest(key=key_of(counter, version + 1)))
            version += 1
            continue
        except grpc.RpcError:
            value = b"%d" % (int(newest.value) + 1)
        with contextlib.suppress(grpc.RpcError):
            stub.Create(pb.CreateRequest(key=key_of(counter, version + 1), value=value))
            return version + 1


wrong("04.add_one", "")(adds_the_version)


@right("04.where_they_are")
def slow_where(in_flight, threads):
    """Place the calls one by one."""
    queue_, lock, disk = 0, 0, 0
    for call in range(in_flight):
        if call >= threads:
            queue_ += 1
        elif disk:
            lock += 1
        else:
            disk += 1
    return queue_, lock, disk


for order in ((2, 1, 0), (1, 0, 2), (1, 2, 0)):
    wrong("04.where_they_are", "in another order")(
        lambda n, c, order=order: tuple(slow_where(n, c)[at] for at in order)
    )


# ---- 05: streams, order, the commit index -------------------------------------------------------


@right("05.reads_in_a_window")
def with_a_queue(stub, keys, window):
    """The loop over the replies puts the next request into a queue."""
    sending, values, rest = queue.SimpleQueue(), {}, iter(enumerate(keys))

    def put_next():
        number, key = next(rest, (None, None))
        sending.put(
            None if key is None else pb.PipelineRequest(id=number + 1, kinds=b"\x02", keys=[key])
        )

    for _ in range(window):
        put_next()
    for reply in stub.Pipeline(iter(sending.get, None)):
        values[reply.id - 1] = reply.values[0] if reply.statuses == b"\x00" else None
        put_next()
    return [values[number] for number in range(len(keys))]


@right("05.reads_in_a_window")
def with_a_condition(stub, keys, window):
    """A set of open ids, guarded by a condition."""
    open_ids, changed, values = set(), threading.Condition(), [None] * len(keys)

    def requests():
        for number, key in enumerate(keys):
            with changed:
                changed.wait_for(lambda: len(open_ids) < window)
                open_ids.add(number)
            yield pb.PipelineRequest(id=number, kinds=b"\x02", keys=[key])

    for reply in stub.Pipeline(requests()):
        values[reply.id] = next(iter(reply.values), None)
        with changed:
            open_ids.discard(reply.id)
            changed.notify()
    return values


@right("05.commit_index")
def committed_with_a_heap(acknowledged):
    seen, found = {0}, []
    for entry in acknowledged:
        seen |= {entry}
        found.append(next(n for n in itertools.count() if n + 1 not in seen))
    return found


right("05.in_order")(lambda calls: calls["done_s"].cummax())


@wrong("05.in_order", "one earlier reply only")
def waits_for_the_one_before(calls):
    done = list(calls["done_s"])
    return [max(done[at], done[max(at - 1, 0)]) for at in range(len(done))]


# ---- 06: connections, a cap of streams ----------------------------------------------------------


@right("06.own_connections")
def with_different_options(address, count):
    """Channels share only with channels of the same options."""
    return [
        grpc.insecure_channel(address, options=[("grpc.primary_user_agent", f"caller {place}")])
        for place in range(count)
    ]


class Intercepts(grpc.UnaryUnaryClientInterceptor):
    def intercept_unary_unary(self, continuation, client_call_details, request):
        return continuation(client_call_details, request)


@right("06.own_connections")
def intercepted(address, count):
    return [
        grpc.intercept_channel(channel, Intercepts()) for channel in own_connections(address, count)
    ]


@right("06.behind_a_cap")
def by_each_connection(in_flight, connections, max_streams, disk_s, cpu_s):
    shares = [in_flight // connections + (k < in_flight % connections) for k in range(connections)]
    inside = sum(min(share, max_streams) for share in shares)
    return min(inside / (disk_s + cpu_s), 1 / cpu_s)


# ---- 09.shed -------------------------------------------------------------------------------------


def shed_with(take, give):
    """An interceptor with its own way to take a place (false: refuse) and to give it back."""

    class Shed(grpc.ServerInterceptor):
        def __init__(self, limit):
            self.limit = limit
            self.free = threading.Semaphore(limit)
            self.lock = threading.Lock()
            self.count = 0

        def intercept_service(self, continuation, details):
            handler = continuation(details)

            def answer(request, context):
                if not take(self):
                    context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls")
                try:
                    return handler.unary_unary(request, context)
                finally:
                    give(self)

            return grpc.unary_unary_rpc_method_handler(
                answer, handler.request_deserializer, handler.response_serializer
            )

    return Shed


def take_without_waiting(shed):
    return shed.free.acquire(blocking=False)


def give(shed):
    shed.free.release()


def take_after_a_while(shed):
    return shed.free.acquire(timeout=0.1)


def take_after_pauses(shed):
    for _ in range(10):
        if shed.free.acquire(blocking=False):
            return True
        time.sleep(0.005)
    return False


def take_of_an_unlocked_counter(shed):
    if shed.count >= shed.limit:
        return False
    shed.count += 1
    return True


def give_to_an_unlocked_counter(shed):
    shed.count -= 1


def take_of_a_locked_counter(shed):
    with shed.lock:
        return take_of_an_unlocked_counter(shed)


def give_to_a_locked_counter(shed):
    with shed.lock:
        shed.count -= 1


wrong("09.shed", "must be refused *at once*")(shed_with(take_after_a_while, give))
wrong("09.shed", "must be refused *at once*")(shed_with(take_after_pauses, give))
wrong("09.shed", "both took the last place")(
    shed_with(take_of_an_unlocked_counter, give_to_an_unlocked_counter)
)
wrong("09.shed", "three steps")(shed_with(take_of_a_locked_counter, give_to_an_unlocked_counter))
right("09.shed")(shed_with(take_of_a_locked_counter, give_to_a_locked_counter))
right("09.shed")(shed_with(take_without_waiting, give))


def shed_with_errors(status):
    class Shed(shed_with(take_without_waiting, give)):
        def intercept_service(self, continuation, details):
            inner = super().intercept_service(continuation, details)

            def answer(request, context):
                try:
                    return inner.unary_unary(request, context)
                except Exception as error:
                    if context.code() is not None:
                        raise
                    context.abort(status, str(error))

            return grpc.unary_unary_rpc_method_handler(
                answer, inner.request_deserializer, inner.response_serializer
            )

    return Shed


wrong("09.shed", "let the error out")(shed_with_errors(grpc.StatusCode.INTERNAL))


def around(handler, answer):
    return grpc.unary_unary_rpc_method_handler(
        answer, handler.request_deserializer, handler.response_serializer
    )


@known("09.shed", "must be refused *at once*")
class ShedThatWaits(Shed):
    def intercept_service(self, continuation, details):
        handler = continuation(details)

        def answer(request, context):
            with self.free:
                return handler.unary_unary(request, context)

        return around(handler, answer)


def never(shed):
    pass


known("09.shed", "A call that has ended must give its place back")(
    shed_with(take_without_waiting, never)
)


@known("09.shed", "so that it comes back after an error, too")
class ShedThatReleasesAfterSuccess(Shed):
    def intercept_service(self, continuation, details):
        handler = continuation(details)

        def answer(request, context):
            if not self.free.acquire(blocking=False):
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls")
            reply = handler.unary_unary(request, context)
            self.free.release()
            return reply

        return around(handler, answer)


@known("09.shed", "All methods share the places")
class ShedPerMethod(Shed):
    def __init__(self, limit):
        self.limit = limit

    def intercept_service(self, continuation, details):
        self.free = threading.Semaphore(self.limit)
        return Shed.intercept_service(self, continuation, details)


@known("09.shed", "Does each call give back one place, and no call two?")
class OneTooFew(Shed):
    def __init__(self, limit):
        super().__init__(max(1, limit - 1))


@known("09.shed", "must end with RESOURCE_EXHAUSTED")
class ShedAsUnavailable(Shed):
    def intercept_service(self, continuation, details):
        handler = continuation(details)

        def answer(request, context):
            if not self.free.acquire(blocking=False):
                context.abort(grpc.StatusCode.UNAVAILABLE, "too many calls")
            try:
                return handler.unary_unary(request, context)
            finally:
                self.free.release()

        return around(handler, answer)


@known("09.shed", "gRPC does not run the method for them")
class ShedAtArrival(Shed):
    def intercept_service(self, continuation, details):
        handler = continuation(details)
        has_place = self.free.acquire(blocking=False)

        def answer(request, context):
            if not has_place:
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls")
            try:
                return handler.unary_unary(request, context)
            finally:
                self.free.release()

        return around(handler, answer)


@known("09.shed", "`intercept_service` must return a handler")
class ShedWithoutAHandler(Shed):
    def intercept_service(self, continuation, details):
        continuation(details)


@known("09.shed", "let the error out")
class ShedThatHidesErrors(Shed):
    def intercept_service(self, continuation, details):
        inner = Shed.intercept_service(self, continuation, details)

        def answer(request, context):
            try:
                return inner.unary_unary(request, context)
            except RuntimeError:
                return pb.RetrieveResponse()

        return around(inner, answer)


# ---- 10.retry_config -----------------------------------------------------------------------------


def config_with(codes=("UNAVAILABLE",), **changed):
    def config(attempts, first_pause_s, tokens, ratio):
        policy = {
            "maxAttempts": attempts,
            "initialBackoff": f"{first_pause_s}s",
            "maxBackoff": "1s",
            "backoffMultiplier": 2,
            "retryableStatusCodes": list(codes),
        }
        return {
            "methodConfig": [{"name": [{}], "retryPolicy": policy | changed}],
            "retryThrottling": {"maxTokens": tokens, "tokenRatio": ratio},
        }

    return config


wrong("10.retry_config", "`backoffMultiplier` 1")(config_with(backoffMultiplier=1))
wrong("10.retry_config", "`backoffMultiplier` 10")(config_with(backoffMultiplier=10))
wrong("10.retry_config", "`maxBackoff` '100s'")(config_with(maxBackoff="100s"))
wrong("10.retry_config", "retry UNAVAILABLE and nothing else")(
    config_with(["UNAVAILABLE", "RESOURCE_EXHAUSTED"])
)
wrong("10.retry_config", "retry UNAVAILABLE and nothing else")(
    config_with(["UNAVAILABLE", "ABORTED"])
)
right("10.retry_config")(config_with())


def config_changed(change):
    """A config after `change(config, its policy)`."""

    def config(attempts, first_pause_s, tokens, ratio):
        made = config_with()(attempts, first_pause_s, tokens, ratio)
        change(made, made["methodConfig"][0]["retryPolicy"])
        return made

    return config


@known("10.retry_config", "`retryThrottling` stands beside `methodConfig`")
@config_changed
def config_without_a_budget(config, policy):
    del config["retryThrottling"]


@wrong("10.retry_config", "`retryThrottling` stands beside `methodConfig`")
@config_changed
def config_with_the_budget_inside(config, policy):
    config["methodConfig"][0]["retryThrottling"] = config.pop("retryThrottling")


@wrong("10.retry_config", 'does `"name": [{}]` name all methods?')
@config_changed
def config_with_the_policy_outside(config, policy):
    config["retryPolicy"] = config["methodConfig"].pop()["retryPolicy"]


@known("10.retry_config", 'does `"name": [{}]` name all methods?')
@config_changed
def config_without_a_name(config, policy):
    config["methodConfig"][0]["name"] = []


@known("10.retry_config", "counts the first attempt, too")
@config_changed
def config_of_retries(config, policy):
    policy["maxAttempts"] += 1


@wrong("10.retry_config", "counts the first attempt, too")
@config_changed
def config_of_three_attempts(config, policy):
    policy["maxAttempts"] = 3


@known("10.retry_config", "retry UNAVAILABLE and nothing else")
@config_changed
def config_that_retries_everything(config, policy):
    policy["retryableStatusCodes"] += ["INTERNAL", "DEADLINE_EXCEEDED"]


@known("10.retry_config", "gRPC does not accept this service config")
@config_changed
def config_with_a_number(config, policy):
    policy["initialBackoff"] = float(policy["initialBackoff"].rstrip("s"))


@known("10.retry_config", "`initialBackoff` is the first pause")
@config_changed
def config_with_a_fixed_pause(config, policy):
    policy["initialBackoff"] = "0.05s"


@known("10.retry_config", "`maxTokens` is the number of tokens")
@config_changed
def config_with_twice_the_tokens(config, policy):
    config["retryThrottling"]["maxTokens"] *= 2


@known("10.retry_config", "`tokenRatio` is what one answer earns")
@config_changed
def config_with_a_fixed_ratio(config, policy):
    config["retryThrottling"]["tokenRatio"] = 0.1


right("10.retry_config")(config_with(maxBackoff="1.0s", backoffMultiplier=2.0))


# ---- 09.give_up ----------------------------------------------------------------------------------


def reader(needed_s):
    """A method that gives up where less than `needed_s(disk, number of the piece)` is left."""

    class Reader(KeyValueServiceServicer):
        def __init__(self, disk):
            self.disk = disk

        def Retrieve(self, request, context):
            value = b""
            for number in range(self.disk.pieces):
                if context.time_remaining() < needed_s(self.disk, number):
                    context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "too little time is left")
                value += self.disk.read(request.key, number)
            return pb.RetrieveResponse(value=value)

    return Reader


THIS_PIECE = "look only at the time for *this* piece"
wrong("09.give_up", THIS_PIECE)(reader(lambda disk, number: 2 * disk.piece_s))
wrong("09.give_up", THIS_PIECE)(reader(lambda disk, number: (disk.pieces - number) * disk.piece_s))
wrong("09.give_up", THIS_PIECE)(reader(lambda disk, number: 1.5 * disk.piece_s))
wrong("09.give_up", THIS_PIECE)(reader(lambda disk, number: disk.piece_s + 1000))
wrong("09.give_up", "Begin no piece")(reader(lambda disk, number: disk.piece_s / 2))
wrong("09.give_up", "Begin no piece")(reader(lambda disk, number: min(disk.piece_s, 100)))
right("09.give_up")(reader(lambda disk, number: disk.piece_s))
known("09.give_up", "began one all the same")(NeverLooks)


@known("09.give_up", "look at the time before *each* piece")
class LooksOnce(NeverLooks):
    def Retrieve(self, request, context):
        if context.time_remaining() < self.disk.piece_s:
            context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "too little time is left")
        return super().Retrieve(request, context)


@known("09.give_up", THIS_PIECE)
class WantsTimeForAll(NeverLooks):
    def Retrieve(self, request, context):
        if context.time_remaining() < 2 * self.disk.pieces * self.disk.piece_s + 50:
            context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "too little time is left")
        return super().Retrieve(request, context)


@known("09.give_up", "must end with DEADLINE_EXCEEDED, got OK")
class ReturnsWhatItHas(Reader):
    def Retrieve(self, request, context):
        value = b""
        for number in range(self.disk.pieces):
            if context.time_remaining() < self.disk.piece_s:
                break
            value += self.disk.read(request.key, number)
        return pb.RetrieveResponse(value=value)


@known("09.give_up", "must end with DEADLINE_EXCEEDED, got CANCELLED")
class EndsWithCancelled(Reader):
    def Retrieve(self, request, context):
        value = b""
        for number in range(self.disk.pieces):
            if context.time_remaining() < self.disk.piece_s:
                context.abort(grpc.StatusCode.CANCELLED, "too little time is left")
            value += self.disk.read(request.key, number)
        return pb.RetrieveResponse(value=value)


@known("09.give_up", "all pieces in order")
class LastPieceOnly(Reader):
    def Retrieve(self, request, context):
        value = b""
        for number in range(self.disk.pieces):
            if context.time_remaining() < self.disk.piece_s:
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "too little time is left")
            value = self.disk.read(request.key, number)
        return pb.RetrieveResponse(value=value)


@known("09.give_up", "waited until the deadline")
class SleepsUntilTheEnd(Reader):
    def Retrieve(self, request, context):
        if context.time_remaining() < self.disk.piece_s:
            time.sleep(context.time_remaining())
        return super().Retrieve(request, context)


# ---- 15.client -----------------------------------------------------------------------------------


def client(scaled=1, both=False, take=iter, codes=None):
    def my_client(addresses, operations, in_flight, timeout_s):
        channels = [grpc.insecure_channel(address) for address in addresses]
        stubs = [KeyValueServiceStub(channel) for channel in channels]
        free = threading.Semaphore(int(scaled * in_flight) or 1)

        def send(operation, number, attempt):
            call = operation.rpc(stubs[number % 2]).future(
                operation.request, timeout=timeout_s * 2**attempt
            )

            def ended(call):
                if attempt < 5 and call.code() is not grpc.StatusCode.OK:
                    send(operation, number + 1, attempt + 1)
                else:
                    free.release()

            call.add_done_callback(ended)

        for number, operation in enumerate(take(operations)):
            free.acquire()
            if both:
                operation.rpc(stubs[(number + 1) % 2]).future(operation.request)
            send(operation, number, 0)
        for _ in range(int(scaled * in_flight) or 1):
            free.acquire()
        for channel in channels:
            channel.close()

    return my_client


wrong("15.client", "open at once")(client(scaled=2))
wrong("15.client", "were in flight")(client(scaled=0.5))
wrong("15.client", "no call failed")(client(both=True))
wrong("15.client", "were taken that had no place")(client(take=list))
right("15.client")(client())
known("15.client", "waited until it went on")(
    lambda addresses, operations, in_flight, timeout_s: plain(addresses, operations, in_flight)
)
known("15.client", "open at once")(
    lambda addresses, operations, in_flight, timeout_s: patient(
        addresses, operations, 40, timeout_s
    )
)


def client_with_a_deadline(send_again, step):
    """It retries statuses for which `send_again` is true, at the stub `step` places on."""

    def my_client(addresses, operations, in_flight, timeout_s):
        channels = [grpc.insecure_channel(address) for address in addresses]
        stubs = [KeyValueServiceStub(channel) for channel in channels]
        free = threading.Semaphore(in_flight)

        def send(operation, number, attempt):
            stub = stubs[number % len(stubs)]
            call = operation.rpc(stub).future(operation.request, timeout=timeout_s)
            call.add_done_callback(lambda call: ended(call, operation, number, attempt))

        def ended(call, operation, number, attempt):
            if attempt < 4 and send_again(call.code()):
                send(operation, number + step, attempt + 1)
            else:
                free.release()

        for number, operation in enumerate(operations):
            free.acquire()
            send(operation, number, 0)
        for _ in range(in_flight):
            free.acquire()
        for channel in channels:
            channel.close()

    return my_client


known("15.client", "ended with DEADLINE_EXCEEDED")(client_with_a_deadline(lambda code: False, 1))
known("15.client", "and never to the other")(
    client_with_a_deadline(lambda code: code is not grpc.StatusCode.OK, 2)
)
known("15.client", "One server went away")(
    client_with_a_deadline(lambda code: code is grpc.StatusCode.DEADLINE_EXCEEDED, 1)
)


# ---- 11.hedged -----------------------------------------------------------------------------------


def hedged_after(delay_s):
    async def hedged(first, second, request, after_s):
        calls = {asyncio.ensure_future(first.Retrieve(request))}
        done, waiting = await asyncio.wait(calls, timeout=delay_s(after_s))
        if not done:
            waiting.add(asyncio.ensure_future(second.Retrieve(request)))
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for call in waiting:
            call.cancel()
        return done.pop().result()

    return hedged


wrong("11.hedged", "the second server")(hedged_after(lambda after_s: 1.0))
wrong("11.hedged", "no longer")(hedged_after(lambda after_s: 10 * after_s))
wrong("11.hedged", "no longer")(hedged_after(lambda after_s: 2 * after_s))
wrong("11.hedged", "no less")(hedged_after(lambda after_s: after_s / 10))
wrong("11.hedged", "no less")(hedged_after(lambda after_s: 0.9 * after_s))
right("11.hedged")(hedged_after(lambda after_s: after_s))


@known("11.hedged", "had passed without a reply")
async def not_hedged(first, second, request, after_s):
    return await first.Retrieve(request)


@known("11.hedged", "the second server was called at once")
async def both_at_once(first, second, request, after_s):
    calls = [asyncio.ensure_future(stub.Retrieve(request)) for stub in (first, second)]
    done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    for call in waiting:
        call.cancel()
    return done.pop().result()


@known("11.hedged", "Keep it: the first server may still be faster")
async def retried(first, second, request, after_s):
    try:
        return await asyncio.wait_for(first.Retrieve(request), after_s)
    except TimeoutError:
        return await second.Retrieve(request)


@known("11.hedged", "cancel the call to the first one")
async def never_cancelled(first, second, request, after_s):
    calls = {asyncio.ensure_future(first.Retrieve(request))}
    done, waiting = await asyncio.wait(calls, timeout=after_s)
    if not done:
        waiting.add(asyncio.ensure_future(second.Retrieve(request)))
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    return done.pop().result()


@known("11.hedged", "still waits for the first one")
async def waits_for_both(first, second, request, after_s):
    calls = {asyncio.ensure_future(first.Retrieve(request))}
    done, waiting = await asyncio.wait(calls, timeout=after_s)
    if not done:
        waiting.add(asyncio.ensure_future(second.Retrieve(request)))
        done, _ = await asyncio.wait(waiting)
    return done.pop().result()


@known("11.hedged", "The first *reply* wins")
async def prefers_the_second(first, second, request, after_s):
    call = asyncio.ensure_future(first.Retrieve(request))
    done, _ = await asyncio.wait({call}, timeout=after_s)
    if done:
        return call.result()
    reply = await second.Retrieve(request)
    call.cancel()
    return reply


@known("11.hedged", "A reply ends the wait")
async def always_sleeps(first, second, request, after_s):
    call = asyncio.ensure_future(first.Retrieve(request))
    await asyncio.sleep(after_s)
    if call.done():
        return call.result()
    other = asyncio.ensure_future(second.Retrieve(request))
    done, waiting = await asyncio.wait({call, other}, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
    return done.pop().result()


@known("11.hedged", "no call came to the first server")
async def in_the_other_order(first, second, request, after_s):
    return await several_servers.hedged(second, first, request, after_s)


@right("11.hedged")
async def hedged_shielded(first, second, request, after_s):
    call = asyncio.ensure_future(first.Retrieve(request))
    try:
        return await asyncio.wait_for(asyncio.shield(call), after_s)
    except TimeoutError:
        other = asyncio.ensure_future(second.Retrieve(request))
    done, waiting = await asyncio.wait({call, other}, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
    return done.pop().result()


# ---- 01.read_all, 05.reads_in_a_window, 07.ask_all, 07.search: edges ----------------------------


@wrong("01.read_all", "Only NOT_FOUND is an answer")
def read_all_past_other_failures(stub, keys, deadline_s):
    raised = ("INTERNAL", "PERMISSION_DENIED", "DEADLINE_EXCEEDED")
    values = []
    for key in keys:
        try:
            values.append(stub.Retrieve(pb.RetrieveRequest(key=key), timeout=deadline_s).value)
        except grpc.RpcError as error:
            if error.code().name in raised:
                raise
            values.append(None)
    return values


def window_of(value_of):
    def reads(stub, keys, window):
        values = [None] * len(keys)
        free = threading.Semaphore(window)

        def requests():
            for number, key in enumerate(keys):
                free.acquire()
                yield pb.PipelineRequest(id=number, kinds=bytes([RETRIEVE]), keys=[key])

        for reply in stub.Pipeline(requests()):
            values[reply.id] = value_of(reply)
            free.release()
        return values

    return reads


wrong("05.reads_in_a_window", "a key has the empty value")(
    window_of(lambda reply: (reply.values[0] if reply.values else None) or None)
)
right("05.reads_in_a_window")(window_of(lambda reply: reply.values[0] if reply.values else None))


@wrong("07.ask_all", "Only the status NOT_FOUND")
async def ask_all_past_other_failures(stub, keys):
    async def one(key):
        try:
            return (await stub.Retrieve(pb.RetrieveRequest(key=key))).value
        except grpc.RpcError as error:
            if error.code().name in ("UNAVAILABLE", "PERMISSION_DENIED", "INTERNAL"):
                raise
            return None

    return list(await asyncio.gather(*map(one, keys)))


async def ask_one(stub, key):
    try:
        return (await stub.Retrieve(pb.RetrieveRequest(key=key))).value
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        return None


@right("07.ask_all")
async def ask_all_with_gather(stub, keys):
    return list(await asyncio.gather(*(ask_one(stub, key) for key in keys)))


class SearchOfThree(Search):
    """Always three threads, however many connections there are."""

    def __init__(self, search, connections):
        super().__init__(search, connections)
        self.threads = ThreadPoolExecutor(3)


wrong("07.search", "5 connections, and never more than 3")(SearchOfThree)
right("07.search")(Search)


# ---- right answers in other types of result ------------------------------------------------------

right("00.mean_in_flight")(
    lambda calls, window_s: np.asarray((calls["done_s"] - calls["sent_s"]).sum() / window_s)
)
right("04.where_they_are")(lambda n, c: np.array([max(0, n - c), min(n, c) - 1, 1]))
right("05.in_order")(lambda calls: itertools.accumulate(calls["done_s"], max))


# ---- more wrong answers, with messages that another one has as well ------------------------------


@wrong("03.bounded", "again and again")
def spins(stub, operations, in_flight):
    sent, ended = 0, []
    for operation in operations:
        while sent - len(ended) >= in_flight:
            pass
        sent += 1
        operation.rpc(stub).future(operation.request).add_done_callback(ended.append)
    while len(ended) < sent:
        pass


@wrong("03.bounded", "the others wait in a queue")
def pool_fed_with_everything(stub, operations, in_flight):
    with ThreadPoolExecutor(in_flight) as pool:
        for operation in operations:
            pool.submit(operation.rpc(stub), operation.request)


@wrong("09.give_up", "began one all the same")
class OnlyWhenItIsOver(Reader):
    def Retrieve(self, request, context):
        value = b""
        for number in range(self.disk.pieces):
            if not context.is_active():
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the caller has gone")
            value += self.disk.read(request.key, number)
        return pb.RetrieveResponse(value=value)


@wrong("09.give_up", "began one all the same")
class LooksAfterwards(Reader):
    def Retrieve(self, request, context):
        value = b""
        for number in range(self.disk.pieces):
            value += self.disk.read(request.key, number)
            if context.time_remaining() < self.disk.piece_s:
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "too little time is left")
        return pb.RetrieveResponse(value=value)


@wrong("09.give_up", "look only at the time for *this* piece")
class StopsWithoutADeadline(Reader):
    def Retrieve(self, request, context):
        if context.time_remaining() > 3600:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "set a deadline")
        return super().Retrieve(request, context)


@wrong("09.shed", "calls were in the servicer at once")
class ReleasesWhatItNeverTook(Shed):
    def intercept_service(self, continuation, details):
        handler = continuation(details)

        def answer(request, context):
            try:
                if not self.free.acquire(blocking=False):
                    context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls")
                return handler.unary_unary(request, context)
            finally:
                self.free.release()

        return grpc.unary_unary_rpc_method_handler(
            answer, handler.request_deserializer, handler.response_serializer
        )


@wrong("09.shed", "calls were in the servicer at once")
class OneTooMany(Shed):
    def __init__(self, limit):
        super().__init__(limit + 1)


@wrong("09.shed", "calls were in the servicer at once")
class PassesOn(Shed):
    def intercept_service(self, continuation, details):
        return continuation(details)


@known("07.ask_all", "the blocking client again")
async def group_in_the_loop(stub, keys):
    values = []
    for key in keys:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(ask_one(stub, key))
        values.append(task.result())
    return values


@wrong("07.ask_all", "each has to be awaited")
async def returns_the_tasks(stub, keys):
    async with asyncio.TaskGroup() as group:
        return [group.create_task(ask_one(stub, key)) for key in keys]


@known("07.ask_all", "each has to be awaited")
async def returns_the_calls(stub, keys):
    return [stub.Retrieve(pb.RetrieveRequest(key=key)) for key in keys]


@known("07.ask_all", "in the order in which the replies came")
async def as_they_come(stub, keys):
    return [await each for each in asyncio.as_completed([ask_one(stub, key) for key in keys])]


def ask_all_by(one):
    """All at once, each with `one(stub, key)`."""

    async def ask(stub, keys):
        return list(await asyncio.gather(*(one(stub, key) for key in keys)))

    return ask


@known("07.ask_all", "NOT_FOUND")
@ask_all_by
async def lets_one_error_through(stub, key):
    return (await stub.Retrieve(pb.RetrieveRequest(key=key))).value


@known("07.ask_all", "the list has an exception")
@ask_all_by
async def returns_the_error(stub, key):
    try:
        return (await stub.Retrieve(pb.RetrieveRequest(key=key))).value
    except grpc.aio.AioRpcError as error:
        return error


@known("07.ask_all", "as if all were well")
@ask_all_by
async def any_error_is_none(stub, key):
    try:
        return (await stub.Retrieve(pb.RetrieveRequest(key=key))).value
    except Exception:
        return None


@known("07.ask_all", "the value of b'empty' must be b''")
@ask_all_by
async def empty_is_none(stub, key):
    return await ask_one(stub, key) or None


@known("07.ask_all", "return its `value`")
@ask_all_by
async def returns_the_reply_of_each(stub, key):
    try:
        return await stub.Retrieve(pb.RetrieveRequest(key=key))
    except grpc.aio.AioRpcError:
        return None


@known("07.ask_all", "never more than 2 of 6")
async def two_at_a_time(stub, keys):
    return [
        value
        for first in range(0, len(keys), 2)
        for value in await ask_all_with_gather(stub, keys[first : first + 2])
    ]


@known("07.ask_all", "also a key that stands there twice")
async def each_key_asked_once(stub, keys):
    once = list(dict.fromkeys(keys))
    values = dict(zip(once, await ask_all_with_gather(stub, once), strict=True))
    return [values[key] for key in keys]


@wrong("07.ask_all", "every key needs one call and one value")
async def drops_the_unknown(stub, keys):
    return [value for value in await ask_all_with_gather(stub, keys) if value is not None]


@wrong("11.hedged", "had passed without a reply")
async def same_server(first, second, request, after_s):
    return await hedged_shielded(first, first, request, after_s)


@wrong("11.hedged", "blocks the event loop")
async def blocks(first, second, request, after_s):
    call = first.Retrieve(request)
    await asyncio.sleep(0.01)
    ends_s = time.perf_counter() + min(after_s, 4.0)
    while not call.done() and time.perf_counter() < ends_s:
        time.sleep(0.005)
    if call.done():
        return await call
    other = asyncio.ensure_future(second.Retrieve(request))
    one = asyncio.ensure_future(call)
    done, waiting = await asyncio.wait({one, other}, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
    return done.pop().result()


# ---- 08.rate_for ---------------------------------------------------------------------------------


def rate_by_mean(service_s, share, within_s):
    mean_s = within_s / -math.log(1 - share)
    return max((1 - service_s / mean_s) / service_s, 0)


right("08.rate_for")(rate_by_mean)


@right("08.rate_for")
def rate_by_halving(service_s, share, within_s):
    low, high = 0.0, 1 / service_s
    for _ in range(100):
        middle = (low + high) / 2
        late = math.exp(-within_s * (1 / service_s - middle))
        low, high = (middle, high) if late <= 1 - share else (low, middle)
    return low


@right("08.rate_for")
def rate_with_numpy(service_s, share, within_s):
    return np.maximum(0.0, 1 / service_s + np.log1p(-share) / within_s)


@wrong("08.rate_for", "return 0")
def rate_below_zero(service_s, share, within_s):
    return 1 / service_s + math.log(1 - share) / within_s


@wrong("08.rate_for", "keeps the *mean* within the target")
def rate_of_the_mean(service_s, share, within_s):
    return max(0.0, (1 - service_s / within_s) / service_s)


@wrong("08.rate_for", "which one is in the logarithm")
def rate_of_the_others(service_s, share, within_s):
    return max(0.0, 1 / service_s + math.log(share) / within_s)


@wrong("08.rate_for", "That is the utilisation")
def busy_share(service_s, share, within_s):
    return service_s * rate_by_mean(service_s, share, within_s)


@wrong("08.rate_for", "is another logarithm")
def rate_with_the_decimal_logarithm(service_s, share, within_s):
    return max(0.0, 1 / service_s + math.log10(1 - share) / within_s)


@wrong("08.rate_for", "compute it from `share`")
def rate_for_a_p99(service_s, share, within_s):
    return max(0.0, 1 / service_s - math.log(100) / within_s)


@wrong("08.rate_for", "a part of the ceiling")
def share_of_the_ceiling(service_s, share, within_s):
    return share / service_s


@wrong("08.rate_for", "is right")
def eighty_percent(service_s, share, within_s):
    return 0.8 / service_s


@wrong("08.rate_for", "ZeroDivisionError")
def rate_from_the_wait(service_s, share, within_s):
    return max(0.0, 1 / service_s + math.log(1 - share) / (within_s - service_s))


# ---- 12.spread, 12.add_server --------------------------------------------------------------------


def channel_with(config):
    """One channel to all addresses, with this service config."""

    def channel(addresses):
        options = [("grpc.service_config", json.dumps(config))]
        return grpc.insecure_channel("ipv4:" + ",".join(addresses), options=options)

    return channel


spread = channel_with({"loadBalancingConfig": [{"round_robin": {}}]})
wrong("12.spread", "`pick_first`")(channel_with({"loadBalancingConfig": [{"pick_first": {}}]}))
wrong("12.spread", "`pick_first`")(channel_with({"loadBalancing": [{"round_robin": {}}]}))
known("12.spread", "`pick_first`")(
    lambda addresses: grpc.insecure_channel("ipv4:" + ",".join(addresses))
)
known("12.spread", "one server answered all")(lambda addresses: spread(addresses[:1]))
known("12.spread", "not several")(lambda addresses: [spread([each]) for each in addresses])
known("12.spread", "got int")(len)
known("12.spread", "are the addresses joined")(lambda addresses: spread(["127.0.0.1:9"]))


@known("12.spread", "closed already")
def closed_channel(addresses):
    channel = spread(addresses)
    channel.close()
    return channel


@known("12.add_server", "should move to the new server only")
def slots_by_remainder(slots, servers):
    return [number % (servers + 1) for number in range(len(slots))]


@known("12.add_server", "should differ by one at most")
def slots_from_the_front(slots, servers):
    many = len(slots) // (servers + 1)
    return [servers] * many + list(slots)[many:]


@known("12.add_server", "are enough")
def share_rounded_up(slots, servers):
    after = add_server(slots, servers)
    counts = [after.count(server) for server in range(servers)]
    if len(slots) % (servers + 1):
        after[after.index(counts.index(max(counts)))] = servers
    return after


known("12.add_server", "one for each slot")(lambda slots, servers: [*slots, servers])
known("12.add_server", "numbered from 0")(lambda slots, servers: [servers + 1] * len(slots))


# ---- 13: which server ----------------------------------------------------------------------------


@right("13.least_open")
def by_count_and_chance(open_calls):
    return min(range(len(open_calls)), key=lambda server: (open_calls[server], random.random()))


@right("13.least_open")
def shuffled_first(open_calls):
    servers = list(range(len(open_calls)))
    random.shuffle(servers)
    return min(servers, key=open_calls.__getitem__)


right("13.least_open")(
    lambda open_calls: random.choice(np.flatnonzero(np.array(open_calls) == min(open_calls)))
)


@wrong("13.least_open", "look at all of them")
def two_where_all_are_asked_for(open_calls):
    drawn = random.sample(range(len(open_calls)), min(2, len(open_calls)))
    return min(drawn, key=open_calls.__getitem__)


@wrong("13.least_open", "Another one has")
def only_the_first_four(open_calls):
    seen = open_calls[:4]
    return random.choice([server for server, calls in enumerate(seen) if calls == min(seen)])


@wrong("13.least_open", "numbered from 0")
def the_fewest_and_not_its_server(open_calls):
    return min(open_calls) + len(open_calls)


@wrong("13.least_open", "an int, got [")
def all_with_the_fewest(open_calls):
    return [server for server, calls in enumerate(open_calls) if calls == min(open_calls)]


@wrong("13.least_open", "is its `return` missing")
def forgets_to_return(open_calls):
    min(open_calls)


@wrong("13.least_open", "it never returned 3")
def a_tie_between_two_only(open_calls):
    servers = [server for server, calls in enumerate(open_calls) if calls == min(open_calls)]
    return random.choice(servers[:2] if len(servers) == 3 and servers[0] else servers)


@wrong("13.least_open", "it changed the list")
def least_open_sorted(open_calls):
    before = list(open_calls)
    open_calls.sort()
    return before.index(open_calls[0])


@wrong("13.two_choices", "Not all pairs")
def two_choices_first_against_one(open_calls):
    other = random.randrange(1, len(open_calls))
    return min(0, other, key=open_calls.__getitem__)


@right("13.two_choices")
def the_lower_of_a_sample(open_calls):
    return min(random.sample(range(len(open_calls)), 2), key=open_calls.__getitem__)


@right("13.two_choices")
def draws_until_they_differ(open_calls):
    one = other = random.randrange(len(open_calls))
    while other == one:
        other = random.randrange(len(open_calls))
    return other if open_calls[other] < open_calls[one] else one


@wrong("13.two_choices", "Not all pairs")
def from_each_half(open_calls):
    half = len(open_calls) // 2
    one, other = random.randrange(half), random.randrange(half, len(open_calls))
    return min(one, other, key=open_calls.__getitem__)


@wrong("13.two_choices", "always the same one")
def the_first_of_equals(open_calls):
    if len(set(open_calls)) == 1:
        return 0
    return the_lower_of_a_sample(open_calls)


@wrong("13.two_choices", "the same servers each time")
def the_first_two(open_calls):
    return 0 if open_calls[0] < open_calls[1] else 1


def in_turn():
    turn = itertools.count()
    return lambda open_calls: next(turn) % len(open_calls)


def counts_the_call(open_calls):
    chosen = least_open(open_calls)
    open_calls[chosen] += 1
    return chosen


known("13.least_open", "whatever the counts are")(lambda open_calls: 0)
known("13.least_open", "A random server")(lambda open_calls: random.randrange(len(open_calls)))
known("13.least_open", "That is round robin")(in_turn())
known("13.least_open", "the most open calls")(lambda open_calls: open_calls.index(max(open_calls)))
known("13.least_open", "the first of")(lambda open_calls: open_calls.index(min(open_calls)))
known("13.least_open", "the last of")(
    lambda open_calls: max(i for i, c in enumerate(open_calls) if c == min(open_calls))
)
known("13.least_open", "numbered from 0")(lambda open_calls: least_open(open_calls) + 1)
known("13.least_open", "it changed the list")(counts_the_call)
known("13.least_open", "an int")(lambda open_calls: open_calls[least_open(open_calls)] / 1)


@known("13.least_open", "A server with no open call is free")
def passes_over_free_ones(open_calls):
    busy = [calls for calls in open_calls if calls]
    return open_calls.index(min(busy)) if busy else least_open(open_calls)


known("13.two_choices", "That is the fewest of all")(least_open)
known("13.two_choices", "not compare")(
    lambda open_calls: random.sample(range(len(open_calls)), 2)[0]
)
known("13.two_choices", "That is round robin")(in_turn())
known("13.two_choices", "it changed the list")(counts_the_call)
known("13.two_choices", "an int")(lambda open_calls: random.sample(range(len(open_calls)), 2))


@known("13.two_choices", "the busier one of the two")
def busier_of_two(open_calls):
    return max(random.sample(range(len(open_calls)), 2), key=open_calls.__getitem__)


@known("13.two_choices", "the same server twice")
def with_the_same_twice(open_calls):
    one, other = random.choices(range(len(open_calls)), k=2)
    return min(one, other, key=open_calls.__getitem__)


@known("13.two_choices", "the best of three")
def best_of_three(open_calls):
    drawn = random.sample(range(len(open_calls)), min(3, len(open_calls)))
    return min(drawn, key=open_calls.__getitem__)


@known("13.two_choices", "Not all pairs")
def neighbours(open_calls):
    one = random.randrange(len(open_calls))
    return min(one, (one + 1) % len(open_calls), key=open_calls.__getitem__)


@known("13.two_choices", "is never drawn")
def without_the_last(open_calls):
    drawn = random.sample(range(max(2, len(open_calls) - 1)), 2)
    return min(drawn, key=open_calls.__getitem__)


@known("13.two_choices", "the same servers each time")
def always_the_same_pair(open_calls):
    one, other = random.Random(2).sample(range(len(open_calls)), 2)
    return min(one, other, key=open_calls.__getitem__)


@known("13.two_choices", "numbered from 0")
def the_count_of_a_sample(open_calls):
    return min(random.sample(open_calls, 2))


# ---- 14.create_if_absent -------------------------------------------------------------------------


def create_with(compare, key, value):
    """One transaction: the put, if etcd finds the comparison true."""
    put = etcd_pb2.RequestOp(request_put=etcd_pb2.PutRequest(key=key, value=value))
    return etcd_pb2.TxnRequest(compare=[compare], success=[put])


def is_absent(key):
    return etcd_pb2.Compare(key=key, target="VERSION", result="EQUAL", version=0)


@known("14.create_if_absent", "Put stores a value in any case")
def put_only(stub, key, value):
    stub.Put(etcd_pb2.PutRequest(key=key, value=value))
    return True


@known("14.create_if_absent", "between your look and your write")
def looks_then_puts(stub, key, value):
    if stub.Range(etcd_pb2.RangeRequest(key=key)).kvs:
        return False
    stub.Put(etcd_pb2.PutRequest(key=key, value=value))
    return True


@known("14.create_if_absent", "has version 0")
def puts_if_present(stub, key, value):
    present = etcd_pb2.Compare(key=key, target="VERSION", result="GREATER", version=0)
    return stub.Txn(create_with(present, key, value)).succeeded


@known("14.create_if_absent", "not False")
def always_true(stub, key, value):
    stub.Txn(create_with(is_absent(key), key, value))
    return True


@known("14.create_if_absent", "Let the error through")
def hides_errors(stub, key, value):
    try:
        return stub.Txn(create_with(is_absent(key), key, value)).succeeded
    except grpc.RpcError:
        return False


@known("14.create_if_absent", "not True")
def returns_the_reply(stub, key, value):
    return stub.Txn(create_with(is_absent(key), key, value))


# ---- 16.highest_rate -----------------------------------------------------------------------------


@wrong("16.highest_rate", "halve the interval with each of them")
def one_rate_after_the_other(meets, low, high):
    while meets(low + 1):
        low += 1
    return low


# ---- 07: a front, many calls, a climb -----------------------------------------------------------


def serving_front(front, **settings):
    """A `serve` that starts a server with this servicer."""

    async def serve(stub):
        server = grpc.aio.server(**settings)
        add_KeyValueServiceServicer_to_server(front(stub), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        return server, port

    return serve


def front_that(retrieve):
    """A `serve` whose servicer has this `Retrieve`."""
    return serving_front(type("MyFront", (Front,), {"Retrieve": retrieve}))


class FrontSetsTheCode(KeyValueServiceServicer):
    """No `abort`: the status is set, and an empty reply is returned."""

    def __init__(self, stub):
        self.stub = stub

    async def Retrieve(self, request, context):
        call = self.stub.Retrieve(request, timeout=context.time_remaining())
        if await call.code() is not grpc.StatusCode.OK:
            context.set_code(await call.code())
            context.set_details(await call.details())
            return pb.RetrieveResponse()
        return await call


class WithATask(Front):
    """The call runs in a task of its own, and its reply is copied."""

    async def Retrieve(self, request, context):
        async def ask():
            left_s = context.time_remaining()
            return await self.stub.Retrieve(pb.RetrieveRequest(key=request.key), timeout=left_s)

        try:
            reply = await asyncio.create_task(ask())
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details())
        return pb.RetrieveResponse(value=reply.value)


right("07.front")(serving_front(FrontSetsTheCode))
right("07.front")(serving_front(WithATask))


@right("07.front")
async def with_a_handler(stub):
    """No servicer class: a generic handler for the one method."""

    async def retrieve(request, context):
        try:
            return await stub.Retrieve(request, timeout=context.time_remaining())
        except grpc.RpcError as error:
            await context.abort(error.code(), error.details())

    method = grpc.unary_unary_rpc_method_handler(
        retrieve, pb.RetrieveRequest.FromString, pb.RetrieveResponse.SerializeToString
    )
    server = grpc.aio.server()
    handlers = grpc.method_handlers_generic_handler(
        "kvstore.v1.KeyValueService", {"Retrieve": method}
    )
    server.add_generic_rpc_handlers((handlers,))
    port = server.add_insecure_port("localhost:0")
    await server.start()
    return [server, port]


class InAThread(Front):
    """Ties up one of Python's own threads for each call."""

    async def Retrieve(self, request, context):
        loop = asyncio.get_running_loop()
        wait = Front.Retrieve(self, request, context)
        return await asyncio.to_thread(
            lambda: asyncio.run_coroutine_threadsafe(wait, loop).result()
        )


wrong("07.front", "never more than")(serving_front(InAThread))  # 48 calls are too many for them


@wrong("07.front", "reply message")
@front_that
async def is_unwritten(self, request, context):
    return NotImplemented


@known("07.front", "something else than a reply message")
@front_that
async def never_awaits(self, request, context):
    return self.stub.Retrieve(request, timeout=context.time_remaining())


@known("07.front", "blocks its only thread")
@front_that
async def blocks_the_loop(self, request, context):
    call = self.stub.Retrieve(request, timeout=context.time_remaining())
    await asyncio.sleep(0.01)  # lets the call leave
    end_s = time.perf_counter() + 4
    while not call.done() and time.perf_counter() < end_s:
        time.sleep(0.005)
    return await call


def front_for_a_few(places):
    class FewAtATime(Front):
        def __init__(self, stub):
            super().__init__(stub)
            self.places = asyncio.Semaphore(places)

        async def Retrieve(self, request, context):
            async with self.places:
                return await super().Retrieve(request, context)

    return serving_front(FewAtATime)


known("07.front", "only one call at a time")(front_for_a_few(1))
known("07.front", "never more than 10")(front_for_a_few(10))


@known("07.front", "the error left your method")
@front_that
async def lets_errors_out(self, request, context):
    return await self.stub.Retrieve(request, timeout=context.time_remaining())


@known("07.front", "the caller got NOT_FOUND")
@front_that
async def always_not_found(self, request, context):
    try:
        return await self.stub.Retrieve(request, timeout=context.time_remaining())
    except grpc.aio.AioRpcError:
        await context.abort(grpc.StatusCode.NOT_FOUND, "no such key")


@known("07.front", "the caller got OK")
@front_that
async def empty_reply(self, request, context):
    try:
        return await self.stub.Retrieve(request, timeout=context.time_remaining())
    except grpc.aio.AioRpcError:
        return pb.RetrieveResponse()


def front_with_a_deadline(**deadline):
    async def retrieve(self, request, context):
        try:
            return await self.stub.Retrieve(request, **deadline)
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details())

    return front_that(retrieve)


known("07.front", "had no deadline")(front_with_a_deadline())
known("07.front", "had a deadline of 4.0 s")(front_with_a_deadline(timeout=4))


@known("07.front", "made 0 calls to the back end")
@front_that
async def caches(self, request, context):
    cached = vars(self).setdefault("cached", {})
    if request.key not in cached:
        cached[request.key] = await Front.Retrieve(self, request, context)
    return cached[request.key]


@known("07.front", "the value of another caller's key")
@front_that
async def shares_the_request(self, request, context):
    self.request = request
    await asyncio.sleep(0.01)
    return await Front.Retrieve(self, self.request, context)


known("07.front", "refused some")(serving_front(Front, maximum_concurrent_rpcs=8))


@known("07.front", "must return two things")
async def port_only(stub):
    return (await serving_front(Front)(stub))[1]


@known("07.front", "no server answers")
async def not_started(stub):
    server = grpc.aio.server()
    add_KeyValueServiceServicer_to_server(Front(stub), server)
    return server, server.add_insecure_port("127.0.0.1:0")


@known("07.front", "does not know the method")
async def not_added(stub):
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, port


@known("07.front", "only such a server runs coroutines")
async def with_threads(stub):
    server = grpc.server(ThreadPoolExecutor(64))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


@right("07.ask_all")
async def calls_first(stub, keys):
    """A grpc.aio call starts when it is made: no task is needed."""
    calls = [stub.Retrieve(pb.RetrieveRequest(key=key)) for key in keys]
    values = []
    for call in calls:
        try:
            values.append((await call).value)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            values.append(None)
    return values


@right("07.ask_all")
async def by_place(stub, keys):
    values = [None] * len(keys)

    async def fill(place):
        values[place] = await ask_one(stub, keys[place])

    async with asyncio.TaskGroup() as group:
        for place in range(len(keys)):
            group.create_task(fill(place))
    return values


@right("07.calls_in_climb")
def climb_in_fractions(users, climb_s, threads, wait_s):
    full = min(Fraction(1), Fraction(threads) / users)
    mean = users * full * full / 2 + min(threads, users) * (1 - full)
    return float(mean * Fraction(climb_s) / Fraction(wait_s))


# ---- 07.search: more styles ---------------------------------------------------------------------


@right("07.search")
class InPythonsPool(Search):
    async def Retrieve(self, request, context):
        return pb.RetrieveResponse(value=await asyncio.to_thread(self.in_a_thread, request.key))


@right("07.search")
class ConnectionOfAThread(KeyValueServiceServicer):
    """Each thread of the pool takes a connection once, and keeps it."""

    def __init__(self, search, connections):
        self.search, self.own, free = search, threading.local(), list(connections)
        self.threads = ThreadPoolExecutor(
            len(free), initializer=lambda: setattr(self.own, "connection", free.pop())
        )

    async def Retrieve(self, request, context):
        work = self.threads.submit(lambda: self.search(self.own.connection, request.key))
        return pb.RetrieveResponse(value=await asyncio.wrap_future(work))


@right("07.search")
class Shielded(KeyValueServiceServicer):
    """It takes the connection in the coroutine, and gives it back when the search has ended."""

    def __init__(self, search, connections):
        self.search, self.free = search, asyncio.Queue()
        for each in connections:
            self.free.put_nowait(each)

    async def Retrieve(self, request, context):
        connection = await self.free.get()
        task = asyncio.ensure_future(asyncio.to_thread(self.search, connection, request.key))
        task.add_done_callback(lambda _: self.free.put_nowait(connection))
        return pb.RetrieveResponse(value=await asyncio.shield(task))


@wrong("07.search", "")
class SharesTheFirst(Search):
    def in_a_thread(self, words):
        return self.search(0, words)


@wrong("07.search", "")
class WithoutWaiting(InPythonsPool):
    """Takes a connection only if one is free at once."""

    def in_a_thread(self, words):
        try:
            connection = self.free.get_nowait()
        except queue.Empty:
            return b""
        try:
            return self.search(connection, words)
        finally:
            self.free.put(connection)


@known("07.search", "ran in the thread of the event loop")
class SearchesOnTheLoop(Search):
    async def Retrieve(self, request, context):
        return pb.RetrieveResponse(value=self.in_a_thread(request.key))


@known("07.search", "two searches used one connection")
class OneConnection(Search):
    async def Retrieve(self, request, context):
        return pb.RetrieveResponse(value=await asyncio.to_thread(self.search, 0, request.key))


@known("07.search", "never more than 1 at work")
class OneAtATime(Search):
    def __init__(self, search, connections):
        super().__init__(search, connections)
        self.lock = asyncio.Lock()

    async def Retrieve(self, request, context):
        async with self.lock:
            return await super().Retrieve(request, context)


@known("07.search", "0 of 3 connections are left")
class NeverBackAfterErrors(Search):
    def in_a_thread(self, words):
        connection = self.free.get(timeout=2)
        found = self.search(connection, words)
        self.free.put(connection)
        return found


@known("07.search", "while its search still ran")
class BackTooEarly(Search):
    """The natural one: it takes the connection in the coroutine, which may be cancelled."""

    def __init__(self, search, connections):
        super().__init__(search, connections)
        self.places = asyncio.Queue()
        for connection in connections:
            self.places.put_nowait(connection)

    async def Retrieve(self, request, context):
        connection = await self.places.get()
        try:
            found = await asyncio.to_thread(self.search, connection, request.key)
        finally:
            self.places.put_nowait(connection)
        return pb.RetrieveResponse(value=found)


@known("07.search", "something else than a reply message")
class NotAReply(Search):
    async def Retrieve(self, request, context):
        return await asyncio.to_thread(self.in_a_thread, request.key)


@known("07.search", "what its own search found")
class SharedWords(Search):
    async def Retrieve(self, request, context):
        self.words = request.key
        await asyncio.sleep(0.01)
        found = await asyncio.to_thread(self.in_a_thread, self.words)
        return pb.RetrieveResponse(value=found)


# ---- 09: more styles ----------------------------------------------------------------------------


@right("09.shed")
class ShedSetsTheCode(grpc.ServerInterceptor):
    """No `abort`: the status is set, and an empty reply is returned."""

    def __init__(self, limit):
        self.places = threading.BoundedSemaphore(limit)

    def intercept_service(self, continuation, details):
        handler = continuation(details)

        def limited(request, context):
            if self.places.acquire(timeout=0):
                try:
                    return handler.unary_unary(request, context)
                finally:
                    self.places.release()
            context.set_code(grpc.StatusCode.RESOURCE_EXHAUSTED)
            return pb.RetrieveResponse()

        return grpc.unary_unary_rpc_method_handler(
            limited,
            request_deserializer=handler.request_deserializer,
            response_serializer=lambda reply: reply.SerializeToString(),
        )


@right("09.shed")
class WithAListOfTokens(grpc.ServerInterceptor):
    """Places are the elements of a list: `pop` raises when there is none."""

    def __init__(self, limit):
        self.tokens = list(range(limit))

    def intercept_service(self, continuation, details):
        handler = continuation(details)

        def limited(request, context):
            try:
                token = self.tokens.pop()
            except IndexError:
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
            try:
                return handler.unary_unary(request, context)
            finally:
                self.tokens.append(token)

        return grpc.unary_unary_rpc_method_handler(
            limited, handler.request_deserializer, handler.response_serializer
        )


@wrong("09.shed", "after an error")
class LetsPlacesLeak(Shed):
    """Gives the place back for replies only: what `finally` is for."""

    def intercept_service(self, continuation, details):
        handler = continuation(details)

        def limited(request, context):
            if not self.free.acquire(blocking=False):
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
            try:
                reply = handler.unary_unary(request, context)
            except ValueError:
                self.free.release()
                raise
            self.free.release()
            return reply

        return handler._replace(unary_unary=limited)


@right("09.give_up")
class WithAGenerator(KeyValueServiceServicer):
    def __init__(self, disk):
        self.disk = disk

    def pieces(self, key, context):
        for number in range(self.disk.pieces):
            if self.disk.piece_s > context.time_remaining():
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "late")
            yield self.disk.read(key, number)

    def Retrieve(self, request, context):
        return pb.RetrieveResponse(value=b"".join(self.pieces(request.key, context)))


@right("09.give_up")
class SetsTheStatus(KeyValueServiceServicer):
    def __init__(self, disk):
        self.disk = disk

    def Retrieve(self, request, context):
        value, number = b"", 0
        while number < self.disk.pieces:
            if context.time_remaining() <= self.disk.piece_s:
                context.set_code(grpc.StatusCode.DEADLINE_EXCEEDED)
                return pb.RetrieveResponse()
            value += self.disk.read(request.key, number)
            number += 1
        return pb.RetrieveResponse(value=value)


# ---- 10: more styles ----------------------------------------------------------------------------


@right("10.retry_config")
def as_text(attempts, first_pause_s, tokens, ratio):
    """JSON in place of a dict, and the service by its name."""
    return json.dumps(
        {
            "retryThrottling": {"tokenRatio": ratio, "maxTokens": tokens},
            "methodConfig": [
                {
                    "name": [{"service": "kvstore.v1.KeyValueService"}],
                    "retryPolicy": {
                        "retryableStatusCodes": ["UNAVAILABLE"],
                        "backoffMultiplier": 2.0,
                        "maxBackoff": "1.000s",
                        "initialBackoff": f"{first_pause_s:.3f}s",
                        "maxAttempts": attempts,
                    },
                }
            ],
        }
    )


@right("10.retry_config")
def by_default_and_method(attempts, first_pause_s, tokens, ratio):
    config = config_with()(attempts, first_pause_s, tokens, ratio)
    config["methodConfig"][0]["timeout"] = "30s"
    config["methodConfig"].append(
        {**config["methodConfig"][0], "name": [{"service": "kvstore.v1.Other"}]}
    )
    return config


@right("10.backoff")
def backoff_by_doubling(failures, first_s, most_s, draw):
    longest_s = first_s
    for _ in range(failures - 1):
        longest_s = min(2 * longest_s, most_s)
    return draw() * min(longest_s, most_s)


# ---- 11: more styles ----------------------------------------------------------------------------


@right("11.hedged")
async def hedged_with_a_queue(first, second, request, after_s):
    replies = asyncio.Queue()

    async def ask(stub, delay_s):
        await asyncio.sleep(delay_s)
        await replies.put(await stub.Retrieve(request))

    tasks = [asyncio.create_task(ask(first, 0)), asyncio.create_task(ask(second, after_s))]
    reply = await replies.get()
    for task in tasks:
        task.cancel()
    return reply


@right("11.hedged")
async def hedged_with_calls(first, second, request, after_s):
    """Calls of grpc.aio have `cancel` themselves."""
    one = first.Retrieve(request)
    done = asyncio.ensure_future(one.code())
    await asyncio.wait({done}, timeout=after_s)
    if done.done():
        return await one
    two = second.Retrieve(request)
    other = asyncio.ensure_future(two.code())
    await asyncio.wait({done, other}, return_when=asyncio.FIRST_COMPLETED)
    winner, loser = (one, two) if done.done() else (two, one)
    loser.cancel()
    return await winner


wrong("11.hedged", "async def")(lambda first, second, request, after_s: 5)


# ---- 12: channels, servers, slots ---------------------------------------------------------------


@right("12.spread")
def with_an_older_field(addresses):
    """`loadBalancingPolicy` is the older field of the service config, and still understood."""
    options = [("grpc.service_config", '{"loadBalancingPolicy": "round_robin"}')]
    return grpc.insecure_channel(f"ipv4:{','.join(addresses)}", options)


@right("12.spread")
def with_the_option_of_the_channel(addresses):
    return grpc.insecure_channel(
        "ipv4:" + ",".join(addresses), options=(("grpc.lb_policy_name", "round_robin"),)
    )


@right("12.servers_needed")
def by_trying(target_per_s, service_s, hottest_share):
    """Count servers up, as a learner may; the limit is far above the drawn inputs."""
    for servers in range(1, 3_000_000):
        busiest = hottest_share + (1 - hottest_share) / servers
        if busiest * target_per_s * service_s <= 1:
            return servers
        if servers > 1 and hottest_share * target_per_s * service_s >= 1:
            return math.inf
    return math.inf


wrong("12.add_server", "should differ by one at most")(lambda slots, servers: list(slots))


@right("12.add_server")
def slots_from_the_end(slots, servers):
    after = list(slots)
    for _ in range(len(slots) // (servers + 1)):
        fullest = max(range(servers), key=after.count)
        last = len(after) - 1 - after[::-1].index(fullest)
        after[last] = servers
    return after


# ---- 14: a key that is created once, late writes ------------------------------------------------


@right("14.create_if_absent")
def by_create_revision(stub, key, value):
    """The idiom of etcd's own clients."""
    absent = etcd_pb2.Compare(key=key, target="CREATE", result="EQUAL", create_revision=0)
    read = etcd_pb2.RequestOp(request_range=etcd_pb2.RangeRequest(key=key))
    put = etcd_pb2.RequestOp(request_put=etcd_pb2.PutRequest(key=key, value=value))
    return stub.Txn(etcd_pb2.TxnRequest(compare=[absent], success=[put], failure=[read])).succeeded


@right("14.create_if_absent")
def the_other_way_round(stub, key, value):
    """If it is present, nothing; else put."""
    present = etcd_pb2.Compare(
        key=key, target=etcd_pb2.Compare.VERSION, result=etcd_pb2.Compare.GREATER, version=0
    )
    put = etcd_pb2.RequestOp(request_put=etcd_pb2.PutRequest(key=key, value=value))
    return not stub.Txn(etcd_pb2.TxnRequest(compare=[present], failure=[put])).succeeded


@right("14.create_if_absent")
def with_a_look_before(stub, key, value):
    if stub.Range(etcd_pb2.RangeRequest(key=key), timeout=5).kvs:
        return False
    return create_if_absent(stub, key, value)


@wrong("14.create_if_absent", "")
def by_value(stub, key, value):
    """A key that does not exist has no value to compare, so this never creates."""
    empty = etcd_pb2.Compare(
        key=key, target=etcd_pb2.Compare.VALUE, result=etcd_pb2.Compare.EQUAL, value=b""
    )
    put = etcd_pb2.RequestOp(request_put=etcd_pb2.PutRequest(key=key, value=value))
    return stub.Txn(etcd_pb2.TxnRequest(compare=[empty], success=[put])).succeeded


@right("14.late_writes")
def late_by_the_number_that_runs(stalled, nodes):
    """The chance of each number of running followers, follower by follower."""
    have = [1.0]
    for _ in range(nodes - 1):
        have = np.convolve(have, [stalled, 1 - stalled])
    return float(1 - (1 - stalled) * sum(have[nodes // 2 :]))


# ---- 16: a knee, a rate -------------------------------------------------------------------------


@right("16.knee")
def knee_by_sorting(levels):
    by_rate = sorted(levels, key=lambda row: -row[1])
    by_time = sorted(levels, key=lambda row: row[2])
    return by_rate[0][1] * by_time[0][2]


@right("16.knee")
def knee_with_numpy(levels):
    _, x, r = np.array(levels, dtype=float).T
    return float(x.max() * r.min())


@right("16.highest_rate")
def rate_with_bisect(meets, low, high):
    return bisect.bisect_left(range(low + 1, high), True, key=lambda rate: not meets(rate)) + low


@right("16.highest_rate")
def rate_by_steps_of_two(meets, low, high):
    step = 1 << max(0, (high - low).bit_length())
    while step := step // 2:
        if low + step < high and meets(low + step):
            low += step
    return low
