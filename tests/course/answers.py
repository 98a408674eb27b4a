"""Answers to the exercises, right ones and known-wrong ones: see verdicts.py."""

import asyncio
import itertools
import json
import math
import queue
import random
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
from verdicts import edited, known, mistake, mistakes, right

from kvstore.course.my_code import course_version
from kvstore.v1 import etcd_pb2
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import add_KeyValueServiceServicer_to_server

Front = course_version("front.Front")
Store = course_version("store.Store")
create_if_absent = course_version("cluster.create_if_absent")
least_outstanding = course_version("balance.least_outstanding")
method_of = course_version("clients.method_of")
own_connections = course_version("clients.own_connections")
owner = course_version("balance.owner")
p99_at = course_version("laws.p99_at")
position = course_version("balance.position")
response_times_by = course_version("laws.response_times_by")
retry_config = course_version("limits.retry_config")
spread = course_version("balance.spread")

# 00


@right("00.first_client")
def from_a_pool_of_one(stub, items):
    creates = [pb.CreateRequest(key=key, value=value) for key, value in items]
    retrieves = [pb.RetrieveRequest(key=key) for key, _ in items]
    with ThreadPoolExecutor(1) as pool:
        list(pool.map(stub.Create, creates))
        return [reply.value for reply in pool.map(stub.Retrieve, retrieves)]


VALUE = "stub.Retrieve(pb.RetrieveRequest(key=key)).value"
mistakes(
    "00.first_client",
    {
        "values that you sent": (
            "    return [",
            f"    _ = [{VALUE} for key, _ in items]\n    return [",
            f"return [{VALUE} for key, _ in items]",
            "return [value for _, value in items]",
        ),
        "in another order": (
            "    for key, value in items:",
            "    values = []\n    for key, value in items:",
            f"    return [{VALUE} for key, _ in items]",
            f"        values.append({VALUE})\n    return values",
        ),
        "0 Retrieves": (VALUE, "dict(items)[key]"),
        "before the call ahead of them had ended": ("stub.Create(", "stub.Create.future("),
        "You return the replies": (VALUE, VALUE.removesuffix(".value")),
    },
)


@right("00.mean_in_flight")
def integral_of_the_number_in_flight(calls, window_s):
    times = [(at, 1) for at in calls["sent_s"]] + [(at, -1) for at in calls["done_s"]]
    total, level, before_s = 0.0, 0, 0.0
    for at_s, change in [*sorted(times), (window_s, 0)]:
        total += level * (at_s - before_s)
        level, before_s = level + change, at_s
    return total / window_s


right("00.utilisation")(lambda calls_per_s, cpu_us: calls_per_s / 1e3 * (cpu_us / 1e3))

# 01


@right("01.read_all")
def with_futures(stub, keys, deadline_s):
    values = []
    for key in keys:
        call = stub.Retrieve.future(pb.RetrieveRequest(key=key), timeout=deadline_s)
        missing = call.code() is grpc.StatusCode.NOT_FOUND  # waits for the end
        values.append(None if missing else call.result().value)
    return values


DEADLINE = "timeout=deadline_s"
mistakes(
    "01.read_all",
    {
        "without a deadline": (DEADLINE, "timeout=None"),
        "`timeout` is in seconds": (DEADLINE, "timeout=1e3 * deadline_s"),
        "gets the whole of it": (DEADLINE, "timeout=0.9 * deadline_s"),
        "not for all of them together": (
            "values = []",
            "values, end_s = [], time.monotonic() + deadline_s",
            DEADLINE,
            "timeout=end_s - time.monotonic()",
        ),
        "catch it and go on": ("except grpc.RpcError", "except ValueError"),
        "DEADLINE_EXCEEDED is no answer": ("                raise\n", "                pass\n"),
        "Put None in their place": ("values.append(None)", "continue"),
        "one call for each key": (
            "for key in keys:",
            "for key in dict.fromkeys(keys):",
            "return values",
            "return [values[list(dict.fromkeys(keys)).index(key)] for key in keys]",
        ),
    },
)


@known("01.read_all", "Make one call at a time")
def all_at_once(stub, keys, deadline_s):
    calls = [stub.Retrieve.future(pb.RetrieveRequest(key=key), timeout=deadline_s) for key in keys]
    missing = grpc.StatusCode.NOT_FOUND
    return [None if call.code() is missing else call.result().value for call in calls]


# 02


@right("02.send_all")
def send_all_with_asyncio(stub, requests):
    kept = list(requests)

    async def work():
        loop, ended = asyncio.get_running_loop(), asyncio.Queue()
        for request in kept:
            method_of(stub, request).future(request).add_done_callback(
                lambda call: loop.call_soon_threadsafe(ended.put_nowait, call.code())
            )
        return [await ended.get() for _ in kept]

    return asyncio.run(work())


ALL = "return [ended.get() for _ in range(sent)]"
NOTED = "return [ended.get() for _ in range(ended.qsize())]"
mistakes(
    "02.send_all",
    {
        "waits for a reply before it sends": ("sent += 1", "sent += call.code() != 0"),
        "Return when every call has ended": (ALL, NOTED),
        "note the failed calls too": (
            ALL,
            f"codes = {ALL.removeprefix('return ')}\n"
            "    return [code for code in codes if code is grpc.StatusCode.OK]",
        ),
        "send each one once": (
            "for request in requests:",
            "kept = list(requests)\n    for request in [*kept, *kept]:",
            ALL,
            "return [ended.get() for _ in range(sent)][: len(kept)]",
        ),
        "it does not return": ("call.code())", "call.result() and call.code())"),
        "status codes, such": ("call.code())", "call.code().name)"),
    },
)
for wait in (
    "end_s = time.monotonic() + 10\n    while time.monotonic() < end_s: time.sleep(0.01)",
    "threading.Event().wait(10)",
    "import select; select.select([], [], [], 10)",
    "asyncio.run(asyncio.wait_for(asyncio.sleep(1), 2))",
):
    mistake("02.send_all", "while 1 of", ALL, f"{wait}\n    {NOTED}")


@known("02.send_all", "another order")
def order_of_sending(stub, requests):
    calls = [method_of(stub, request).future(request) for request in requests]
    return [call.code() for call in calls]


@known("02.send_all", "wait for the callbacks")
def waits_for_calls(stub, requests):
    codes = []
    calls = [method_of(stub, request).future(request) for request in requests]
    for call in calls:
        call.add_done_callback(lambda call: codes.append(call.code()))
    for call in calls:
        call.exception()
    return list(codes)


right("02.seconds_until_full")(
    lambda c, b, kb, sent, x: math.inf if sent <= x else 1e3 * (c - b) / (kb * (sent - x))
)

# 03


right("03.hot_key")(
    lambda shares, part, s: 1 / (max(shares.values()) * part * s) if part else math.inf
)


@right("03.bounded")
def bounded_with_blocking_calls(stub, requests, in_flight):
    taking = threading.Lock()

    def caller():
        while True:
            with taking:
                request = next(requests, None)
            if request is None:
                return
            try:
                method_of(stub, request)(request)
            except grpc.RpcError:
                pass

    with ThreadPoolExecutor(in_flight) as pool:
        for _ in range(in_flight):
            pool.submit(caller)


CALLBACK = "call.add_done_callback(lambda _: free.release())"
PLACES = "    free = threading.Semaphore(in_flight)\n"
EACH = "    for request in requests:\n"
TAKE = "        free.acquire()\n        call = "
mistakes(
    "03.bounded",
    {
        "not when it was sent": (CALLBACK, "free.release()"),
        "no place is ever released": (CALLBACK, "pass"),
        "fails must release its place too": (
            "lambda _: free.release()",
            "lambda call: call.code() is grpc.StatusCode.OK and free.release()",
        ),
        "waits for its reply": (CALLBACK, "call.exception() or free.release()"),
        "still in flight": ("range(in_flight)", "range(0)"),
        "what ends its wait": ("range(in_flight)", "range(in_flight + 1)"),
        "before its place is acquired": (
            TAKE,
            "        call = ",
            CALLBACK,
            f"{CALLBACK}\n        free.acquire()",
        ),
        "again and again": (
            TAKE,
            f"""\
        while not free.acquire(blocking=False):
            time.sleep(0.001)
{TAKE.splitlines()[1]}""",
        ),
        "a place stays empty": (
            EACH,
            f"    in_flight = max(1, in_flight - 1)\n{PLACES}{EACH}",
        ),
        "others wait in a queue": (EACH, "    for request in list(requests):\n"),
        "send each one that": (EACH, f"    next(requests, None)\n{EACH}"),
        "send each request once": (
            EACH,
            "    for request in (each for each in requests for _ in range(2)):\n",
        ),
        "pauses for 0.1 s": (EACH, f"{EACH}        time.sleep(0.1)\n"),
        "let `method_of(stub, request)` choose": (
            "method_of(stub, request).future(request)",
            "stub.Update.future(pb.UpdateRequest(key=request.key))",
        ),
    },
)


@known("03.bounded", "in waves")
def in_waves(stub, requests, in_flight):
    while wave := list(itertools.islice(requests, in_flight)):
        for call in [method_of(stub, request).future(request) for request in wave]:
            call.exception()


@known("03.bounded", "Hold no lock there")
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


READ = "        time.sleep(self.read_s)\n"
RETRIEVED = "return pb.RetrieveResponse(value=self.values[request.key])"
WRITE_LOCKED = "        with self.lock:\n            time.sleep(self.write_s)\n"
WRITE = "        time.sleep(self.write_s)\n        with self.lock:\n"
right("03.store")(
    edited(
        "03.store",
        READ,
        "",
        RETRIEVED,
        f"value = self.values[request.key]\n{READ}        return pb.RetrieveResponse(value=value)",
    )
)
mistakes(
    "03.store",
    {
        "must use the disk once": (READ, ""),
        "the others wait for your lock. In Delete": (
            f"{WRITE}            self.values.pop",
            WRITE_LOCKED + "            self.values.pop",
        ),
        "after the sleep, with the lock held": (
            f"{WRITE}            if request.key in self.values:",
            "        with self.lock:\n            if request.key in self.values:",
            '"this key has a value")\n',
            f'"this key has a value")\n{WRITE}',
        ),
    },
)
ABSENT = """\
            if request.key not in self.values:
                context.abort(grpc.StatusCode.NOT_FOUND, "this key has no value")
"""
SET = "            self.values[request.key] = request.value"
mistake("03.store", "change nothing else", ABSENT + SET, SET)

# 04

LOCKS = "{key: threading.Lock() for key in values}"
LOCK = "with self.locks[request.key]:"
DISK_READ = "        self.disk.read(request.key)\n"
DISK_WRITE = "            self.disk.write(request.key)\n"
IN_RETRIEVE = "def Retrieve(self, request, context):\n"
IN_UPDATE = "def Update(self, request, context):\n"
REPLY = "pb.RetrieveResponse(value=self.values[request.key])"
UPDATED = "        return pb.UpdateResponse()"
POOL = "ThreadPoolExecutor(threads)"
TAKEN = "self.locks[request.key].acquire("
GIVEN = "self.locks[request.key].release()\n"

right("04.server")(
    edited(
        "04.server",
        LOCKS,
        "{}\n        self.guard = threading.Lock()",
        LOCK,
        "with self.guard:\n            self.locks.setdefault(request.key, threading.Lock())\n"
        f"        {LOCK}",
    )
)
mistakes(
    "04.server",
    {
        "two writes of the same key": (LOCK, "if True:"),
        "a lock that is not theirs": (LOCKS, "dict.fromkeys(values, threading.Lock())"),
        "each made a lock": (
            LOCKS,
            "{}",
            LOCK,
            f"""\
if request.key not in self.locks:
            self.locks[request.key] = threading.Lock()
        {LOCK}""",
        ),
        "a Retrieve waited for a writer": (DISK_READ, f"        {LOCK}\n    {DISK_READ}"),
        "while `disk.write` was still at work": (f"{DISK_WRITE}{SET}", f"{SET}\n{DISK_WRITE}"),
        "`with lock:` releases it": (
            LOCK,
            f"{TAKEN})\n        if True:",
            UPDATED,
            f"        {GIVEN}{UPDATED}",
        ),
        "Is its lock still held?": (
            IN_UPDATE,
            f"{IN_UPDATE}        lock = self.locks.setdefault(request.key, threading.Lock())\n"
            "        lock.acquire()\n",
            LOCK,
            f"lock.release()\n        {LOCK}",
        ),
        "before the lock is released": (DISK_WRITE, f"{DISK_WRITE}        {LOCK}\n"),
        "on the disk at the same time": (
            LOCK,
            f"acquired = {TAKEN}timeout=1.0)\n        try:",
            UPDATED,
            f"        finally:\n            if acquired:\n                {GIVEN}{UPDATED}",
        ),
        "Retrieve of an unknown key must end": (
            IN_RETRIEVE,
            f"{IN_RETRIEVE}{DISK_READ}"
            f"        return {REPLY.replace('[', '.get(').replace(']', ')')}\n",
        ),
        "must call `disk.read(key)` once": (DISK_READ, ""),
        "must not use the disk": (DISK_READ, "", IN_RETRIEVE, f"{IN_RETRIEVE}{DISK_READ}"),
        "something else than its reply message": (REPLY, "self.values[request.key]"),
        "let the error out": (
            DISK_WRITE,
            f"""\
            try:
    {DISK_WRITE}\
            except OSError:
                return pb.UpdateResponse()
""",
        ),
        f"`{POOL}`": (POOL, "ThreadPoolExecutor(64)"),
        "must return two things": ("return server, port", "return port"),
        "no server answers": ("    server.start()\n", ""),
        "does not know the method": (
            "    add_KeyValueServiceServicer_to_server(KeyLocks(disk, values), server)\n",
            "",
        ),
        "let them wait for a thread": (POOL, f"{POOL}, maximum_concurrent_rpcs=threads"),
    },
)

READ_VERSION = "reply = stub.Retrieve(pb.RetrieveRequest(key=key_of(counter, version)))"
EXISTS = "if error.code() is not grpc.StatusCode.ALREADY_EXISTS:\n                raise"
mistakes(
    "04.add_one",
    {
        "gave up": (EXISTS, f"{EXISTS}\n            return version"),
        "from its first read": (
            f"    while True:\n        {READ_VERSION}",
            f"    {READ_VERSION}\n    while True:",
        ),
        "again and again": (
            "        version += 1\n",
            "",
            "version), value=value",
            "version + 1), value=value",
            "return version",
            "return version + 1",
        ),
        "read that first": (READ_VERSION, "", "int(reply.value) + 1", "version + 1"),
        "return the version that it created": (
            "    while True:",
            "    first = version\n    while True:",
            "return version",
            "return first",
        ),
        "Update overwrites": (
            "        version += 1\n",
            "",
            "stub.Create(pb.CreateRequest",
            "stub.Update(pb.UpdateRequest",
        ),
        "et every other error leave the function": (EXISTS, "pass"),
        "Let every other error leave the function": (
            "                raise",
            "                return version",
        ),
        "30 newer ones exist": (
            "while True:",
            "for _ in range(25):",
            "            return version",
            "            return version\n    return version",
        ),
    },
)

# 05


@right("05.stream")
def with_a_queue(stub, requests, in_flight):
    """The loop over the replies puts the next request into a queue."""
    sending = queue.SimpleQueue()
    for request in itertools.islice(requests, in_flight):
        sending.put(request)
    if sending.empty():
        return
    opened = sending.qsize()
    for _ in stub.Pipeline(iter(sending.get, None)):
        request = next(requests, None)
        opened += -1 if request is None else 0
        if request is not None or not opened:
            sending.put(request)


LIMIT = "Semaphore(in_flight)"
YIELD = "yield request"
SENT = "stub.Pipeline(sent())"
mistakes(
    "05.stream",
    {
        "were open at once": (LIMIT, "Semaphore(in_flight + 1)"),
        "a blocking client": (LIMIT, "Semaphore(1)"),
        "a place stays empty": (LIMIT, "Semaphore(max(1, in_flight - 1))"),
        "had the id 7": (YIELD, f"request.id = 7\n            {YIELD}"),
        "unchanged": (
            YIELD,
            r'yield pb.PipelineRequest(id=request.id, kinds=b"\x02", keys=[b"x"])',
        ),
        "your request iterator stopped": (YIELD, "yield pb.PipelineRequest(kinds=2)"),
        "pauses for 10 s": (
            "            free.acquire()",
            "            time.sleep(10)\n            free.acquire()",
        ),
        "also a reply without a value": (
            "for _ in",
            "for reply in",
            "        free.release()",
            "        reply.values and free.release()",
        ),
        "no reply yet": (SENT, "stub.Pipeline(iter(list(requests)))"),
    },
)


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
    sending = queue.SimpleQueue()
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
        stub.Retrieve(pb.RetrieveRequest(key=request.keys[0]))


@right("05.batches")
def with_islice(keys, k):
    rest, number = iter(keys), itertools.count(7)
    while part := list(itertools.islice(rest, k)):
        yield pb.PipelineRequest(id=next(number), kinds=b"\x02" * len(part), keys=part)


KINDS = "bytes([pb.OPERATION_KIND_RETRIEVE]) * len(part)"
mistakes(
    "05.batches",
    {
        "may have fewer than k": ("len(keys), k", "len(keys) - k + 1, k"),
        "the same id": ("id=number", "id=0"),
        "one kind for each key": (KINDS, "bytes([pb.OPERATION_KIND_RETRIEVE])"),
        "that of a read": (KINDS, r'b"\x01" * len(part)'),
        "the last one has the rest": ("    for number", "    k = 1\n    for number"),
    },
)
known("05.batches", "a `pb.PipelineRequest`")(lambda keys, k: list(keys))


@right("05.commit_index")
def committed_one_by_one(acknowledged):
    stored, committed = {0}, []
    for entry in acknowledged:
        stored |= {entry}
        committed.append(next(n for n in itertools.count() if n + 1 not in stored))
    return committed


right("05.in_order")(lambda calls: itertools.accumulate(calls["done_s"], max))

# 06


class Intercepts(grpc.UnaryUnaryClientInterceptor):
    def intercept_unary_unary(self, continuation, client_call_details, request):
        return continuation(client_call_details, request)


@right("06.own_connections")
def intercepted(address, count):
    channels = own_connections(address, count)
    return [grpc.intercept_channel(channel, Intercepts()) for channel in channels]


@known("06.own_connections", "closed already")
def closed(address, count):
    channels = own_connections(address, count)
    for channel in channels:
        channel.close()
    return channels


mistakes(
    "06.own_connections",
    {
        "all channels share one": (", options=options", ""),
        "some channels share a connection": (
            "options=options) for _ in",
            'options=[("grpc.primary_user_agent", f"caller {place // 2}")]) for place in',
        ),
    },
)
known("06.own_connections", "several times")(lambda a, n: own_connections(a, 1) * n)
known("06.own_connections", "the list holds")(lambda a, n: own_connections(a, n + 1))
known("06.own_connections", "a list of channels")(lambda a, n: own_connections(a, 1)[0])
known("06.own_connections", "objects of `grpc.Channel`")(lambda a, n: [a] * n)
known("06.own_connections", "reached no server")(lambda a, n: own_connections("127.0.0.1:9", n))

# 07

ASK = "await self.stub.Retrieve(request, timeout=context.time_remaining())"
RELAY = "await context.abort(error.code(), error.details())"
TRY = "        try:\n"
STUB = "self.stub = stub"
SERVER = "grpc.aio.server()"
right("07.front")(
    edited("07.front", "127.0.0.1", "localhost", "return server, port", "return [server, port]")
)
mistakes(
    "07.front",
    {
        "something else than a reply message": (ASK, ASK.removeprefix("await ")),
        "blocks its only thread": (
            f"return {ASK}",
            f"""\
call = {ASK.removeprefix("await ")}
            await asyncio.sleep(0.01)  # lets the call leave
            end_s = time.perf_counter() + 4
            while not call.done() and time.perf_counter() < end_s:
                time.sleep(0.005)
            return await call""",
        ),
    },
)
for places, said in (1, "only one call at a time"), (10, "never more than 10"):
    mistake(
        "07.front",
        said,
        STUB,
        f"{STUB}\n        self.places = asyncio.Semaphore({places})",
        f"            return {ASK}",
        f"            async with self.places:\n                return {ASK}",
    )
mistakes(
    "07.front",
    {
        "the error left your method": ("except grpc.aio.AioRpcError", "except ValueError"),
        "the caller got NOT_FOUND": ("error.code(),", "grpc.StatusCode.NOT_FOUND,"),
        "the caller got OK": (RELAY, "return pb.RetrieveResponse()"),
        "had no deadline": (", timeout=context.time_remaining()", ""),
        "had a deadline of 4.0 s": ("context.time_remaining()", "4"),
        "made 0 calls to the back end": (
            STUB,
            f"{STUB}\n        self.cached = {{}}",
            f"return {ASK}",
            f"""\
if request.key not in self.cached:
                self.cached[request.key] = {ASK}
            return self.cached[request.key]""",
        ),
        "the value of another caller's key": (
            "Retrieve(request, timeout",
            "Retrieve(self.request, timeout",
            TRY,
            f"        self.request = request\n        await asyncio.sleep(0.01)\n{TRY}",
        ),
        "refused some": (SERVER, "grpc.aio.server(maximum_concurrent_rpcs=8)"),
        "must return two things": ("return server, port", "return port"),
        "no server answers": ("    await server.start()\n", ""),
        "does not know the method": (
            "    kvstore_pb2_grpc.add_KeyValueServiceServicer_to_server(Front(stub), server)\n",
            "",
        ),
        "only such a server runs coroutines": (
            SERVER,
            "grpc.server(ThreadPoolExecutor(64))",
            "await server.start()",
            "server.start()",
        ),
        "before the back end had answered": (
            f"return {ASK}",
            f"""\
call = asyncio.ensure_future({ASK.removeprefix("await ")})
            await asyncio.wait([call], timeout=1)
            return call.result() if call.done() else pb.RetrieveResponse()""",
        ),
    },
)


@known("07.front", "a coroutine paused its thread")
async def stands_still(stub):
    class Pausing(Front):
        async def Retrieve(self, request, context):
            time.sleep(10)
            return await Front.Retrieve(self, request, context)

    server = grpc.aio.server()
    add_KeyValueServiceServicer_to_server(Pausing(stub), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
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


GROUP = """\
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(key)) for key in keys]
    return [task.result() for task in tasks]"""
GATHER = "    return list(await asyncio.gather(*map(one, keys)))"
ONE = "    async def one(key):"
RETRIEVE = "            return (await stub.Retrieve(pb.RetrieveRequest(key=key))).value"


def asks(said, *lines):
    """A mistake in how the coroutines are awaited."""
    mistake("07.ask_all", said, GROUP, "\n".join(f"    {line}" for line in lines))


asks("the blocking client again", "return [await one(key) for key in keys]")
asks(
    "each has to be awaited", "return [stub.Retrieve(pb.RetrieveRequest(key=key)) for key in keys]"
)
asks(
    "in the order in which the replies came",
    "return [await each for each in asyncio.as_completed([one(key) for key in keys])]",
)
asks(
    "also a key that stands there twice",
    "once = list(dict.fromkeys(keys))",
    "values = await asyncio.gather(*map(one, once))",
    "return [values[once.index(key)] for key in keys]",
)
asks("a coroutine paused its thread", "time.sleep(10)", GROUP.lstrip())
asks(
    "it waits for a time",
    "tasks = [asyncio.ensure_future(one(key)) for key in keys]",
    "tasks and await asyncio.wait(tasks, timeout=2)",
    "return [task.result() if task.done() else None for task in tasks]",
)
mistakes(
    "07.ask_all",
    {
        "NOT_FOUND": ("return None", "raise", GROUP, GATHER),
        "the list has an exception": ("return None", "return error"),
        "as if all were well": ("            raise\n", "            return None\n"),
        "the value of b'empty' must be b''": (RETRIEVE, f"{RETRIEVE} or None"),
        "return its `value`": (RETRIEVE, RETRIEVE.removesuffix(".value")),
        "never more than 2 of 6": (
            ONE,
            f"    places = asyncio.Semaphore(2)\n\n{ONE}",
            RETRIEVE,
            f"            async with places:\n    {RETRIEVE}",
        ),
    },
)

# 08


@right("08.open_loop")
def polling(stub, requests, due_times):
    start, times_s, changed = time.perf_counter(), [], threading.Condition()

    def ended(due_s):
        with changed:
            times_s.append(time.perf_counter() - start - due_s)
            changed.notify()

    for due_s, request in zip(due_times, requests, strict=False):
        while time.perf_counter() < start + due_s:
            time.sleep(0.01)
        call = method_of(stub, request).future(request)
        call.add_done_callback(lambda _, due_s=due_s: ended(due_s))
    with changed:
        changed.wait_for(lambda: len(times_s) == len(due_times))
    return times_s


SLEEP = "time.sleep(max(0.0, start + due_s - time.perf_counter()))"
mistakes(
    "08.open_loop",
    {
        "only one was sent": ("sent += 1", "sent += call.exception() is not call"),
        "still in time": (
            SLEEP,
            "time.sleep(due_s - sent_s)\n        sent_s = due_s",
            "start, sent",
            "sent_s = 0.0\n    start, sent",
        ),
        "from the *due* time": (SLEEP, f"{SLEEP}\n        due_s = time.perf_counter() - start"),
        "time.sleep": (SLEEP, ""),
        "end minus the due time": ("lambda _, due_s=due_s:", "lambda _:"),
        "you returned": ("range(sent)]", "range(ended.qsize())]"),
        "non-negative": (
            "max(0.0, start + due_s - time.perf_counter())",
            "start + due_s - time.perf_counter()",
        ),
    },
)


@right("08.response_times")
def with_a_list_of_workers(arrivals_s, work_s, workers=1):
    free_s, times_s = [0.0] * workers, []
    for at_s, work in zip(arrivals_s, work_s, strict=True):
        first = free_s.index(min(free_s))
        free_s[first] = max(at_s, free_s[first]) + work
        times_s.append(free_s[first] - at_s)
    return times_s


@right("08.response_times_by")
def with_events(arrivals_s, work_s, choose):
    """Walks from end to end of a service; the calls stand in a list of their own."""
    left = sorted(zip(arrivals_s, range(len(arrivals_s)), work_s, strict=True))
    line, ended_s, times_s = [], 0.0, {}
    while left or line:
        began_s = ended_s if line else max(ended_s, left[0][0])
        line += [each for each in left if each[0] <= began_s]
        left = [each for each in left if each[0] > began_s]
        arrival_s, number, each_s = line.pop(choose([(call[0], call[2]) for call in line]))
        ended_s = began_s + each_s
        times_s[number] = ended_s - arrival_s
    return [times_s[number] for number in range(len(arrivals_s))]


mistakes(
    "08.response_times_by",
    {
        "take its arrival off": ("now_s - arrivals_s[call]", "now_s"),
        "One worker serves one call at a time": (
            "now_s += work_s[call]",
            "end_s = now_s + work_s[call]",
            "now_s - arrivals_s[call]",
            "end_s - arrivals_s[call]",
        ),
        "less than its own work": (
            "now_s - arrivals_s[call]",
            "now_s - work_s[call] - arrivals_s[call]",
        ),
        "idle worker takes the next call at its arrival": (
            "max(now_s, arrivals_s[coming])",
            "max(now_s, arrivals_s[coming]) + 0.5",
        ),
        "needs the list of the calls that wait": (
            "[(arrivals_s[n], work_s[n]) for n in waiting]",
            "waiting",
        ),
        "in the order of their arrival": ("waiting.append(coming)", "waiting.insert(0, coming)"),
        "Ask once": (
            "call = waiting",
            "choose([(arrivals_s[n], work_s[n]) for n in waiting])\n        call = waiting",
        ),
    },
)
known("08.response_times_by", "a list with the response time of each")(
    lambda arrivals_s, work_s, choose: list(arrivals_s)[:0]
)
known("08.response_times_by", "the first is that of the first arrival")(
    lambda arrivals_s, work_s, choose: sorted(response_times_by(arrivals_s, work_s, choose))
)

# 09

FREE = "threading.Semaphore(limit)"
REFUSE = "if not self.free.acquire(blocking=False):"
RELEASE = "self.free.release()"
HANDLER = "handler = continuation(details)"
RUN = "return handler.unary_unary(request, context)"
FINALLY = f"            finally:\n                {RELEASE}"
COUNT = (FREE, "0\n        self.limit, self.lock = limit, threading.Lock()")
right("09.shed")(
    edited(
        "09.shed",
        *COUNT,
        REFUSE,
        "with self.lock:\n                free = self.free < self.limit\n"
        "                self.free += free\n            if not free:",
        RELEASE,
        "with self.lock:\n                    self.free -= 1",
    )
)
mistakes(
    "09.shed",
    {
        "took the last place": (
            *COUNT,
            REFUSE,
            "if self.free >= self.limit:",
            "            try:",
            "            self.free += 1\n            try:",
            RELEASE,
            "self.free -= 1",
        ),
        "must be refused *at once*": ("acquire(blocking=False)", "acquire()"),
        "A call that has ended must give its place back": (RELEASE, "pass"),
        "so that it comes back after an error, too": (
            f"{RUN}\n{FINALLY}",
            f"reply = {RUN.removeprefix('return ')}\n                {RELEASE}\n"
            "                return reply\n            finally:\n                pass",
        ),
        "All methods share the places": (
            HANDLER,
            f"self.free = {FREE}\n        {HANDLER}",
            f"self.free = {FREE}\n\n",
            "self.limit = limit\n\n",
            FREE,
            "threading.Semaphore(self.limit)",
        ),
        "and no call two?": (FREE, "threading.Semaphore(max(1, limit - 1))"),
        "must end with RESOURCE_EXHAUSTED": ("RESOURCE_EXHAUSTED", "UNAVAILABLE"),
        "gRPC does not run the method for them": (
            REFUSE,
            "if not free:",
            HANDLER,
            f"{HANDLER}\n        free = self.free.acquire(blocking=False)",
        ),
        "`intercept_service` must return a handler": ("return grpc.unary", "grpc.unary"),
        "let the error out": (
            FINALLY,
            f"""\
            except RuntimeError:
                return pb.RetrieveResponse()
{FINALLY}""",
        ),
    },
)

# 10

BUDGET = '        "retryThrottling": {"maxTokens": tokens, "tokenRatio": ratio},\n'
PAUSE = 'f"{first_pause_s}s"'
CODES = '["UNAVAILABLE"]'
for said, old, new in (
    ("`retryThrottling` stands beside `methodConfig`", BUDGET, ""),
    ('does `"name": [{}]` name all methods?', "[{}]", "[]"),
    ("counts the first attempt, too", "attempts,\n        ", "attempts + 1,\n        "),
    ("`maxAttempts` is a whole number", "attempts,\n        ", "1,\n        "),
    ("retry UNAVAILABLE and nothing else", CODES, '["UNAVAILABLE", "INTERNAL"]'),
    ("`retryableStatusCodes` is a list", CODES, '"UNAVAILABLE"'),
    ("gRPC does not accept this service config", PAUSE, "first_pause_s"),
    ("`initialBackoff` is text", PAUSE, "0.05"),
    ("`initialBackoff` is the first pause", PAUSE, '"0.05s"'),
    ("`maxBackoff` is text", '"1s"', '"1"'),
    ("`maxTokens` is the number of tokens", ": tokens", ": 2 * tokens"),
    ("`tokenRatio` is what one answer earns", ": ratio", ": 0.1"),
):
    mistake("10.retry_config", said, old, new)


@known("10.retry_config", "returned the text")
def config_as_text(*limits):
    return json.dumps(retry_config(*limits))


@right("10.backoff")
def backoff_by_doubling(failures, first_s, most_s, draw):
    longest_s = first_s
    for _ in range(failures - 1):
        longest_s = min(2 * longest_s, most_s)
    return draw() * min(longest_s, most_s)


ANOTHER = "request_id is None or self.created_by.get(request.key) != request_id"
mistakes(
    "10.once",
    {
        "sent again, ended with ALREADY_EXISTS": (ANOTHER, "True"),
        "it is another client's": (ANOTHER, "False"),
        "have no id in common": ("request_id is None or ", ""),
    },
)


@known("10.once", "with the lock held, after the disk")
class NotesAfterwards(Store):
    def __init__(self):
        super().__init__()
        self.ids = set()

    def Create(self, request, context):
        pair = request.key, dict(context.invocation_metadata()).get("request-id")
        if pair[1] is None or pair not in self.ids:
            super().Create(request, context)
            self.ids.add(pair)
        return pb.CreateResponse()


# 11


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


NO_REPLY = "    if not done:\n"
mistakes(
    "11.hedged",
    {
        "had passed without a reply": ("timeout=after_s", "timeout=None"),
        "the second server was called at once": ("timeout=after_s", "timeout=0"),
        "cancel the call to the first one": ("call.cancel()", "pass"),
        "still waits for the first one": (", return_when=asyncio.FIRST_COMPLETED", ""),
        "Keep it: the first server may still be faster": (
            NO_REPLY,
            f"{NO_REPLY}        waiting.pop().cancel()\n",
        ),
        "The first *reply* wins": (
            NO_REPLY,
            f"""\
{NO_REPLY}\
        reply = await second.Retrieve(request)
        waiting.pop().cancel()
        return reply
""",
        ),
        "A reply ends the wait": (
            "    done, waiting = await asyncio.wait(calls",
            "    await asyncio.sleep(after_s)\n    done, waiting = await asyncio.wait(calls",
            "timeout=after_s",
            "timeout=0",
        ),
        "no call came to the first server": ("(first, second", "(second, first"),
    },
)

# 12


@right("12.spread")
def with_the_option_of_the_channel(addresses):
    return grpc.insecure_channel(
        "ipv4:" + ",".join(addresses), options=(("grpc.lb_policy_name", "round_robin"),)
    )


mistake("12.spread", "`pick_first`", ", options=options", "")
known("12.spread", "one server answered all")(lambda addresses: spread(addresses[:1]))
known("12.spread", "not several")(lambda addresses: [spread([each]) for each in addresses])
known("12.spread", "got int")(len)
known("12.spread", "are the addresses joined")(lambda addresses: spread(["127.0.0.1:9"]))


@known("12.spread", "closed already")
def closed_channel(addresses):
    channel = spread(addresses)
    channel.close()
    return channel


@right("12.owner")
def by_the_highest_weight(key, servers):
    """Rendezvous hashing: no ring, and the same promise."""
    return max(servers, key=lambda name: position(key + name.encode()))


known("12.owner", "one of these names")(lambda key, servers: servers.index(owner(key, servers)))
known("12.owner", "Leave chance out")(lambda key, servers: random.choice(servers))
known("12.owner", "to the new server only")(
    lambda key, servers: sorted(servers)[position(key) % len(servers)]
)
mistake("12.owner", "a hundred points", "range(100)", "range(1)")


@known("12.owner", "use the names, not their places")
def by_place(key, servers):
    weights = [position(key + b"%d" % place) for place in range(len(servers))]
    return servers[weights.index(max(weights))]


# 13


@right("13.least_open")
def by_count_and_chance(open_calls):
    return min(range(len(open_calls)), key=lambda server: (open_calls[server], random.random()))


def in_turn():
    turn = itertools.count()
    return lambda open_calls: next(turn) % len(open_calls)


known("13.least_open", "whatever the counts are")(lambda open_calls: 0)
known("13.least_open", "A random server")(lambda open_calls: random.randrange(len(open_calls)))
known("13.least_open", "That is round robin")(in_turn())
known("13.least_open", "the first of")(lambda open_calls: open_calls.index(min(open_calls)))
known("13.least_open", "the last of")(
    lambda open_calls: max(i for i, c in enumerate(open_calls) if c == min(open_calls))
)
known("13.least_open", "numbered from 0")(lambda open_calls: least_outstanding(open_calls) + 1)
known("13.least_open", "an int")(lambda open_calls: open_calls[least_outstanding(open_calls)] / 1)
mistakes(
    "13.least_open",
    {
        "the most open calls": ("min(open_calls)", "max(open_calls)"),
        "it changed the list": (
            "return random",
            "chosen = random",
            "== fewest])",
            "== fewest])\n    open_calls[chosen] += 1\n    return chosen",
        ),
        "A server with no open call is free": (
            "min(open_calls)",
            "min(filter(None, open_calls), default=0)",
        ),
    },
)


@right("13.simulate")
def with_the_ends_of_all_calls(arrivals_s, service_s, servers, choose, every_s):
    ends, report, reported_s, times_s = [[] for _ in range(servers)], [], -math.inf, []
    for at_s in arrivals_s:
        if at_s - reported_s >= every_s:
            report = [sum(end_s > at_s for end_s in each) for each in ends]
            reported_s = at_s
        server = choose(report)
        ends[server].append(max([at_s, *ends[server][-1:]]) + service_s)
        times_s.append(ends[server][-1] - at_s)
    return times_s


right("13.simulate")(
    edited(
        "13.simulate",
        "free_s, report,",
        "counts = [0] * servers\n    free_s, report,",
        "report = [math",
        "counts[:] = [math",
        "reported_s = at_s",
        "report, reported_s = list(counts), at_s",
    )
)
CHOOSE = "server = choose(report)"
mistakes(
    "13.simulate",
    {
        "in the list of an earlier one": ("report = [math", "report[:] = [math"),
        "A busy server lets it wait": ("max(free_s[server], at_s)", "at_s"),
        "from its arrival": ("append(free_s[server] - at_s)", "append(service_s)"),
        "a call of another server": ("max(free_s[server], at_s)", "max(*free_s, at_s)"),
        "give `choose` the same list": ("choose(report)", "choose(list(report))"),
        "once for each": (CHOOSE, f"{CHOOSE}\n        choose(report)"),
        "A report is made if": ("if at_s - reported_s >= every_s:", "if True:"),
        "those that have ended do not count": (
            "    free_s, report",
            "    counts = [0] * servers\n    free_s, report",
            "[math.ceil(max(0, each_s - at_s) / service_s) for each_s in free_s]",
            "list(counts)",
            CHOOSE,
            f"{CHOOSE}\n        counts[server] += 1",
        ),
    },
)
known("13.simulate", "a list with the response time of each")(lambda *_: 0.02)

# 14


@right("14.create_if_absent")
def by_create_revision(stub, key, value):
    """The idiom of etcd's own clients."""
    absent = etcd_pb2.Compare(key=key, target="CREATE", result="EQUAL", create_revision=0)
    read = etcd_pb2.RequestOp(request_range=etcd_pb2.RangeRequest(key=key))
    put = etcd_pb2.RequestOp(request_put=etcd_pb2.PutRequest(key=key, value=value))
    return stub.Txn(etcd_pb2.TxnRequest(compare=[absent], success=[put], failure=[read])).succeeded


@known("14.create_if_absent", "Put stores a value in any case")
def put_only(stub, key, value):
    stub.Put(etcd_pb2.PutRequest(key=key, value=value))
    return True


@known("14.create_if_absent", "between your look and your write")
def looks_then_puts(stub, key, value):
    return not stub.Range(etcd_pb2.RangeRequest(key=key)).kvs and put_only(stub, key, value)


@known("14.create_if_absent", "Let the error through")
def hides_errors(stub, key, value):
    try:
        return create_if_absent(stub, key, value)
    except grpc.RpcError:
        return False


mistakes(
    "14.create_if_absent",
    {
        "has version 0": ("Compare.EQUAL", "Compare.GREATER"),
        "not False": (".succeeded", ".succeeded or True"),
        "not True": (".succeeded", ""),
    },
)

# 15

right("15.client")(edited("15.client", "attempt == 4", "attempt == 5"))
OK = "call.code() is grpc.StatusCode.OK"
PATIENCE = (" * 2**attempt", "")
TWO = "grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED"
mistakes(
    "15.client",
    {
        "waited until it went on": ("timeout=timeout_s * 2**attempt", "timeout=None"),
        "open at once": (LIMIT, "Semaphore(40)"),
        "ended with DEADLINE_EXCEEDED": (*PATIENCE, OK, "True"),
        "and never to the other": (*PATIENCE, "number + 1", "number + 2"),
        "One server went away": (
            *PATIENCE,
            OK,
            "call.code() is not grpc.StatusCode.DEADLINE_EXCEEDED",
        ),
        "a storm": (*PATIENCE, "attempt == 4", "attempt == 9"),
        "requests were lost": PATIENCE,
        "Whatever is not OK has failed": (OK, f"call.code() not in ({TWO})"),
        "give it up after": (
            "attempt == 4",
            "False",
            "2**attempt",
            "2 ** min(attempt, 6)",
        ),
    },
)

# 16


@right("16.knee")
def knee_with_numpy(levels):
    _, x, r = np.array(levels, dtype=float).T
    return float(x.max() * r.min())


@right("16.p99")
def p99_with_numpy(rate_per_s, work_s, workers, calls=5_000):
    drawn = np.random.default_rng()
    arrivals_s = np.cumsum(drawn.exponential(1 / rate_per_s, calls))
    free_s, times_s = np.zeros(workers), []
    for at_s, work in zip(arrivals_s, drawn.choice(work_s, calls), strict=True):
        first = free_s.argmin()
        free_s[first] = max(free_s[first], at_s) + work
        times_s.append(free_s[first] - at_s)
    return float(np.quantile(times_s, 0.99))


known("16.p99", "that is one worker")(
    lambda rate_per_s, work_s, workers, calls=5_000: p99_at(rate_per_s, work_s, 1, calls)
)
known("16.p99", "draw the work of each call")(
    lambda rate_per_s, work_s, workers, calls=5_000: p99_at(
        rate_per_s, [statistics.fmean(work_s)], workers, calls
    )
)
known("16.p99", "needs arrivals of its own")(
    lambda rate_per_s, work_s, workers, calls=5_000: max(work_s)
)


@known("16.p99", "Are the gaps random")
def even_arrivals(rate_per_s, work_s, workers, calls=5_000):
    """Without a queue; the sum of two floats of which the first is drawn is not always the same."""
    began_s = random.random()
    return began_s + max(random.choices(work_s, k=calls)) - began_s


@known("16.p99", "the running sum of the gaps")
def arrivals_at_once(rate_per_s, work_s, workers, calls=5_000):
    return p99_at(rate_per_s * (1 if rate_per_s < 1 else 1000), work_s, workers, calls)
