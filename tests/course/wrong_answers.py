"""Known-wrong answers of the lessons 00 to 06, as learners would write them: see verdicts.py."""

import itertools
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue

import grpc
from verdicts import known

from kvstore.course.exercises.client_trials import method_of
from kvstore.course.lessons.lesson_00.exercises import first_client
from kvstore.course.lessons.lesson_01.exercises import read_all
from kvstore.course.lessons.lesson_02.exercises_client import OK, send_all
from kvstore.course.lessons.lesson_03.exercises_client import bounded
from kvstore.course.lessons.lesson_03.exercises_store import Store as FreeStore
from kvstore.course.lessons.lesson_04.exercises import _create, _read
from kvstore.course.lessons.lesson_04.exercises_server import Store, serve
from kvstore.course.lessons.lesson_04.lost_update import compare_and_set, read_then_write
from kvstore.course.lessons.lesson_06.exercises import own_connections
from kvstore.protocol import RETRIEVE
from kvstore.v1 import kvstore_pb2
from kvstore.v1.kvstore_pb2 import (
    CreateRequest,
    PipelineRequest,
    RetrieveRequest,
    RetrieveResponse,
    UpdateRequest,
    UpdateResponse,
)
from kvstore.v1.kvstore_pb2_grpc import add_KeyValueServiceServicer_to_server

# ---- 00 ------------------------------------------------------------------------------------------


@known("00.first_client", "values that you sent")
def returning_what_was_sent(stub, items):
    first_client(stub, items)
    return [value for _, value in items]


@known("00.first_client", "in another order")
def item_by_item(stub, items):
    return [value for item in items for value in first_client(stub, [item])]


@known("00.first_client", "0 Retrieves")
def never_retrieving(stub, items):
    for key, value in items:
        stub.Create(CreateRequest(key=key, value=value))
    return [value for _, value in items]


@known("00.first_client", "before the call ahead of them had ended")
def all_at_once(stub, items):
    calls = [stub.Create.future(CreateRequest(key=key, value=value)) for key, value in items]
    for call in calls:
        call.result()
    return [stub.Retrieve(RetrieveRequest(key=key)).value for key, _ in items]


@known("00.first_client", "You return the replies")
def returning_replies(stub, items):
    for key, value in items:
        stub.Create(CreateRequest(key=key, value=value))
    return [stub.Retrieve(RetrieveRequest(key=key)) for key, _ in items]


# ---- 01 ------------------------------------------------------------------------------------------


@known("01.read_all", "without a deadline")
def without_deadline(stub, keys, deadline_s):
    return read_all(stub, keys, None)


@known("01.read_all", "`timeout` is in seconds")
def in_milliseconds(stub, keys, deadline_s):
    return read_all(stub, keys, 1e3 * deadline_s)


@known("01.read_all", "catch it and go on")
def not_caught(stub, keys, deadline_s):
    return [stub.Retrieve(RetrieveRequest(key=key), timeout=deadline_s).value for key in keys]


@known("01.read_all", "DEADLINE_EXCEEDED is no answer")
def catching_all(stub, keys, deadline_s):
    values = []
    for key in keys:
        try:
            values.append(stub.Retrieve(RetrieveRequest(key=key), timeout=deadline_s).value)
        except grpc.RpcError:
            values.append(None)
    return values


@known("01.read_all", "not for all of them together")
def for_all_together(stub, keys, deadline_s):
    end_s = time.monotonic() + deadline_s
    values = []
    for key in keys:
        values += read_all(stub, [key], end_s - time.monotonic())
    return values


@known("01.read_all", "Put None in their place")
def skipping_missing(stub, keys, deadline_s):
    return [value for value in read_all(stub, keys, deadline_s) if value is not None]


@known("01.read_all", "Make one call at a time")
def overlapping_01(stub, keys, deadline_s):
    calls = [stub.Retrieve.future(RetrieveRequest(key=key), timeout=deadline_s) for key in keys]
    values = []
    for call in calls:
        if call.code() is grpc.StatusCode.NOT_FOUND:
            values.append(None)
        else:
            values.append(call.result().value)
    return values


@known("01.read_all", "one call for each key")
def each_key_once(stub, keys, deadline_s):
    once = list(dict.fromkeys(keys))
    values = dict(zip(once, read_all(stub, once, deadline_s), strict=True))
    return [values[key] for key in keys]


# ---- 02 ------------------------------------------------------------------------------------------


@known("02.send_all", "waits for a reply before it sends")
def waits_for_each(stub, requests):
    return [method_of(stub, request).future(request).code() for request in requests]


@known("02.send_all", "another order")
def order_of_sending(stub, requests):
    return [
        call.code() for call in [method_of(stub, request).future(request) for request in requests]
    ]


@known("02.send_all", "Return when every call has ended")
def returns_at_once(stub, requests):
    codes = []
    for request in requests:
        method_of(stub, request).future(request).add_done_callback(
            lambda call: codes.append(call.code())
        )
    return codes


def noting(note):
    """A right sender, but for what its callback notes in the queue."""

    def sender(stub, requests):
        sent, ended = 0, SimpleQueue()
        for request in requests:
            sent += 1
            method_of(stub, request).future(request).add_done_callback(
                lambda call: note(ended, call)
            )
        return [ended.get() for _ in range(sent)]

    return sender


def put_result(ended, call):
    call.result()
    ended.put(call.code())


@known("02.send_all", "note the failed calls too")
def only_the_good(stub, requests):
    return [code for code in send_all(stub, requests) if code is OK]


@known("02.send_all", "wait for the callbacks")
def waits_for_calls(stub, requests):
    codes = []
    calls = [method_of(stub, request).future(request) for request in requests]
    for call in calls:
        call.add_done_callback(lambda call: codes.append(call.code()))
    for call in calls:
        call.exception()
    return list(codes)


@known("02.send_all", "send each one once")
def sends_twice(stub, requests):
    kept = list(requests)
    return send_all(stub, [*kept, *kept])[: len(kept)]


known("02.send_all", "it does not return")(noting(put_result))
known("02.send_all", "status codes, such")(noting(lambda ended, call: ended.put(call.code().name)))


# ---- 03 ------------------------------------------------------------------------------------------


def sender(before, after, wait=True):
    """A sender with a mistake: what it does before each call and after it."""

    def sender(stub, requests, in_flight):
        free = threading.Semaphore(in_flight)
        for request in requests:
            before(free)
            after(free, method_of(stub, request).future(request))
        for _ in range(in_flight if wait else 0):
            free.acquire()

    return sender


def release_if_ok(free, call):
    call.add_done_callback(lambda call: free.release() if call.code() is OK else None)


def release_later(free, call):
    call.add_done_callback(lambda _: free.release())


known("03.bounded", "not when it was sent")(
    sender(lambda free: free.acquire(), lambda free, _: free.release())
)


known("03.bounded", "no place is ever released")(
    sender(lambda free: free.acquire(), lambda free, _: None)
)


known("03.bounded", "fails must release its place too")(
    sender(lambda free: free.acquire(), release_if_ok)
)


known("03.bounded", "still in flight")(
    sender(lambda free: free.acquire(), release_later, wait=False)
)


@known("03.bounded", "before its place is acquired")
def sends_first(stub, requests, in_flight):
    free = threading.Semaphore(in_flight)
    for request in requests:
        release_later(free, method_of(stub, request).future(request))
        free.acquire()
    for _ in range(in_flight):
        free.acquire()


@known("03.bounded", "a place stays empty")
def one_too_few(stub, requests, in_flight):
    bounded(stub, requests, max(1, in_flight - 1))


@known("03.bounded", "in waves")
def in_waves(stub, requests, in_flight):
    while wave := list(itertools.islice(requests, in_flight)):
        for call in [method_of(stub, request).future(request) for request in wave]:
            call.exception()


@known("03.bounded", "waits for its reply")
def waits_for_each_03(stub, requests, in_flight):
    for request in requests:
        method_of(stub, request).future(request).exception()


@known("03.bounded", "while 3 calls were in flight: the others wait in a queue")
def takes_all_first(stub, requests, in_flight):
    bounded(stub, list(requests), in_flight)


@known("03.bounded", "again and again")
def polls(stub, requests, in_flight):
    calls = []
    for request in requests:
        while sum(not call.done() for call in calls) >= in_flight:
            time.sleep(0.001)
        calls.append(method_of(stub, request).future(request))
    for call in calls:
        call.exception()


@known("03.bounded", "send each one that")
def all_but_the_last(stub, requests, in_flight):
    free = threading.Semaphore(in_flight)
    next(requests, None)
    for request in requests:
        free.acquire()
        release_later(free, method_of(stub, request).future(request))
    for _ in range(in_flight):
        free.acquire()


@known("03.bounded", "send each request once")
def sends_twice_03(stub, requests, in_flight):
    bounded(stub, itertools.chain.from_iterable([one, one] for one in requests), in_flight)


@known("03.bounded", "let `method_of(stub, request)` choose")
def only_updates(stub, requests, in_flight):
    bounded(stub, (UpdateRequest(key=request.key) for request in requests), in_flight)


@known("03.bounded", "what ends its wait")
def stays_in_the_loop(stub, requests, in_flight):
    bounded(stub, requests, in_flight)
    threading.Event().wait()


@known("03.store", "the others wait for your lock. In Delete")
class SleepsWithTheLockInDelete(FreeStore):
    def Delete(self, request, context):
        with self.lock:
            time.sleep(self.write_s)
            self.values.pop(request.key, None)
        return kvstore_pb2.DeleteResponse()


@known("03.store", "after the sleep, with the lock held")
class LooksBeforeTheSleep(FreeStore):
    def Create(self, request, context):
        with self.lock:
            if request.key in self.values:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, "this key has a value")
        time.sleep(self.write_s)
        with self.lock:
            self.values[request.key] = request.value
        return kvstore_pb2.CreateResponse()


@known("03.store", "must use the disk once")
class NeverSleeps(FreeStore):
    def Retrieve(self, request, context):
        with self.lock:
            if request.key not in self.values:
                context.abort(grpc.StatusCode.NOT_FOUND, "this key has no value")
            return kvstore_pb2.RetrieveResponse(value=self.values[request.key])


@known("03.store", "change nothing else")
class ForgetsNotFound(FreeStore):
    def Update(self, request, context):
        time.sleep(self.write_s)
        with self.lock:
            self.values[request.key] = request.value
        return kvstore_pb2.UpdateResponse()


# ---- 04 ------------------------------------------------------------------------------------------


def serving(store):
    """A `serve` that starts a server with this servicer."""

    def serve(disk, values, threads):
        server = grpc.server(ThreadPoolExecutor(threads))
        add_KeyValueServiceServicer_to_server(store(disk, values), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        return server, port

    return serve


class NoLock(Store):
    def Update(self, request, context):
        if request.key not in self.values:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        self.disk.write(request.key)
        self.values[request.key] = request.value
        return UpdateResponse()


class OneLock(Store):
    def __init__(self, disk, values):
        super().__init__(disk, values)
        lock = threading.Lock()
        self.locks = defaultdict(lambda: lock)


class ReadsLock(Store):
    def Retrieve(self, request, context):
        with self.locks[request.key]:
            return super().Retrieve(request, context)


class ValueBeforeDisk(Store):
    def Update(self, request, context):
        if request.key not in self.values:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        with self.locks[request.key]:
            self.values[request.key] = request.value
            self.disk.write(request.key)
        return UpdateResponse()


class KeepsTheLock(Store):
    def Update(self, request, context):
        if request.key not in self.values:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        self.locks[request.key].acquire()
        self.disk.write(request.key)
        self.values[request.key] = request.value
        self.locks[request.key].release()
        return UpdateResponse()


class AbortsInside(Store):
    def Update(self, request, context):
        self.locks[request.key].acquire()
        if request.key not in self.values:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        self.locks[request.key].release()
        return super().Update(request, context)


class NeverAborts(Store):
    def Retrieve(self, request, context):
        self.disk.read(request.key)
        return RetrieveResponse(value=self.values.get(request.key, b""))


class NoDisk(Store):
    def Retrieve(self, request, context):
        if request.key not in self.values:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        return RetrieveResponse(value=self.values[request.key])


class ReturnsBytes(Store):
    def Retrieve(self, request, context):
        super().Retrieve(request, context)
        return self.values[request.key]


class HidesErrors(Store):
    def Update(self, request, context):
        try:
            return super().Update(request, context)
        except OSError:
            return UpdateResponse()


@known("04.server", "`ThreadPoolExecutor(threads)`")
def default_pool(disk, values, threads):
    return serving(Store)(disk, values, 64)


@known("04.server", "must return two things")
def port_only(disk, values, threads):
    return serve(disk, values, threads)[1]


@known("04.server", "no server answers")
def not_started(disk, values, threads):
    server = grpc.server(ThreadPoolExecutor(threads))
    add_KeyValueServiceServicer_to_server(Store(disk, values), server)
    return server, server.add_insecure_port("127.0.0.1:0")


@known("04.server", "does not know the method")
def not_added(disk, values, threads):
    server = grpc.server(ThreadPoolExecutor(threads))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


@known("04.server", "let them wait for a thread")
def refuses(disk, values, threads):
    server = grpc.server(ThreadPoolExecutor(threads), maximum_concurrent_rpcs=threads)
    add_KeyValueServiceServicer_to_server(Store(disk, values), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


known("04.server", "two writes of the same key")(serving(NoLock))
known("04.server", "a lock that is not theirs")(serving(OneLock))
known("04.server", "a Retrieve waited for a writer")(serving(ReadsLock))
known("04.server", "while `disk.write` was still at work")(serving(ValueBeforeDisk))
known("04.server", "`with lock:` releases it")(serving(KeepsTheLock))
known("04.server", "Is its lock still held?")(serving(AbortsInside))
known("04.server", "Retrieve of an unknown key must end")(serving(NeverAborts))
known("04.server", "must call `disk.read(key)` once")(serving(NoDisk))
known("04.server", "something else than its reply message")(serving(ReturnsBytes))
known("04.server", "let the error out")(serving(HidesErrors))


@known("04.add_one", "gave up")
def gives_up(stub, counter, version):
    _create(stub, counter, version + 1, _read(stub, counter, version) + 1)
    return version + 1


@known("04.add_one", "from its first read")
def keeps_the_old_number(stub, counter, version):
    number = _read(stub, counter, version) + 1
    while not _create(stub, counter, version := version + 1, number):
        pass
    return version


@known("04.add_one", "again and again")
def stays_at_one_version(stub, counter, version):
    while not _create(stub, counter, version + 1, _read(stub, counter, version) + 1):
        pass
    return version + 1


@known("04.add_one", "read that first")
def never_reads(stub, counter, version):
    while not _create(stub, counter, version := version + 1, version):
        pass
    return version


@known("04.add_one", "return the version that it created")
def returns_what_it_got(stub, counter, version):
    compare_and_set(stub, counter, version)
    return version


known("04.add_one", "Update overwrites")(read_then_write)


# ---- 05 ------------------------------------------------------------------------------------------


def on_a_stream(
    *, limit=lambda in_flight: in_flight, changed=lambda request: request, waits=lambda reply: False
):
    """A client that differs from the reference in one detail."""

    def client(stub, requests, in_flight):
        free = threading.Semaphore(limit(in_flight))

        def sent():
            for request in requests:
                free.acquire()
                yield changed(request)

        for reply in stub.Pipeline(sent()):
            if not waits(reply):
                free.release()

    return client


def with_id(request, number):
    request.id = number
    return request


known("05.stream", "were open at once")(on_a_stream(limit=lambda in_flight: in_flight + 1))
known("05.stream", "a blocking client")(on_a_stream(limit=lambda in_flight: 1))
known("05.stream", "a place stays empty")(
    on_a_stream(limit=lambda in_flight: max(1, in_flight - 1))
)
known("05.stream", "had the id 7")(on_a_stream(changed=lambda request: with_id(request, 7)))
known("05.stream", "unchanged")(
    on_a_stream(changed=lambda request: PipelineRequest(id=request.id, kinds=b"\x02", keys=[b"x"]))
)
known("05.stream", "also a reply without a value")(
    on_a_stream(waits=lambda reply: not reply.values)
)


@known("05.stream", "no reply yet")
def all_taken(stub, requests, in_flight):
    for _ in stub.Pipeline(iter(list(requests))):
        pass


@known("05.stream", "send all requests on one")
def stream_for_each(stub, requests, in_flight):
    for request in requests:
        for _ in stub.Pipeline(iter([request])):
            pass


@known("05.stream", "loop over all replies")
def without_replies(stub, requests, in_flight):
    replies = stub.Pipeline(iter(list(itertools.islice(requests, in_flight))))
    next(replies, None)


@known("05.stream", "you send in turns")
def in_turns(stub, requests, in_flight):
    """Send a window full, receive a window full."""
    sending = SimpleQueue()
    replies = stub.Pipeline(iter(sending.get, None))
    while turn := list(itertools.islice(requests, in_flight)):
        for request in turn:
            sending.put(request)
        for _ in turn:
            next(replies)
    sending.put(None)


@known("05.stream", "never opened")
def unary(stub, requests, in_flight):
    for request in requests:
        stub.Retrieve(RetrieveRequest(key=request.keys[0]))


@known("05.stream", "your request iterator stopped")
def bad_message(stub, requests, in_flight):
    def sent():
        for request in requests:
            yield PipelineRequest(id=request.id, kinds=RETRIEVE, keys=request.keys)

    for _ in stub.Pipeline(sent()):
        pass


@known("05.batches", "may have fewer than k")
def whole_batches_only(keys, k):
    for start in range(0, len(keys) - k + 1, k):
        yield PipelineRequest(id=start, kinds=bytes([RETRIEVE]) * k, keys=keys[start : start + k])


def batches_of(
    keys, k, *, ids=lambda start: start, kinds=lambda part: bytes([RETRIEVE]) * len(part)
):
    for start in range(0, len(keys), k):
        part = keys[start : start + k]
        yield PipelineRequest(id=ids(start), kinds=kinds(part), keys=part)


known("05.batches", "the same id")(partial(batches_of, ids=lambda start: 0))
known("05.batches", "one kind for each key")(
    partial(batches_of, kinds=lambda part: bytes([RETRIEVE]))
)
known("05.batches", "that of a read")(partial(batches_of, kinds=lambda part: b"\x01" * len(part)))
known("05.batches", "the last one has the rest")(lambda keys, k: batches_of(keys, 1))
known("05.batches", "a `pb.PipelineRequest`")(lambda keys, k: list(keys))


# ---- 06 ------------------------------------------------------------------------------------------


@known("06.own_connections", "all channels share one")
def plain(address, count):
    return [grpc.insecure_channel(address) for _ in range(count)]


@known("06.own_connections", "closed already")
def closed(address, count):
    channels = own_connections(address, count)
    for channel in channels:
        channel.close()
    return channels


@known("06.own_connections", "some channels share a connection")
def in_pairs(address, count):
    options = [[("grpc.primary_user_agent", f"caller {place // 2}")] for place in range(count)]
    return [grpc.insecure_channel(address, options=each) for each in options]


known("06.own_connections", "several times")(lambda a, n: own_connections(a, 1) * n)
known("06.own_connections", "the list holds")(lambda a, n: own_connections(a, n + 1))
known("06.own_connections", "a list of channels")(lambda a, n: own_connections(a, 1)[0])
known("06.own_connections", "objects of `grpc.Channel`")(lambda a, n: [a] * n)
known("06.own_connections", "reached no server")(lambda a, n: own_connections("127.0.0.1:9", n))


@known("08.open_loop", "only one was sent")
def waiting_for_each_reply(stub, requests, due_times):
    start, times_s = time.perf_counter(), []
    for due_s, request in zip(due_times, requests, strict=False):
        time.sleep(max(0, start + due_s - time.perf_counter()))
        method_of(stub, request)(request)
        times_s.append(time.perf_counter() - start - due_s)
    return times_s
