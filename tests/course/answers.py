"""Answers to the exercises, right ones and known-wrong ones: see verdicts.py, and mistakes.diff."""

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
from verdicts import edited, known, right

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
right("03.store")(
    edited(
        "03.store",
        READ,
        "",
        RETRIEVED,
        f"value = self.values[request.key]\n{READ}        return pb.RetrieveResponse(value=value)",
    )
)

# 04

LOCKS = "{key: threading.Lock() for key in values}"
LOCK = "with self.locks[request.key]:"

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


known("06.own_connections", "several times")(lambda a, n: own_connections(a, 1) * n)
known("06.own_connections", "the list holds")(lambda a, n: own_connections(a, n + 1))
known("06.own_connections", "a list of channels")(lambda a, n: own_connections(a, 1)[0])
known("06.own_connections", "objects of `grpc.Channel`")(lambda a, n: [a] * n)
known("06.own_connections", "reached no server")(lambda a, n: own_connections("127.0.0.1:9", n))

# 07

right("07.front")(
    edited("07.front", "127.0.0.1", "localhost", "return server, port", "return [server, port]")
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

# 10


@known("10.retry_config", "returned the text")
def config_as_text(*limits):
    return json.dumps(retry_config(*limits))


@right("10.backoff")
def backoff_by_doubling(failures, first_s, most_s, draw):
    longest_s = first_s
    for _ in range(failures - 1):
        longest_s = min(2 * longest_s, most_s)
    return draw() * min(longest_s, most_s)


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


# 12


@right("12.spread")
def with_the_option_of_the_channel(addresses):
    return grpc.insecure_channel(
        "ipv4:" + ",".join(addresses), options=(("grpc.lb_policy_name", "round_robin"),)
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


@right("12.owner")
def by_the_highest_weight(key, servers):
    """Rendezvous hashing: no ring, and the same promise."""
    return max(servers, key=lambda name: position(key + name.encode()))


known("12.owner", "one of these names")(lambda key, servers: servers.index(owner(key, servers)))
known("12.owner", "Leave chance out")(lambda key, servers: random.choice(servers))
known("12.owner", "to the new server only")(
    lambda key, servers: sorted(servers)[position(key) % len(servers)]
)


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


# 15

right("15.client")(edited("15.client", "attempt == 4", "attempt == 5"))

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
