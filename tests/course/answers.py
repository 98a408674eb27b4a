"""Right answers, and known-wrong ones of the lessons from 07 on: see verdicts.py."""

import asyncio
import bisect
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
from verdicts import known, right
from wrong_answers import serving

from kvstore.course.exercises.client_trials import method_of
from kvstore.course.lessons.lesson_03.exercises_store import Store as FreeStore
from kvstore.course.lessons.lesson_06.exercises import own_connections
from kvstore.course.lessons.lesson_07.exercises_server import Front
from kvstore.course.lessons.lesson_09.exercises_server import Shed
from kvstore.course.lessons.lesson_11.exercises import hedged
from kvstore.course.lessons.lesson_12.exercises import owner, position
from kvstore.course.lessons.lesson_13.exercises import least_outstanding
from kvstore.course.lessons.lesson_15.capstone import patient, plain
from kvstore.course.lessons.lesson_16.exercises import p99_at
from kvstore.v1 import etcd_pb2
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceServicer,
    KeyValueServiceStub,
    add_KeyValueServiceServicer_to_server,
)

# ---- 00.first_client ----------------------------------------------------------------------------


@right("00.first_client")
def from_a_pool_of_one(stub, items):
    with ThreadPoolExecutor(1) as pool:
        list(
            pool.map(lambda item: stub.Create(pb.CreateRequest(key=item[0], value=item[1])), items)
        )
        replies = pool.map(lambda item: stub.Retrieve(pb.RetrieveRequest(key=item[0])), items)
        return [reply.value for reply in replies]


# ---- 00.mean_in_flight, 00.utilisation ----------------------------------------------------------


@right("00.mean_in_flight")
def mean_of_each_millisecond(calls, window_s):
    sent_ms, done_ms = (np.rint(1e3 * calls[name]).astype(int) for name in ("sent_s", "done_s"))
    at_ms = np.arange(round(1e3 * window_s))
    inside = [sum((sent_ms <= at) & (at < done_ms)) for at in at_ms]
    return float(np.mean(inside))


right("00.utilisation")(lambda calls_per_s, cpu_us: calls_per_s / 1e3 * (cpu_us / 1e3))


# ---- 01.read_all, 01.mix_to_rate ----------------------------------------------------------------


@right("01.read_all")
def with_futures(stub, keys, deadline_s):
    values = []
    for key in keys:
        call = stub.Retrieve.future(pb.RetrieveRequest(key=key), timeout=deadline_s)
        missing = call.code() is grpc.StatusCode.NOT_FOUND  # waits for the end
        values.append(None if missing else call.result().value)
    return values


# ---- 02.send_all ---------------------------------------------------------------------------------


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
# ---- 03.bounded ----------------------------------------------------------------------------------


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


# ---- 03.store ------------------------------------------------------------------------------------


@right("03.store")
class SleepsLast(FreeStore):
    def Retrieve(self, request, context):
        with self.lock:
            value = self.values.get(request.key)
        if value is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "this key has no value")
        time.sleep(self.read_s)
        return pb.RetrieveResponse(value=value)

    def Delete(self, request, context):
        with self.lock:
            self.values.pop(request.key, None)
        time.sleep(self.write_s)
        return pb.DeleteResponse()


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


right("04.server")(serving(Store))


# ---- 05: streams, order, the commit index -------------------------------------------------------


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


@right("05.batches")
def with_islice(keys, k):
    rest, number = iter(keys), itertools.count(7)
    while part := list(itertools.islice(rest, k)):
        yield pb.PipelineRequest(id=next(number), kinds=b"\x02" * len(part), keys=part)


@right("05.commit_index")
def committed_with_a_heap(acknowledged):
    seen, found = {0}, []
    for entry in acknowledged:
        seen |= {entry}
        found.append(next(n for n in itertools.count() if n + 1 not in seen))
    return found


# ---- 06: connections, a cap of streams ----------------------------------------------------------


class Intercepts(grpc.UnaryUnaryClientInterceptor):
    def intercept_unary_unary(self, continuation, client_call_details, request):
        return continuation(client_call_details, request)


@right("06.own_connections")
def intercepted(address, count):
    return [
        grpc.intercept_channel(channel, Intercepts()) for channel in own_connections(address, count)
    ]


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


def take_of_an_unlocked_counter(shed):
    if shed.count >= shed.limit:
        return False
    shed.count += 1
    return True


def take_of_a_locked_counter(shed):
    with shed.lock:
        return take_of_an_unlocked_counter(shed)


def give_to_a_locked_counter(shed):
    with shed.lock:
        shed.count -= 1


right("09.shed")(shed_with(take_of_a_locked_counter, give_to_a_locked_counter))


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


@known("10.retry_config", 'does `"name": [{}]` name all methods?')
@config_changed
def config_without_a_name(config, policy):
    config["methodConfig"][0]["name"] = []


@known("10.retry_config", "counts the first attempt, too")
@config_changed
def config_of_retries(config, policy):
    policy["maxAttempts"] += 1


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


# ---- 15.client -----------------------------------------------------------------------------------


def client(scaled=1, both=False, take=iter, codes=None):
    def my_client(addresses, requests, in_flight, timeout_s):
        channels = [grpc.insecure_channel(address) for address in addresses]
        stubs = [KeyValueServiceStub(channel) for channel in channels]
        free = threading.Semaphore(int(scaled * in_flight) or 1)

        def send(request, number, attempt):
            call = method_of(stubs[number % 2], request).future(
                request, timeout=timeout_s * 2**attempt
            )

            def ended(call):
                if attempt < 5 and call.code() is not grpc.StatusCode.OK:
                    send(request, number + 1, attempt + 1)
                else:
                    free.release()

            call.add_done_callback(ended)

        for number, request in enumerate(take(requests)):
            free.acquire()
            if both:
                method_of(stubs[(number + 1) % 2], request).future(request)
            send(request, number, 0)
        for _ in range(int(scaled * in_flight) or 1):
            free.acquire()
        for channel in channels:
            channel.close()

    return my_client


right("15.client")(client())
known("15.client", "waited until it went on")(
    lambda addresses, requests, in_flight, timeout_s: plain(addresses, requests, in_flight)
)
known("15.client", "open at once")(
    lambda addresses, requests, in_flight, timeout_s: patient(addresses, requests, 40, timeout_s)
)


def client_with_a_deadline(send_again, step, again=4):
    """It retries statuses for which `send_again` is true, at the stub `step` places on."""

    def my_client(addresses, requests, in_flight, timeout_s):
        channels = [grpc.insecure_channel(address) for address in addresses]
        stubs = [KeyValueServiceStub(channel) for channel in channels]
        free = threading.Semaphore(in_flight)

        def send(request, number, attempt):
            stub = stubs[number % len(stubs)]
            call = method_of(stub, request).future(request, timeout=timeout_s)
            call.add_done_callback(lambda call: ended(call, request, number, attempt))

        def ended(call, request, number, attempt):
            if attempt < again and send_again(call.code()):
                send(request, number + step, attempt + 1)
            else:
                free.release()

        for number, request in enumerate(requests):
            free.acquire()
            send(request, number, 0)
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
known("15.client", "a storm")(
    client_with_a_deadline(lambda code: code is not grpc.StatusCode.OK, 1, 9)
)
known("15.client", "requests were lost")(
    client_with_a_deadline(lambda code: code is not grpc.StatusCode.OK, 1)
)


# ---- 11.hedged -----------------------------------------------------------------------------------


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
    return await hedged(second, first, request, after_s)


# ---- 07.ask_all ----------------------------------------------------------------------------------


async def ask_one(stub, key):
    try:
        return (await stub.Retrieve(pb.RetrieveRequest(key=key))).value
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        return None


async def ask_all_with_gather(stub, keys):
    return list(await asyncio.gather(*(ask_one(stub, key) for key in keys)))


# ---- 05.in_order ---------------------------------------------------------------------------------

right("05.in_order")(lambda calls: itertools.accumulate(calls["done_s"], max))


# ---- more known-wrong answers --------------------------------------------------------------------


@known("07.ask_all", "the blocking client again")
async def group_in_the_loop(stub, keys):
    values = []
    for key in keys:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(ask_one(stub, key))
        values.append(task.result())
    return values


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


# ---- 12.spread, 12.owner -------------------------------------------------------------------------


def channel_with(config):
    """One channel to all addresses, with this service config."""

    def channel(addresses):
        options = [("grpc.service_config", json.dumps(config))]
        return grpc.insecure_channel("ipv4:" + ",".join(addresses), options=options)

    return channel


spread = channel_with({"loadBalancingConfig": [{"round_robin": {}}]})
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


@known("12.owner", "a hundred points")
def with_one_point_each(key, servers):
    points = sorted((position(name.encode()), name) for name in servers)
    return points[bisect.bisect(points, (position(key), "")) % len(points)][1]


# ---- 13: which server ----------------------------------------------------------------------------


@right("13.least_open")
def by_count_and_chance(open_calls):
    return min(range(len(open_calls)), key=lambda server: (open_calls[server], random.random()))


def in_turn():
    turn = itertools.count()
    return lambda open_calls: next(turn) % len(open_calls)


def counts_the_call(open_calls):
    chosen = least_outstanding(open_calls)
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
known("13.least_open", "numbered from 0")(lambda open_calls: least_outstanding(open_calls) + 1)
known("13.least_open", "it changed the list")(counts_the_call)
known("13.least_open", "an int")(lambda open_calls: open_calls[least_outstanding(open_calls)] / 1)


@known("13.least_open", "A server with no open call is free")
def passes_over_free_ones(open_calls):
    busy = [calls for calls in open_calls if calls]
    return open_calls.index(min(busy)) if busy else least_outstanding(open_calls)


def simulated(*mistakes):
    """A simulator that keeps the ends of the calls, with these mistakes."""

    def simulate(arrivals_s, service_s, servers, choose, every_s):
        ends, report, reported_s, times_s = [[] for _ in range(servers)], [], -math.inf, []
        for at_s in arrivals_s:
            if "fresh" in mistakes or at_s - reported_s >= every_s:
                since_s = 0 if "ended count" in mistakes else at_s
                report = [sum(end_s > since_s for end_s in each) for each in ends]
                reported_s = at_s
            server = choose(list(report) if "copies" in mistakes else report)
            queue = sorted(itertools.chain(*ends)) if "one queue" in mistakes else ends[server]
            begins_s = max([at_s, *queue[-1:]])
            ends[server].append((at_s if "no queue" in mistakes else begins_s) + service_s)
            since_s = begins_s if "from its begin" in mistakes else at_s
            times_s.append(ends[server][-1] - since_s)
        return times_s

    return simulate


right("13.simulate")(simulated())
known("13.simulate", "A busy server lets it wait")(simulated("no queue"))
known("13.simulate", "the time counts from its arrival")(simulated("from its begin"))
known("13.simulate", "a call of another server")(simulated("one queue"))
known("13.simulate", "give `choose` the same list")(simulated("copies"))
known("13.simulate", "those that have ended do not count")(simulated("ended count"))
known("13.simulate", "A report is made if")(simulated("fresh"))
known("13.simulate", "a list with the response time of each")(lambda *given: 0.02)


@known("13.simulate", "once for each")
def asks_twice(arrivals_s, service_s, servers, choose, every_s):
    for _ in arrivals_s:
        choose([0] * servers)
    return simulated()(arrivals_s, service_s, servers, choose, every_s)


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


# ---- 10: more styles ----------------------------------------------------------------------------


@right("10.backoff")
def backoff_by_doubling(failures, first_s, most_s, draw):
    longest_s = first_s
    for _ in range(failures - 1):
        longest_s = min(2 * longest_s, most_s)
    return draw() * min(longest_s, most_s)


# ---- 10.once ------------------------------------------------------------------------------------


def created_by(right_of):
    """A store whose Create takes a key that exists as its own where `right_of` says so."""

    class MyOnce(FreeStore):
        def __init__(self):
            super().__init__()
            self.ids = {}

        def Create(self, request, context):
            request_id = dict(context.invocation_metadata()).get("request-id")
            time.sleep(self.write_s)
            with self.lock:
                if request.key not in self.values:
                    self.values[request.key] = request.value
                    self.ids[request.key] = request_id
                elif not right_of(self.ids[request.key], request_id):
                    context.abort(grpc.StatusCode.ALREADY_EXISTS, "this key has a value")
            return pb.CreateResponse()

    return MyOnce


right("10.once")(created_by(lambda theirs, mine: mine is not None and theirs == mine))
known("10.once", "sent again, ended with ALREADY_EXISTS")(created_by(lambda *_: False))
known("10.once", "it is another client's")(created_by(lambda *_: True))
known("10.once", "have no id in common")(created_by(lambda theirs, mine: theirs == mine))


@known("10.once", "with the lock held, after the disk")
class NotesAfterwards(FreeStore):
    def __init__(self):
        super().__init__()
        self.ids = set()

    def Create(self, request, context):
        pair = request.key, dict(context.invocation_metadata()).get("request-id")
        if pair[1] is None or pair not in self.ids:
            super().Create(request, context)
            self.ids.add(pair)
        return pb.CreateResponse()


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


# ---- 12: channels ------------------------------------------------------------------------------


@right("12.spread")
def with_the_option_of_the_channel(addresses):
    return grpc.insecure_channel(
        "ipv4:" + ",".join(addresses), options=(("grpc.lb_policy_name", "round_robin"),)
    )


# ---- 14: a key that is created once, late writes ------------------------------------------------


@right("14.create_if_absent")
def by_create_revision(stub, key, value):
    """The idiom of etcd's own clients."""
    absent = etcd_pb2.Compare(key=key, target="CREATE", result="EQUAL", create_revision=0)
    read = etcd_pb2.RequestOp(request_range=etcd_pb2.RangeRequest(key=key))
    put = etcd_pb2.RequestOp(request_put=etcd_pb2.PutRequest(key=key, value=value))
    return stub.Txn(etcd_pb2.TxnRequest(compare=[absent], success=[put], failure=[read])).succeeded


# ---- 16: a knee, a p99 --------------------------------------------------------------------------


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
