"""Lesson 04: where calls wait, the rate of a server, and a counter for many clients."""

import itertools
import random
from functools import partial
from typing import Any

import grpc

from kvstore.course.exercises import Exercise, Verdict, not_yet, passed
from kvstore.course.exercises.grading import Drawn
from kvstore.course.lessons.lesson_04.lost_update import (
    History,
    NeverDone,
    compare_and_set,
    history,
    key_of,
    orders,
)
from kvstore.server import serving
from kvstore.v1.kvstore_pb2 import CreateRequest, RetrieveRequest

# 04.where_they_are (further/04_gil) ------------------------------------------------------------


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


# 04.add_one -------------------------------------------------------------------------------------

START = 41
"""The counter's first value: the number of a version is not its value."""
OTHERS_ADD = 10
"""What the check's own client adds: the next value does not follow from the version's number."""


def _drawn_orders() -> list[str]:
    """Orders of two and three clients, from short to long. "Z" is the check's own client."""
    draw = random.Random(4)
    drawn = ["".join(draw.choices(names, k=9)) for names in ("ABZ", "AZ", "ABC") * 3]
    return ["A", "AZ", "ZA", "AB", *orders("AZ"), *orders("AB"), "ABCABC", *drawn]


def _judge_add_one(answer: Any) -> Verdict:
    ten = partial(compare_and_set, amount=OTHERS_ADD)
    with serving(read_delay_s=0, write_delay_s=0, locking="per_key", use_asyncio=True) as server:
        for number, order in enumerate(_drawn_orders()):
            counter = b"judge %d" % number
            try:
                seen = history(server, answer, order, counter, START, {"Z": (ten, OTHERS_ADD)})
            except NeverDone:
                return not_yet(
                    f"in the order {order} it tries again and again: after a refusal, look for a "
                    "*newer* version than the one that you have."
                )
            if seen.lost:
                return not_yet(_why_lost(seen))
            for name, created in seen.created.items():
                if seen.returned[name] != created:
                    return not_yet(
                        f"in the order {order}, a client created version {created} and returned "
                        f"{seen.returned[name]!r}: return the version that it created."
                    )
    return passed("no add was lost, in any order. A client that is refused reads again.")


def _why_lost(seen: History) -> str:
    said = (
        f"in the order {seen.order}, the clients added {seen.counted} to {START}, and the counter "
        f"shows {seen.stored}:"
    )
    own = seen.calls[seen.calls["client"] != "Z"] if len(seen.calls) else seen.calls
    if not len(own):
        return f"{said} your clients made no call."
    if "Retrieve" not in set(own.groupby("client").head(1)["call"]):
        return f"{said} the value of a new version is the latest value plus one: read that first."
    if "Update" in set(own["call"]):
        return f"{said} Update overwrites whatever is there. Which call refuses to?"
    if "ALREADY_EXISTS" in set(own.groupby("client").tail(1)["status"]):
        return f"{said} a client was refused, and gave up. Its add is missing: try again."
    return f"{said} a client was refused, and wrote a number from its first read: read again first."


def _read(stub: Any, counter: bytes, version: int) -> int:
    return int(stub.Retrieve(RetrieveRequest(key=key_of(counter, version))).value)


def _create(stub: Any, counter: bytes, version: int, number: int) -> bool:
    request = CreateRequest(key=key_of(counter, version), value=b"%d" % number)
    try:
        stub.Create(request)
    except grpc.RpcError:
        return False
    return True


def adds_the_version(stub: Any, counter: bytes, version: int) -> int:
    """Read once, then guess that each version adds one: wrong where others add more than one."""
    number, first = _read(stub, counter, version), version
    while not _create(stub, counter, version := version + 1, number + version - first):
        pass
    return version


ADD_ONE = Exercise(
    id="04.add_one",
    title="Count, and lose none",
    hints=(
        "Update overwrites whatever is there. Which call refuses to overwrite?",
        "Create the version after the one that you read. What does ALREADY_EXISTS say then?",
        "In a loop: read `version`, create version + 1 with the value plus one. OK: return "
        "version + 1. `except grpc.RpcError` with the code ALREADY_EXISTS: `version += 1`.",
    ),
    reference=compare_and_set,
    solution_parts=(key_of,),
    judge=_judge_add_one,
)
