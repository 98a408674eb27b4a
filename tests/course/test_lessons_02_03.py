"""Lessons 02 and 03: what their exercises accept."""

import math
import time

import pytest

from kvstore.course.exercises import find
from kvstore.course.exercises.grading import judged
from kvstore.course.lessons.lesson_02 import exercises as exercises_02
from kvstore.course.lessons.lesson_02 import exercises_client as lesson_02_client
from kvstore.course.lessons.lesson_03 import exercises as exercises_03
from kvstore.course.lessons.lesson_03 import exercises_client as lesson_03_client

# ---- right answers in another style --------------------------------------------------------------


def test_a_list_of_all_requests_is_not_called_a_wave():
    verdict = judged(find("03.bounded"), lesson_03_client._takes_all_first)

    assert "queue of your own" in verdict.message
    assert "waves" not in verdict.message


def test_a_call_sent_twice_is_seen_however_late_its_second_sending_comes():
    def sends_again_after_the_end(stub, operations, in_flight):
        operations = list(operations)
        lesson_02_client.send_all(stub, operations)
        time.sleep(0.5)
        return lesson_02_client.send_all(stub, operations)

    verdict = judged(find("02.send_all"), sends_again_after_the_end)

    assert verdict.outcome == "not yet"
    assert "send each one once" in verdict.message


# ---- references beside slow, obvious ones --------------------------------------------------------


@pytest.mark.parametrize("sent", [math.inf, 5.0, 10.0, 40.0])
@pytest.mark.parametrize("k", [1, 2, 7, 50])
def test_the_latency_of_the_kth_call_is_that_of_a_queue_walked_through(k, sent):
    free_s = 0.0
    for call in range(k):
        sent_s = call / sent
        free_s = max(free_s, sent_s) + 1 / 10.0

    assert exercises_02.latency_of_kth(k, sent, 10.0) == pytest.approx(free_s - sent_s)


def test_memory_is_full_when_the_backlog_filled_it_second_by_second():
    memory_mb, seconds = 100.0, 0
    while memory_mb < 500.0:
        memory_mb, seconds = memory_mb + 0.05 * (1000 - 800), seconds + 1

    assert exercises_02.seconds_until_full(500, 100, 50, 1000, 800) == pytest.approx(seconds)
    assert exercises_02.seconds_until_full(500, 100, 50, 800, 800) == math.inf


@pytest.mark.parametrize("target", [1.0, 25.0, 510.0, 1000.0])
def test_in_flight_for_is_the_first_number_that_reaches_the_target(target):
    n = 1
    while n / 0.050 < target - 1e-9:
        n += 1

    assert exercises_03.in_flight_for(target, 0.040, 0.010, 1000.0) == n
    assert exercises_03.in_flight_for(1000.1, 0.040, 0.010, 1000.0) == math.inf


def test_a_wrong_function_is_shown_the_smallest_input_and_its_mistake():
    verdict = judged(find("02.seconds_until_full"), exercises_02._no_inf_when_equal)

    assert (
        "With `ceiling_mb=2, base_mb=1, kb_per_call=1, sent_per_s=0, answered_per_s=0`"
        in verdict.message
    )  # λ = X = 0
    assert "ZeroDivisionError" in verdict.message
    assert "When λ = X" in verdict.message


def test_a_right_function_in_another_style_is_right():
    def mine(ceiling_mb, base_mb, kb_per_call, sent_per_s, answered_per_s):
        room_kb = 1000 * (ceiling_mb - base_mb)
        more = max(0.0, sent_per_s - answered_per_s) * kb_per_call
        return room_kb / more if more else float("inf")

    assert judged(find("02.seconds_until_full"), mine).passed
