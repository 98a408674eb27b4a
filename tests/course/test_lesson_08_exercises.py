# ruff: noqa: B905 - as learners write it
"""The exercises of lesson 08: wrong answers, and the sentences that they get."""

import queue
import threading
import time
from time import perf_counter, sleep

import pytest

from kvstore.course.exercises import find
from kvstore.course.exercises.client_trials import method_of
from kvstore.course.exercises.grading import judged
from kvstore.course.lessons.lesson_08.exercises_client import OPEN_LOOP, open_loop


def by_gaps(stub, requests, due_times):
    start, before_s, calls = time.perf_counter(), 0.0, []
    ends = queue.SimpleQueue()
    for due_s, request in zip(due_times, requests):
        time.sleep(due_s - before_s)
        before_s = due_s
        call = method_of(stub, request).future(request)
        call.add_done_callback(lambda _, due_s=due_s: ends.put(perf_counter() - start - due_s))
        calls.append(call)
    return [ends.get() for _ in calls]


def from_sending(stub, requests, due_times):
    start, ends, sent = time.perf_counter(), queue.SimpleQueue(), 0
    for due_s, request in zip(due_times, requests):
        time.sleep(max(0, start + due_s - time.perf_counter()))
        sent_s = time.perf_counter()
        call = method_of(stub, request).future(request)
        call.add_done_callback(lambda _, sent_s=sent_s: ends.put(time.perf_counter() - sent_s))
        sent += 1
    return [ends.get() for _ in range(sent)]


def waiting_for_replies(stub, requests, due_times):
    start, times_s = time.perf_counter(), []
    for due_s, request in zip(due_times, requests):
        time.sleep(max(0, start + due_s - time.perf_counter()))
        method_of(stub, request)(request)
        times_s.append(time.perf_counter() - start - due_s)
    return times_s


def at_once(stub, requests, due_times):
    ends = queue.SimpleQueue()
    start = time.perf_counter()
    for due_s, request in zip(due_times, requests):
        call = method_of(stub, request).future(request)
        call.add_done_callback(lambda _, due_s=due_s: ends.put(time.perf_counter() - start - due_s))
    return [ends.get() for _ in due_times]


def last_due_time(stub, requests, due_times):
    start, ends = time.perf_counter(), queue.SimpleQueue()
    for due_s, request in zip(due_times, requests):
        time.sleep(max(0, start + due_s - time.perf_counter()))
        call = method_of(stub, request).future(request)
        call.add_done_callback(lambda _: ends.put(time.perf_counter() - start - due_s))  # noqa: B023
    return [ends.get() for _ in due_times]


def not_waiting_for_the_end(stub, requests, due_times):
    start, times_s = time.perf_counter(), []
    for due_s, request in zip(due_times, requests):
        time.sleep(max(0, start + due_s - time.perf_counter()))
        call = method_of(stub, request).future(request)
        call.add_done_callback(lambda _: times_s.append(0.0))
    return times_s


def negative_sleep(stub, requests, due_times):
    start, ends = time.perf_counter(), queue.SimpleQueue()
    for due_s, request in zip(due_times, requests):
        time.sleep(start + due_s - time.perf_counter())
        call = method_of(stub, request).future(request)
        call.add_done_callback(lambda _, due_s=due_s: ends.put(time.perf_counter() - start - due_s))
    return [ends.get() for _ in due_times]


def polling(stub, requests, due_times):
    start, times_s, changed = perf_counter(), [], threading.Condition()

    def ended(due_s):
        with changed:
            times_s.append(perf_counter() - start - due_s)
            changed.notify()

    for due_s, request in zip(due_times, requests):
        while perf_counter() < start + due_s:
            sleep(0.01)
        call = method_of(stub, request).future(request)
        call.add_done_callback(lambda _, due_s=due_s: ended(due_s))
    with changed:
        changed.wait_for(lambda: len(times_s) == len(due_times))
    return times_s


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (by_gaps, "still in time"),
        (from_sending, "from the *due* time"),
        (waiting_for_replies, "only one was sent"),
        (at_once, "time.sleep"),
        (last_due_time, "end minus the due time"),
        (not_waiting_for_the_end, "you returned"),
        (negative_sleep, "non-negative"),
    ],
)
def test_a_wrong_sender_is_told_what_is_wrong(answer, message):
    verdict = judged(OPEN_LOOP, answer)

    assert "not yet" == verdict.outcome
    assert message in verdict.message


@pytest.mark.parametrize("answer", [open_loop, polling])
def test_a_right_sender_passes(answer):
    assert judged(OPEN_LOOP, answer).passed


def test_workers_that_wait_in_one_line_are_simulated_with_any_other_code():
    def response_times(arrivals_s, work_s, workers=1):
        free, times = [0.0] * workers, []
        for at, work in zip(arrivals_s, work_s):
            first = free.index(min(free))
            free[first] = max(at, free[first]) + work
            times.append(free[first] - at)
        return times

    assert judged(find("08.response_times"), response_times).passed
