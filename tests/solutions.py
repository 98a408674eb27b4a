"""Lessons whose exercises are solved: by their references, or by code that the lesson keeps."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

KEPT = {
    "01_blocking": "your one_by_one",
    "02_futures": "your send_all",
    "03_bounded": "your bounded",
    "04_server": "40 adds were acknowledged, and the store has 40",
    "05_pipelined": "your window",
    "07_threads_and_coroutines": "Kept in my_code/front.py",
    "08_why_80_percent_busy_is_slow": "your open_loop",
    "11_tails": "Kept in my_code/clients.py",
    "12_beyond_one_machine": "Kept in my_code/balance.py",
    "13_which_server": "Kept in my_code/balance.py",
    "09_overload": "Kept in my_code/limits.py",
    "10_retries": "Kept in my_code/limits.py",
    "16_your_own_service": "Kept in my_code/laws.py",
}
"""The lessons whose runs take the learner's code from `my_code/`, and what their figures name."""
SOLVED = {
    "01_blocking": {
        "read-all": """
def read_all(stub, keys, deadline_s):
    values = []
    for key in keys:
        try:
            values.append(stub.Retrieve(pb.RetrieveRequest(key=key), timeout=deadline_s).value)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            values.append(None)
    return values
"""
    },
    "02_futures": {
        "answer-send-all": """
def send_all(stub, requests):
    ended, sent = queue.SimpleQueue(), 0
    for request in requests:
        call = method_of(stub, request).future(request)
        call.add_done_callback(lambda call: ended.put(call.code()))
        sent += 1
    return [ended.get() for _ in range(sent)]
"""
    },
    "03_bounded": {
        "answer-bounded": """
def bounded(stub, requests, in_flight):
    free = threading.Semaphore(in_flight)
    for request in requests:
        free.acquire()
        call = method_of(stub, request).future(request)
        call.add_done_callback(lambda _: free.release())
    for _ in range(in_flight):
        free.acquire()
""",
        "answer-store": """
class Store(KeyValueServiceServicer):
    def __init__(self):
        self.values, self.lock = {}, threading.Lock()

    def Create(self, request, context):
        time.sleep(0.050)
        with self.lock:
            if request.key in self.values:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, "this key has a value")
            self.values[request.key] = request.value
        return pb.CreateResponse()

    def Retrieve(self, request, context):
        time.sleep(0.010)
        with self.lock:
            if request.key not in self.values:
                context.abort(grpc.StatusCode.NOT_FOUND, "this key has no value")
            return pb.RetrieveResponse(value=self.values[request.key])

    def Update(self, request, context):
        time.sleep(0.050)
        with self.lock:
            if request.key not in self.values:
                context.abort(grpc.StatusCode.NOT_FOUND, "this key has no value")
            self.values[request.key] = request.value
        return pb.UpdateResponse()

    def Delete(self, request, context):
        time.sleep(0.050)
        with self.lock:
            self.values.pop(request.key, None)
        return pb.DeleteResponse()
""",
    },
    "04_server": {
        "do-servicer": """
class KeyLocks(KeyValueServiceServicer):
    def __init__(self, disk, values):
        self.disk, self.values = disk, values
        self.locks = {key: threading.Lock() for key in values}

    def Retrieve(self, request, context):
        if request.key not in self.values:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        self.disk.read(request.key)
        return pb.RetrieveResponse(value=self.values[request.key])

    def Update(self, request, context):
        if request.key not in self.values:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        with self.locks[request.key]:
            self.disk.write(request.key)
            self.values[request.key] = request.value
        return pb.UpdateResponse()


def serve_key_locks(disk, values, threads):
    server = grpc.server(ThreadPoolExecutor(threads))
    add_KeyValueServiceServicer_to_server(KeyLocks(disk, values), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port
""",
        "do-add": """
def add_one(stub, counter, version):
    while True:
        read = stub.Retrieve(pb.RetrieveRequest(key=key_of(counter, version)))
        value, version = b"%d" % (int(read.value) + 1), version + 1
        try:
            stub.Create(pb.CreateRequest(key=key_of(counter, version), value=value))
            return version
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
""",
    },
    "05_pipelined": {
        "answer-window": """
def window(stub, requests, in_flight):
    free = threading.Semaphore(in_flight)

    def sent():
        for request in requests:
            free.acquire()
            yield request

    for _ in stub.Pipeline(sent()):
        free.release()
""",
        "answer-batches": """
def batches(keys, k):
    for place in range(0, len(keys), k):
        part = keys[place : place + k]
        kinds = bytes([pb.OPERATION_KIND_RETRIEVE]) * len(part)
        yield pb.PipelineRequest(id=place, kinds=kinds, keys=part)
""",
    },
    "06_saturation": {
        "answer-channels": """
def own_connections(address, count):
    options = [("grpc.use_local_subchannel_pool", 1)]
    return [grpc.insecure_channel(address, options=options) for _ in range(count)]
"""
    },
    "07_threads_and_coroutines": {
        "do-front": """
class Front(kvstore_pb2_grpc.KeyValueServiceServicer):
    def __init__(self, stub):
        self.stub = stub

    async def Retrieve(self, request, context):
        try:
            return await self.stub.Retrieve(request, timeout=context.time_remaining())
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details())
""",
        "do-serve": """
async def serve(stub):
    server = grpc.aio.server()
    kvstore_pb2_grpc.add_KeyValueServiceServicer_to_server(Front(stub), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, port
""",
        "do-ask": """
async def ask_all(stub, keys):
    async def one(key):
        try:
            return (await stub.Retrieve(kvstore_pb2.RetrieveRequest(key=key))).value
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            return None

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(key)) for key in keys]
    return [task.result() for task in tasks]
""",
    },
    "08_why_80_percent_busy_is_slow": {
        "answer-sender": """
def open_loop(stub, requests, due_times):
    start, sent, ended = time.perf_counter(), 0, queue.SimpleQueue()
    for due_s, request in zip(due_times, requests):
        time.sleep(max(0.0, start + due_s - time.perf_counter()))
        call = method_of(stub, request).future(request)
        call.add_done_callback(
            lambda _, due_s=due_s: ended.put(time.perf_counter() - start - due_s)
        )
        sent += 1
    return [ended.get() for _ in range(sent)]
""",
        "answer-queue": """
def response_times(arrivals_s, work_s, workers=1):
    free_s, times_s = [0.0] * workers, []
    for arrival_s, work in zip(arrivals_s, work_s):
        end_s = max(arrival_s, heapq.heappop(free_s)) + work
        heapq.heappush(free_s, end_s)
        times_s.append(end_s - arrival_s)
    return times_s
""",
    },
    "09_overload": {
        "do-shed": """
class Shed(grpc.ServerInterceptor):
    def __init__(self, limit):
        self.free = threading.Semaphore(limit)

    def intercept_service(self, continuation, details):
        handler = continuation(details)

        def answer(request, context):
            if not self.free.acquire(blocking=False):
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls")
            try:
                return handler.unary_unary(request, context)
            finally:
                self.free.release()

        return grpc.unary_unary_rpc_method_handler(
            answer, handler.request_deserializer, handler.response_serializer
        )
"""
    },
    "16_your_own_service": {
        "answer-knee": """
def knee(levels):
    return min(r for _, _, r in levels) * max(x for _, x, _ in levels)
""",
        "answer-p99": """
def p99_at(rate_per_s, work_s, workers, calls=5_000):
    arrivals_s, at_s = [], 0.0
    for _ in range(calls):
        at_s += random.expovariate(rate_per_s)
        arrivals_s.append(at_s)
    times_s = response_times(arrivals_s, random.choices(work_s, k=calls), workers)
    return sorted(times_s)[int(0.99 * calls)]
""",
    },
    "10_retries": {
        "do-config": """
def retry_config(attempts, first_pause_s, tokens, ratio):
    policy = {
        "maxAttempts": attempts,
        "initialBackoff": f"{first_pause_s}s",
        "maxBackoff": "1s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    return {
        "methodConfig": [{"name": [{}], "retryPolicy": policy}],
        "retryThrottling": {"maxTokens": tokens, "tokenRatio": ratio},
    }
""",
        "do-pause": """
def full_jitter(failures, first_s, most_s, draw):
    return min(most_s, first_s * 2 ** (failures - 1)) * draw()
""",
    },
}
"""The cells that a learner fills, by lesson; what follows the stub in such a cell stays."""


def solved(path: Path, folder: Path, answers: Mapping[str, str] | None = None) -> Path:
    """Write a copy of the lesson with these answers in place of the stubs, by cell.

    Without any, they are those of `SOLVED`, or else the references of the exercises.
    """
    answers = SOLVED.get(path.stem, {}) if answers is None else answers
    notebook = json.loads(path.read_text("utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = "".join(cell["source"])
        if cell["id"] in answers:
            source = f"{answers[cell['id']]}\n\n{source.partition(STUB_ENDS)[2]}"
        lines = source.splitlines()
        for number, exercise, name in [] if answers else _checks(lines):
            find = '__import__("kvstore.course.exercises", fromlist=["find"]).find'
            lines.insert(number, f'{name} = {find}("{exercise}").reference')
        cell["source"] = "\n".join(lines)
    copy = folder / path.name
    copy.write_text(json.dumps(notebook), "utf-8")
    return copy


STUB_ENDS = "\n\n\n"
"""What follows a stub in its cell stays."""


def _checks(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the line of each `check("NN.exercise", name)`, from below, the exercise, the name."""
    for number in reversed(range(len(lines))):
        if call := re.match(r'check\("([\w.]+)", (\w+)\)', lines[number]):
            yield number, call[1], call[2]
