"""Lesson 04: where calls wait, the rate of a server, and a counter for many clients."""

import itertools
import random
from typing import Any

from kvstore.client.messages import create, retrieve
from kvstore.course.exercises import Exercise, Verdict, WrongAnswer, not_yet, passed
from kvstore.course.exercises.grading import Drawn
from kvstore.course.lessons.lesson_04.lost_update import (
    History,
    NeverDone,
    Steps,
    compare_and_replace,
    history,
    orders,
    read_then_write,
    version,
)
from kvstore.server import serving

# 04.where_they_are ----------------------------------------------------------------------------


def where_they_are(in_flight: int, threads: int) -> tuple[int, int, int]:
    """Return the calls in the pool's queue, at the lock, and on the disk."""
    with_a_thread = min(in_flight, threads)
    return in_flight - with_a_thread, with_a_thread - 1, 1


def _counts() -> Any:
    from hypothesis import strategies as st

    return st.tuples(st.integers(1, 400), st.integers(1, 100))


WHERE_THEY_ARE = Exercise(
    id="04.where_they_are",
    title="Where are they?",
    hints=(
        "How many calls have a thread? All others are in the pool's queue.",
        "One of the calls with a thread has the lock as well, and is on the disk.",
        "`with_a_thread = min(in_flight, threads)`, and the three numbers add up to `in_flight`.",
    ),
    reference=where_they_are,
    judge=Drawn(
        where_they_are,
        _counts(),
        mistakes=(
            (
                "No call is in the pool's queue: but the calls share a fixed number of threads.",
                lambda n, c: (0, n - 1, 1),
            ),
            (
                "The numbers add up to one call too many: the call on the disk has a thread, too.",
                lambda n, c: (max(n - c, 0), min(n, c), 1),
            ),
            (
                "The lock is held through the disk, so it lets only one call use the disk.",
                lambda n, c: (max(n - c, 0), 0, min(n, c)),
            ),
            (
                "A call that waits for the lock has its thread already, and keeps it.",
                lambda n, c: (n - 1, 0, 1),
            ),
            (
                "With fewer calls than threads, some threads are idle: no number is below zero.",
                lambda n, c: (n - c, c - 1, 1),
            ),
            *(
                (
                    "The three numbers are right, in another order: first the queue, then the "
                    "lock, "
                    "then the disk.",
                    lambda n, c, order=order: tuple(where_they_are(n, c)[place] for place in order),
                )
                for order in itertools.permutations(range(3))
                if order != (0, 1, 2)
            ),
        ),
        same=lambda found, expected: isinstance(found, tuple | list) and tuple(found) == expected,
        right="N - c in the queue, c - 1 at the lock, 1 on the disk. More threads move the calls "
        "from one place to the next; they remove none.",
    ),
)


# 04.increment (further/04_lost_update) ----------------------------------------------------------

START = 41
"""The counter's first value: the number of a version is not its value."""
OTHERS_ADD = 10
"""What the check's own client adds: the next value does not follow from the version's number."""


def _adds_ten(counter: bytes) -> Steps:
    return compare_and_replace(counter, OTHERS_ADD)


def _drawn_orders() -> list[str]:
    """Orders of two and three clients, from short to long. "Z" is the check's own client."""
    draw = random.Random(4)
    drawn = ["".join(draw.choices(names, k=9)) for names in ("ABZ", "AZ", "ABC") * 3]
    return ["A", "AZ", "ZA", "AB", *orders("AZ"), *orders("AB"), "ABCABC", *drawn]


def _judge_increment(answer: Any) -> Verdict:
    with serving(read_delay_s=0, write_delay_s=0, locking="per_key", use_asyncio=True) as server:
        for number, order in enumerate(_drawn_orders()):
            counter = b"judge %d" % number
            try:
                seen = history(server, answer, order, counter, START, {"Z": (_adds_ten, 10)})
            except NeverDone:
                return not_yet(
                    f"in the order {order} it tries again and again: after a refusal, look for a "
                    "*newer* version than the one that you have."
                )
            if seen.lost:
                return not_yet(_why_lost(seen))
    return passed("No increment was lost, in any order. A refused client reads again and counts.")


def _why_lost(seen: History) -> str:
    said = (
        f"in the order {seen.order}, the clients added {seen.counted} to {START}, and the counter "
        f"shows {seen.stored}:"
    )
    own = seen.calls[seen.calls["client"] != "Z"] if len(seen.calls) else seen.calls
    if not len(own):
        return f"{said} your clients made no call."
    if "retrieve" not in set(own.groupby("client").head(1)["operation"]):
        return f"{said} the value of a new version is the latest value plus one: read that first."
    if "update" in set(own["operation"]):
        return f"{said} Update overwrites whatever is there. Which operation refuses to?"
    if "ALREADY_EXISTS" in set(own.groupby("client").tail(1)["answer"]):
        return f"{said} a client was refused, and gave up. Its increment is missing: try again."
    return f"{said} a client was refused, and wrote a number from its first read: read again first."


def _gives_up(counter: bytes) -> Steps:
    answer = yield retrieve(version(counter, 0))
    yield create(version(counter, 1), b"%d" % (int(answer.value) + 1))


def _keeps_the_old_number(counter: bytes) -> Steps:
    answer = yield retrieve(version(counter, 0))
    value, number, status = b"%d" % (int(answer.value) + 1), 0, ""
    while status != "OK":
        number += 1
        status = (yield create(version(counter, number), value)).status


def adds_the_version(counter: bytes) -> Steps:
    """Read once, then guess that version n holds n more: wrong where others add more than one."""
    answer = yield retrieve(version(counter, 0))
    number, status = 0, ""
    while status != "OK":
        number += 1
        status = (
            yield create(version(counter, number), b"%d" % (int(answer.value) + number))
        ).status


def _stays_at_one_version(counter: bytes) -> Steps:
    status = ""
    while status != "OK":
        answer = yield retrieve(version(counter, 0))
        value = b"%d" % (int(answer.value) + 1)
        status = (yield create(version(counter, 1), value)).status


def _never_reads(counter: bytes) -> Steps:
    number, status = 0, ""
    while status != "OK":
        number += 1
        status = (yield create(version(counter, number), b"%d" % number)).status


INCREMENT = Exercise(
    id="04.increment",
    title="Count, and lose none",
    hints=(
        "Update overwrites whatever is there. Which operation refuses to overwrite?",
        "Create the version after the one you read. What does ALREADY_EXISTS say then?",
        "`for n in itertools.count():` read version n, create version n + 1 with the value plus "
        'one, and return when its `answer.status == "OK"`.',
    ),
    reference=compare_and_replace,
    wrong=(
        WrongAnswer(read_then_write, "Update overwrites"),
        WrongAnswer(_gives_up, "gave up"),
        WrongAnswer(_keeps_the_old_number, "from its first read"),
        WrongAnswer(_never_reads, "read that first"),
        WrongAnswer(_stays_at_one_version, "again and again"),
    ),
    judge=_judge_increment,
)
