"""Lessons 04 and 05: their exercises, the conditions of their claims, and what their texts say."""

import dataclasses
import json
import queue
import re
import threading
from concurrent import futures
from pathlib import Path

import grpc
import made_runs
import numpy as np
import pytest

from kvstore.course.exercises import lesson_04, lesson_04_server, lesson_05
from kvstore.course.exercises.grading import judged, solution
from kvstore.course.questions import lesson_04 as lesson_04_further
from kvstore.course.questions import lesson_04 as questions_04
from kvstore.course.questions import lesson_05 as lesson_05_further
from kvstore.course.questions import lesson_05 as questions_05
from kvstore.measure.recorder import Cpu
from kvstore.protocol import StationTimes
from kvstore.v1.kvstore_pb2 import PipelineRequest, RetrieveResponse, UpdateResponse

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def text_of(*names):
    """The Markdown of notebooks, as one text with single spaces."""
    cells = [cell for name in names for cell in json.loads((NOTEBOOKS / name).read_text())["cells"]]
    text = " ".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"\s+", " ", text)


def all_of(lesson):
    """The names of the core notebook of a lesson, and of its further ones."""
    return [
        str(path.relative_to(NOTEBOOKS))
        for folder in (NOTEBOOKS, NOTEBOOKS / "further")
        for path in sorted(folder.glob(f"{lesson}_*.ipynb"))
    ]


# 04.server ------------------------------------------------------------------------------------


class GuardedLocks(lesson_04_server.Store):
    """A lock for each key in a plain dictionary, behind a lock of its own."""

    def __init__(self, disk, values):
        self.disk, self.values = disk, values
        self.guard, self.by_key = threading.Lock(), {}

    def Update(self, request, context):
        if request.key not in self.values:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        with self.guard:
            lock = self.by_key.setdefault(request.key, threading.RLock())
        lock.acquire()
        try:
            self.disk.write(request.key)
            self.values[request.key] = request.value
            return UpdateResponse()
        finally:
            lock.release()


class BusyKeys(lesson_04_server.Store):
    """A set of the keys that are being written, and a condition in place of locks."""

    def __init__(self, disk, values):
        self.disk, self.values = disk, values
        self.busy, self.changed = set(), threading.Condition()

    def Update(self, request, context):
        if request.key not in self.values:
            context.set_code(grpc.StatusCode.NOT_FOUND)
            return UpdateResponse()
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
        return UpdateResponse()


class LockOfEachValue(lesson_04_server.Store):
    """Each entry is a value with its lock; reads use `get`."""

    def __init__(self, disk, values):
        self.disk = disk
        self.entries = {key: [value, threading.Semaphore(1)] for key, value in values.items()}

    def Retrieve(self, request, context):
        entry = self.entries.get(request.key)
        if entry is None:
            context.set_code(grpc.StatusCode.NOT_FOUND)
            return RetrieveResponse()
        self.disk.read(request.key)
        return RetrieveResponse(value=entry[0])

    def Update(self, request, context):
        entry = self.entries.get(request.key)
        if entry is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "")
        with entry[1]:
            self.disk.write(request.key)
            entry[0] = request.value
        return UpdateResponse()


@pytest.mark.parametrize("store", [GuardedLocks, BusyKeys, LockOfEachValue])
def test_a_server_in_another_style_passes(store):
    verdict = judged(lesson_04_server.SERVER, lesson_04_server.serving_with(store))

    assert verdict.passed, verdict.message


@pytest.mark.parametrize(("serve", "said"), lesson_04_server.MORE_WRONG_SERVERS)
def test_more_wrong_servers_are_rejected(serve, said):
    verdict = judged(lesson_04_server.SERVER, serve)

    assert "not yet" == verdict.outcome
    assert said in verdict.message


def test_a_thread_that_a_learner_leaves_waiting_does_not_keep_python_from_ending():
    before = set(futures.thread._threads_queues)
    keeps = lesson_04_server.serving_with(lesson_04_server._KeepsTheLock)

    assert not judged(lesson_04_server.SERVER, keeps).passed
    stuck = [t for t in threading.enumerate() if t.name.startswith("ThreadPool") and not t.daemon]
    assert not stuck
    assert set(futures.thread._threads_queues) <= before


def test_the_solution_shows_the_class_that_the_function_starts(capsys):
    solution("04.server")
    shown = capsys.readouterr().out

    assert shown.index("class Store") < shown.index("with self.locks") < shown.index("def serve")


# The exercise items of corrections.md ------------------------------------------------------------


def test_a_counter_that_guesses_the_value_from_the_number_of_the_version_is_rejected():
    verdict = judged(lesson_04.INCREMENT, lesson_04.adds_the_version)

    assert "not yet" == verdict.outcome


def test_the_right_numbers_in_another_order_have_a_message_of_their_own():
    for order in ((2, 1, 0), (1, 0, 2), (1, 2, 0)):
        verdict = judged(
            lesson_04.WHERE_THEY_ARE,
            lambda n, c, order=order: tuple(lesson_04.where_they_are(n, c)[at] for at in order),
        )
        assert "in another order" in verdict.message


def test_send_four_receive_four_is_rejected():
    verdict = judged(lesson_05.READS_IN_A_WINDOW, lesson_05._in_turns)

    assert "in turns" in verdict.message


def test_a_reply_that_waits_for_the_one_before_it_only_has_a_message_of_its_own():
    def answer(calls):
        done = list(calls["done_s"])
        return [max(done[at], done[max(at - 1, 0)]) for at in range(len(done))]

    verdict = judged(lesson_05.IN_ORDER_REPLIES, answer)

    assert "one earlier reply only" in verdict.message
    assert "51 ms" not in verdict.message


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        (lesson_05.IN_ORDER_REPLIES, lambda calls: calls["done_s"].cummax()),
        (
            lesson_05.IN_ORDER_REPLIES,
            lambda calls: [max(calls["done_s"][: at + 1]) for at in range(len(calls))],
        ),
        (
            lesson_05.IN_ORDER_REPLIES,
            lambda calls: np.maximum.accumulate(calls["done_s"].to_numpy()),
        ),
        (
            lesson_05.COMMIT_INDEX,
            lambda entries: [
                next(i for i in range(20) if i + 1 not in entries[: n + 1])
                for n in range(len(entries))
            ],
        ),
        (lesson_04.WHERE_THEY_ARE, lambda n, c: [max(0, n - c), min(n - 1, c - 1), 1]),
        (lesson_04.RATE, lambda n, c, s, how: (1 if how == "global" else min(n, c)) / s),
    ],
)
def test_a_right_answer_in_another_style_passes(exercise, answer):
    verdict = judged(exercise, answer)

    assert verdict.passed, verdict.message


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


def test_the_references_agree_with_slow_and_obvious_ones():
    for in_flight in range(1, 40):
        for threads in range(1, 20):
            where = lesson_04.where_they_are(in_flight, threads)
            assert slow_where(in_flight, threads) == where
            assert (threads - where[1] - 1 if where[0] else 0) == 0  # no thread idle in a queue
            with_a_thread = sum(where[1:])
            assert with_a_thread / 0.5 == lesson_04.rate_per_s(in_flight, threads, 0.5, "per_key")


# 05.reads_in_a_window -----------------------------------------------------------------------------


def with_a_queue(stub, keys, window):
    """The loop over the replies puts the next request into a queue."""
    sending, values, rest = queue.SimpleQueue(), {}, iter(enumerate(keys))

    def put_next():
        number, key = next(rest, (None, None))
        sending.put(
            None if key is None else PipelineRequest(id=number + 1, kinds=b"\x02", keys=[key])
        )

    for _ in range(window):
        put_next()
    for reply in stub.Pipeline(iter(sending.get, None)):
        values[reply.id - 1] = reply.values[0] if reply.statuses == b"\x00" else None
        put_next()
    return [values[number] for number in range(len(keys))]


def with_a_condition(stub, keys, window):
    """A set of open ids, guarded by a condition."""
    open_ids, changed, values = set(), threading.Condition(), [None] * len(keys)

    def requests():
        for number, key in enumerate(keys):
            with changed:
                changed.wait_for(lambda: len(open_ids) < window)
                open_ids.add(number)
            yield PipelineRequest(id=number, kinds=b"\x02", keys=[key])

    for reply in stub.Pipeline(requests()):
        values[reply.id] = next(iter(reply.values), None)
        with changed:
            open_ids.discard(reply.id)
            changed.notify()
    return values


def with_tokens(stub, keys, window):
    """Places in the window are tokens in a queue; ids count down."""
    tokens, places = queue.Queue(), {}
    for _ in range(window):
        tokens.put(None)

    class Requests:
        def __init__(self):
            self.left = list(range(len(keys)))

        def __iter__(self):
            return self

        def __next__(self):
            if not self.left:
                raise StopIteration
            tokens.get()
            place = self.left.pop()
            return PipelineRequest(id=place, kinds=b"\x02", keys=[keys[place]])

    for reply in stub.Pipeline(Requests()):
        places[reply.id] = bytes(reply.values[0]) if len(reply.values) else None
        tokens.put(None)
    return [places[place] for place in range(len(keys))]


@pytest.mark.parametrize("client", [with_a_queue, with_a_condition, with_tokens])
def test_a_stream_client_in_another_style_passes(client):
    verdict = judged(lesson_05.READS_IN_A_WINDOW, client)

    assert verdict.passed, verdict.message


@pytest.mark.parametrize(("client", "said"), lesson_05.MORE_WRONG_CLIENTS)
def test_more_wrong_stream_clients_are_rejected(client, said):
    verdict = judged(lesson_05.READS_IN_A_WINDOW, client)

    assert "not yet" == verdict.outcome
    assert said in verdict.message


# The conditions of the claims: each is false for a made-up run -----------------------------------


def timed(pool_s, lock_s, disk_s=0.01, *, kind="retrieve", in_flight=4, rounds=5):
    """`in_flight` callers whose calls all spend these times in the server."""
    whole_s = pool_s + lock_s + disk_s
    stations = StationTimes(pool_s, lock_s, disk_s, 0.0)
    calls = [
        (turn * whole_s, (turn + 1) * whole_s, kind, "OK", stations)
        for turn in range(rounds)
        for _ in range(in_flight)
    ]
    return made_runs.run_of(calls, in_flight=in_flight)


def with_cpu(client_s, server_s, count=4):
    """A run whose processes took this CPU time for each call."""
    run = made_runs.closed_loop(1, 100.0, count)
    cpu = [Cpu(count * each_s, 0.0) for each_s in (client_s, server_s)]
    return dataclasses.replace(run, client_cpu=cpu[0], server_cpu=cpu[1])


def test_waiting_in_the_pools_queue():
    assert questions_04.waits_in_the_queue(timed(0.03, 0.0))
    assert not questions_04.waits_in_the_queue(timed(0.005, 0.0))


def test_the_queue_moved():
    at_the_pool, at_the_lock = timed(0.2, 0.0), timed(0.0, 0.2)

    assert questions_04.queue_moved(at_the_pool, at_the_lock)
    assert not questions_04.queue_moved(at_the_pool, at_the_pool)
    assert not questions_04.queue_moved(at_the_lock, at_the_lock)


def test_reads_wait_for_a_thread():
    assert questions_04.reads_wait_for_a_thread(timed(0.3, 0.0))
    assert not questions_04.reads_wait_for_a_thread(timed(0.0, 0.3))


def test_the_pool_makes_reads_slow():
    assert questions_04.pool_makes_reads_slow(timed(0.3, 0.0), timed(0.0, 0.0))
    assert not questions_04.pool_makes_reads_slow(timed(0.005, 0.0), timed(0.0, 0.0))


def test_few_cores():
    assert lesson_04_further.few_cores(with_cpu(0.001, 0.001))
    assert not lesson_04_further.few_cores(with_cpu(0.001, 0.05))


def test_one_connection():
    one = made_runs.closed_loop(1, 100.0)

    assert questions_05.on_one_connection(dataclasses.replace(one, connections=1))
    assert not questions_05.on_one_connection(
        dataclasses.replace(one, connections=1), dataclasses.replace(one, connections=8)
    )


def test_a_stream_is_cheaper():
    assert questions_05.stream_is_cheaper(with_cpu(2e-4, 3e-4), with_cpu(1e-4, 1e-4))
    assert not questions_05.stream_is_cheaper(with_cpu(1e-4, 1e-4), with_cpu(1e-4, 1e-4))


def test_a_cost_that_does_not_fit():
    cost = questions_05.batch_ladder.Cost(100e-6, 1e-6)

    assert questions_05.cost_fits(cost, with_cpu(130e-6, 50e-6), 32)
    assert not questions_05.cost_fits(cost, with_cpu(400e-6, 50e-6), 32)


def test_a_race_that_pipelining_does_not_win():
    quick, slow = made_runs.closed_loop(1, 1_000.0), made_runs.closed_loop(1, 10.0)

    assert lesson_05_further.pipelined_wins({"pipelined": [quick], "synchronous": [slow]})
    assert not lesson_05_further.pipelined_wins({"pipelined": [slow], "synchronous": [quick]})
    little, much = with_cpu(1e-4, 1e-4), with_cpu(3e-4, 3e-4)
    assert lesson_05_further.less_work({"pipelined": [little], "synchronous": [much]})
    assert not lesson_05_further.less_work({"pipelined": [much], "synchronous": [little]})


# What the texts say (corrections.md) --------------------------------------------------------------


def test_no_text_uses_littles_law_to_find_a_lost_call():
    text = text_of(*all_of("04"))

    assert "holds for *any* set of records" in text
    assert "cannot find a lost call" in text


def test_an_identity_is_not_shown_as_evidence():
    sources = "".join((NOTEBOOKS / name).read_text() for name in all_of("04") + all_of("05"))

    assert "that is all: nothing is left over" not in sources
    assert "keeps L = λ·W" not in sources


@pytest.mark.parametrize("lesson", ["04", "05"])
def test_each_quantity_has_one_symbol(lesson):
    text = text_of(*all_of(lesson))

    assert not re.search(r"\$[^$]*(?<![A-Za-z\\{])d(?![A-Za-z}])[^$]*\$", text)  # CPU time is D_max
    assert "RTT" not in text  # the round trip is R
    take_away = text[text.rindex("Take-away") :]
    assert "X = " not in take_away


def test_the_cpu_time_of_a_whole_process_is_not_called_the_demand_on_the_gil():
    name = "further/04_gil.ipynb"

    assert "is not the demand on the GIL" in text_of(name)
    assert "total_s / one.issued" not in (NOTEBOOKS / name).read_text()


def test_the_published_pipelined_client_is_described_as_it_is():
    text = text_of("05_pipelined.ipynb", "further/05_race.ipynb")

    assert "buffers of TCP" not in text
    assert "is a unary future" in text
    assert "unary calls are multiplexed already" in text
    assert "each call has a goroutine of its own that waits for the reply" in text
