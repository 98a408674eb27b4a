"""Exercises of lessons 02 to 07: more right answers in other styles, and mutants of references.

Right answers that need a server of their own stand beside the tests of their lesson. The mutants
come from `tools/mutants.py`, which changes references with an established mutation tool.
"""

import json
import math
from fractions import Fraction
from itertools import accumulate, count
from pathlib import Path

import pytest

from kvstore.client.messages import create, retrieve
from kvstore.course.exercises import every, find
from kvstore.course.exercises.grading import judged
from kvstore.course.lessons.lesson_04.lost_update import version
from tools import mutants

MUTANTS = json.loads((Path(__file__).parent / "mutants.json").read_text("utf-8"))

# hundreds of drawn inputs, and real calls
pytestmark = pytest.mark.slow


def increment_recursively(counter, number=0):
    answer = yield retrieve(version(counter, number))
    value = b"%d" % (int(answer.value) + 1)
    answer = yield create(version(counter, number + 1), value)
    if answer.status != "OK":
        yield from increment_recursively(counter, number + 1)


def increment_in_a_while(counter):
    number, done = 0, False
    while not done:
        value = int((yield retrieve(version(counter, number))).value)
        done = (yield create(version(counter, number + 1), str(value + 1).encode())).status == "OK"
        number += 1


def increment_looking_ahead(counter):
    """It reads on until there is no later version, and creates that one."""
    number = 0
    while True:
        newest = yield retrieve(version(counter, number))
        while (later := (yield retrieve(version(counter, number + 1)))).status == "OK":
            newest, number = later, number + 1
        value = b"%d" % (int(newest.value) + 1)
        if (yield create(version(counter, number + 1), value)).status == "OK":
            return


def committed_by_sorting(acknowledged):
    return [
        sum(1 for a, b in zip(sorted(set(acknowledged[: n + 1])), count(1), strict=False) if a == b)
        for n in range(len(acknowledged))
    ]


def committed_with_a_heap(acknowledged):
    seen, found = {0}, []
    for entry in acknowledged:
        seen |= {entry}
        found.append(next(n for n in count() if n + 1 not in seen))
    return found


def climb_in_fractions(users, climb_s, threads, wait_s):
    full = min(Fraction(1), Fraction(threads) / users)
    mean = users * full * full / 2 + min(threads, users) * (1 - full)
    return float(mean * Fraction(climb_s) / Fraction(wait_s))


RIGHT = {
    "02.latency_of_kth": (
        lambda k, sent, answered: max(k / answered - (k - 1) / sent, 1 / answered),
        lambda k, sent, answered: 1 / answered + (k - 1) * max(0.0, 1 / answered - 1 / sent),
        lambda k, sent, answered: (
            1 / answered
            if sent <= answered
            else sum([1 / answered] * k) - sum([1 / sent] * (k - 1))
        ),
    ),
    "02.seconds_until_full": (
        lambda c, b, kb, sent, x: math.inf if sent <= x else 1e3 * (c - b) / (kb * (sent - x)),
        lambda c, b, kb, sent, x: (
            ((c - b) / kb * 1e3) * (sent - x) ** -1 if sent > x else float("inf")
        ),
    ),
    "03.hot_key": (
        lambda shares, part, s: 1 / (max(shares.values()) * part * s) if part else math.inf,
        lambda shares, part, s: min(
            (1 / (share * part * s) for share in shares.values() if share * part > 0),
            default=math.inf,
        ),
        lambda shares, part, s: (
            (sorted(shares.values())[-1] * part) ** -1 / s if part > 0 else math.inf
        ),
    ),
    "03.in_flight_for": (
        lambda x, disk, trip, most: (
            math.inf if x > most else math.ceil(round(x * (disk + trip), 9))
        ),
        lambda x, disk, trip, most: (
            -int(-(x * (disk + trip) - 1e-9) // 1) if x <= most else float("inf")
        ),
        lambda x, disk, trip, most: (
            next(n for n in count(1) if n >= x * (disk + trip) - 1e-9) if x <= most else math.inf
        ),
    ),
    "04.where_they_are": (
        lambda n, c: [n - min(n, c), min(n, c) - 1, 1],
        lambda n, c: (max(0, n - c), sorted([n, c])[0] - 1, 1),
    ),
    "04.increment": (increment_recursively, increment_in_a_while, increment_looking_ahead),
    "05.commit_index": (committed_by_sorting, committed_with_a_heap),
    "05.in_order": (lambda calls: list(accumulate(calls["done_s"], max)),),
    "07.calls_in_climb": (
        climb_in_fractions,
        lambda n, t, c, w: (min(n, c) * t - min(n, c) ** 2 * t / (2 * n)) / w,
    ),
}
"""With those beside the tests of the lessons, three for each exercise."""


@pytest.mark.parametrize(
    ("exercise", "answer"), [(exercise, answer) for exercise in RIGHT for answer in RIGHT[exercise]]
)
def test_a_right_answer_in_another_style_passes(exercise, answer):
    verdict = judged(find(exercise), answer)

    assert verdict.passed, verdict.message


@pytest.mark.parametrize(
    ("exercise", "source"), [(name, each) for name, kept in MUTANTS.items() for each in kept]
)
def test_a_mutant_of_the_reference_is_rejected(exercise, source):
    answer = mutants.answer_from(find(exercise), source)

    assert judged(find(exercise), answer).outcome == "not yet", source


def test_every_exercise_has_mutants():
    assert {name for name in every() if name[:2] in ("02", "03", "04", "05", "06", "07")} <= set(
        MUTANTS
    )
