"""A lesson whose exercises are solved runs the learner's code, and marks it as theirs."""

import re
from pathlib import Path

import nbformat
import pytest
from lessons import long_but_for, texts_of

from kvstore.course.lessons.lesson_16.greeter import greeter
from tools.run_notebooks import execute

FOLDER = Path(__file__).parent.parent / "notebooks"
KEPT = {
    "01_blocking": "your one_by_one",
    "02_futures": "your send_all",
    "03_bounded": "your bounded",
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
class Store(kvstore_pb2_grpc.KeyValueServiceServicer):
    def __init__(self, disk, values):
        self.disk, self.values = disk, values
        self.locks = {key: threading.Lock() for key in values}

    def Retrieve(self, request, context):
        if request.key not in self.values:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        self.disk.read(request.key)
        return kvstore_pb2.RetrieveResponse(value=self.values[request.key])

    def Update(self, request, context):
        if request.key not in self.values:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        with self.locks[request.key]:
            self.disk.write(request.key)
            self.values[request.key] = request.value
        return kvstore_pb2.UpdateResponse()
""",
        "do-serve": """
def serve(disk, values, threads):
    server = grpc.server(ThreadPoolExecutor(threads))
    kvstore_pb2_grpc.add_KeyValueServiceServicer_to_server(Store(disk, values), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port
""",
        "do-add": """
def add_one(stub, counter, version):
    while True:
        read = stub.Retrieve(kvstore_pb2.RetrieveRequest(key=key_of(counter, version)))
        value, version = b"%d" % (int(read.value) + 1), version + 1
        try:
            stub.Create(kvstore_pb2.CreateRequest(key=key_of(counter, version), value=value))
            return version
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
""",
    },
    "05_pipelined": {
        "do-window": """
def reads_in_a_window(stub, keys, window):
    values, free = [None] * len(keys), threading.Semaphore(window)

    def requests():
        for place, key in enumerate(keys):
            free.acquire()
            kinds = bytes([OPERATION_KIND_RETRIEVE])
            yield PipelineRequest(id=place, kinds=kinds, keys=[key])

    for reply in stub.Pipeline(requests()):
        if reply.values:
            values[reply.id] = reply.values[0]
        free.release()
    return values
"""
    },
    "06_saturation": {
        "do-channels": """
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
}
"""The cells that a learner fills, by lesson; what follows the stub in such a cell stays."""

MARKED = {
    "01_blocking": ["reads, one at a time, yours: "],
    "02_futures": ["Operations per second: yours ", "reads, all at once, yours: "],
    "03_bounded": ["Operations per second: yours ", "one lock, 100 in flight, yours: "],
    "04_server": ["Operations per second: yours "],
    "05_pipelined": ["Operations per second: yours ", "no disk, one stream, yours: "],
    "07_threads_and_coroutines": ["Operations per second: yours "],
}
"""What a solved lesson says below its figures: the learner's mark, and their rung of the ladder."""

pytestmark = pytest.mark.slow


def solved(name: str, folder: Path, answers: dict[str, str] | None = None) -> Path:
    answers = answers or SOLVED[name]
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    for cell in notebook.cells:
        if cell.get("id") in answers:
            _, _, after = cell.source.partition("\n\n\n")
            cell.source = f"{answers[cell.id]}\n\n{after}"
    path = folder / f"{name}.ipynb"
    nbformat.write(notebook, path)
    return path


def shown_by(path: Path, folder: Path, monkeypatch) -> str:
    monkeypatch.setenv("COURSE_MODE", "fast")
    monkeypatch.setenv("COURSE_PROGRESS", str(folder / "progress.sqlite3"))
    done = execute(path)
    assert done.error is None
    return "\n".join([texts_of(done), *(claim.sentence for claim in done.claims)])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", long_but_for("03_bounded", SOLVED))
def test_a_solved_lesson_measures_the_learners_code(name, tmp_path, monkeypatch):
    shown = shown_by(solved(name, tmp_path), tmp_path, monkeypatch)

    assert "has not passed its check" not in shown
    if name == "06_saturation":  # its run shows a claim in place of a target
        assert "two connections (yours) gave" in shown
        return
    if name in KEPT:
        assert KEPT[name] in shown
        return
    targets = [line for line in shown.splitlines() if line.startswith("Target of")]
    assert targets
    assert not [line for line in targets if "by the course's" in line]
    assert not [line for line in targets if "0.00 of the throughput" in line]
    assert [mark for mark in MARKED[name] if mark not in shown] == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_lesson_16_measures_the_learners_service_with_the_learners_search(tmp_path, monkeypatch):
    with greeter(work_s=0.010, workers=1) as theirs:
        own = f"""
ADDRESS = "{theirs.address}"
METHOD = "greeter.v1.Greeter/Hello"
REQUESTS = [{{"name": "Ada"}}]
"""
        search = """
def highest_rate(meets, low, high):
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if meets(middle) else (low, middle)
    print("the learner's search ended")
    return low
"""
        answers = {"own-service": own, "answer-rate": search}
        shown = shown_by(solved("16_your_own_service", tmp_path, answers), tmp_path, monkeypatch)

    assert f"A service answers at {theirs.address}" in shown
    assert "from here on, the runs have your `highest_rate`" in shown
    after = shown.rpartition("the learner's search ended")[2]
    found_per_s = int(re.search(r"The highest rate: ([\d,]+) calls/s", after)[1].replace(",", ""))
    assert found_per_s < 150  # one worker with 10 ms; the course's service serves 300


ALSO_SOLVED = {
    "10_retries": (
        {
            "do-pause": """
def full_jitter(failures, first_s, most_s, draw):
    return draw() * min(most_s, first_s * 2 ** (failures - 1))
"""
        },
        ["full jitter (yours)"],
    ),
    "11_tails": (
        {
            "do-hedged": """
async def hedged(first, second, request, after_s):
    waiting = {asyncio.ensure_future(first.Retrieve(request))}
    done, waiting = await asyncio.wait(waiting, timeout=after_s)
    if not done:
        waiting = {*waiting, asyncio.ensure_future(second.Retrieve(request))}
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for call in waiting:
        call.cancel()
    return done.pop().result()
"""
        },
        ["quiet, hedged (yours)", "busy, hedged (yours)"],
    ),
}
"""Answers that make runs which a figure compares, and their names in it."""


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ALSO_SOLVED)
def test_a_figure_names_the_runs_that_the_learners_code_made(name, tmp_path, monkeypatch):
    answers, marks = ALSO_SOLVED[name]
    shown = shown_by(solved(name, tmp_path, answers), tmp_path, monkeypatch)

    assert [mark for mark in marks if mark not in shown] == []
