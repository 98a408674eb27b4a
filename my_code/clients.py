"""My clients. Most take a stub and an iterator of requests, and return when all calls have ended.

A call that fails is data, too: whoever measures counts it. So a client goes on.
"""

import asyncio
import queue
import threading
import time

import grpc

from my_code import kvstore_pb2 as pb
from my_code.kvstore_pb2_grpc import KeyValueServiceStub


def method_of(stub, request):
    """Return the stub's method that takes this request."""
    methods = {
        pb.CreateRequest: stub.Create,
        pb.RetrieveRequest: stub.Retrieve,
        pb.UpdateRequest: stub.Update,
        pb.DeleteRequest: stub.Delete,
    }
    return methods[type(request)]


# The course's version: yours takes its place when it has passed its check.
def first_client(stub, items):
    """Create every item, then retrieve every key; return the values that the server sent."""
    for key, value in items:
        stub.Create(pb.CreateRequest(key=key, value=value))
    return [stub.Retrieve(pb.RetrieveRequest(key=key)).value for key, _ in items]


# The course's version: yours takes its place when it has passed its check.
def read_all(stub, keys, deadline_s):
    """Retrieve every key, one call at a time; None stands for a key that has no value."""
    values = []
    for key in keys:
        try:
            reply = stub.Retrieve(pb.RetrieveRequest(key=key), timeout=deadline_s)
            values.append(reply.value)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            values.append(None)
    return values


def blocking(stub, requests):
    """Wait for each reply before the next call."""
    for request in requests:
        try:
            method_of(stub, request)(request)
        except grpc.RpcError:
            pass


# The course's version: yours takes its place when it has passed its check.
def send_all(stub, requests):
    """Send without waiting; return the status codes in the order in which the calls ended."""
    sent, ended = 0, queue.SimpleQueue()
    for request in requests:
        call = method_of(stub, request).future(request)
        call.add_done_callback(lambda call: ended.put(call.code()))
        sent += 1
    return [ended.get() for _ in range(sent)]


# The course's version: yours takes its place when it has passed its check.
def bounded(stub, requests, in_flight):
    """Send without waiting; a semaphore limits how many calls are in flight."""
    free = threading.Semaphore(in_flight)
    for request in requests:
        free.acquire()
        call = method_of(stub, request).future(request)
        call.add_done_callback(lambda _: free.release())
    for _ in range(in_flight):
        free.acquire()


def key_of(counter, version):
    """Return the key of a version of the counter."""
    return b"%s/%d" % (counter, version)


# The course's version: yours takes its place when it has passed its check.
def add_one(stub, counter, version):
    """Add one to a counter of which this version exists; return the version that was created."""
    while True:
        reply = stub.Retrieve(pb.RetrieveRequest(key=key_of(counter, version)))
        value = b"%d" % (int(reply.value) + 1)
        version += 1
        try:
            stub.Create(pb.CreateRequest(key=key_of(counter, version), value=value))
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
        else:
            return version


async def tasks(stub, requests, in_flight):
    """Run so many asyncio tasks; each waits for its own replies."""

    async def caller():
        async for request in requests:
            try:
                await method_of(stub, request)(request)
            except grpc.RpcError:
                pass

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(caller())


# The course's version: yours takes its place when it has passed its check.
def window(stub, requests, in_flight):
    """Keep so many requests open on one stream; replies come in any order."""
    free = threading.Semaphore(in_flight)

    def sent():
        for request in requests:
            free.acquire()
            yield request

    try:
        for _ in stub.Pipeline(sent()):
            free.release()
    finally:
        free.release(in_flight)  # where the stream has failed, nothing waits for ever


# The course's version: yours takes its place when it has passed its check.
def batches(keys, k):
    """Yield requests for a stream: reads of these keys, k in each message."""
    for number, start in enumerate(range(0, len(keys), k)):
        part = keys[start : start + k]
        kinds = bytes([pb.OPERATION_KIND_RETRIEVE]) * len(part)
        yield pb.PipelineRequest(id=number, kinds=kinds, keys=part)


# The course's version: yours takes its place when it has passed its check.
def own_connections(address, count):
    """Return open channels, each with a connection of its own."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    return [grpc.insecure_channel(address, options=options) for _ in range(count)]


# The course's version: yours takes its place when it has passed its check.
async def ask_all(stub, keys):
    """Retrieve all keys at once; None stands for a key that has no value."""

    async def one(key):
        try:
            return (await stub.Retrieve(pb.RetrieveRequest(key=key))).value
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            return None

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(key)) for key in keys]
    return [task.result() for task in tasks]


# The course's version: yours takes its place when it has passed its check.
def open_loop(stub, requests, due_times):
    """Send each request when it is due; return the latencies, counted from the due times."""
    start, sent, ended = time.perf_counter(), 0, queue.SimpleQueue()
    for due_s, request in zip(due_times, requests):
        time.sleep(max(0.0, start + due_s - time.perf_counter()))
        call = method_of(stub, request).future(request)
        call.add_done_callback(
            lambda _, due_s=due_s: ended.put(time.perf_counter() - start - due_s)
        )
        sent += 1
    return [ended.get() for _ in range(sent)]


# The course's version: yours takes its place when it has passed its check.
async def hedged(first, second, request, after_s):
    """Call the first server; if `after_s` seconds bring no reply, call the second one, too."""
    calls = {asyncio.ensure_future(first.Retrieve(request))}
    done, waiting = await asyncio.wait(calls, timeout=after_s)
    if not done:
        waiting.add(asyncio.ensure_future(second.Retrieve(request)))
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for call in waiting:
        call.cancel()
    return done.pop().result()


# The course's version: yours takes its place when it has passed its check.
def patient(addresses, requests, in_flight, timeout_s=1.0):
    """Send a request again, to the other address, when its call fails; wait longer each time."""
    channels = [grpc.insecure_channel(address) for address in addresses]
    stubs = [KeyValueServiceStub(channel) for channel in channels]
    free = threading.Semaphore(in_flight)

    def send(request, number, attempt=0):
        method = method_of(stubs[number % len(stubs)], request)
        call = method.future(request, timeout=timeout_s * 2**attempt)
        call.add_done_callback(lambda call: ended(call, request, number, attempt))

    def ended(call, request, number, attempt):
        if call.code() is grpc.StatusCode.OK or attempt == 4:
            free.release()
        else:
            send(request, number + 1, attempt + 1)

    for number, request in enumerate(requests):
        free.acquire()
        send(request, number)
    for _ in range(in_flight):
        free.acquire()
    for channel in channels:
        channel.close()
