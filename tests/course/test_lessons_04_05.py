"""Lessons 04 and 05: what their exercises accept."""

import queue
import threading
from concurrent import futures

import grpc
import numpy as np
import pytest

from kvstore.course.checks import solution
from kvstore.course.exercises.grading import judged
from kvstore.course.lessons.lesson_04 import exercises as lesson_04
from kvstore.course.lessons.lesson_04 import exercises_server as lesson_04_server
from kvstore.course.lessons.lesson_05 import exercises as lesson_05
from kvstore.v1.kvstore_pb2 import PipelineRequest, RetrieveResponse, UpdateResponse

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
    before, threads = set(futures.thread._threads_queues), set(threading.enumerate())
    keeps = lesson_04_server.serving_with(lesson_04_server._KeepsTheLock)

    assert not judged(lesson_04_server.SERVER, keeps).passed
    made = set(threading.enumerate()) - threads  # other tests may have left some
    stuck = [t for t in made if t.name.startswith("ThreadPool") and not t.daemon]
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
