"""Lesson 04: a counter that two clients may raise at once."""

from typing import Any

from kvstore.client.workload import create, retrieve
from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed
from kvstore.course.stories.lost_update import (
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


def _judge(answer: Any) -> Verdict:
    with serving(read_delay_s=0, write_delay_s=0, locking="per_key", use_asyncio=True) as server:
        for order in ("AB", *orders(), "ABCABC"):
            try:
                seen = history(server, answer, order, f"judge-{order}".encode())
            except NeverDone:
                return not_yet(
                    f"in the order {order} it tries again and again: after a refusal, look for a "
                    "*newer* version than the one that you have."
                )
            if seen.lost:
                return not_yet(_why_lost(seen))
    return passed("Not one lost, in any order. Who comes second is told, reads anew, and counts.")


def _why_lost(seen: History) -> str:
    said = f"in the order {seen.order}, {seen.counted} counted and the counter shows {seen.stored}:"
    if not len(seen.calls):
        return f"{said} your clients never asked for anything."
    if "update" in set(seen.calls["asks"]):
        return f"{said} Update overwrites, whatever is there by now. Which operation looks first?"
    last = seen.calls.groupby("client").tail(1)["answer"]
    if "ALREADY_EXISTS" in set(last):
        return f"{said} a client was refused, and gave up. Its count is nowhere: try again."
    return f"{said} a client was refused, and came back with the old number: read anew first."


def _gives_up(counter: bytes) -> Steps:
    answer = yield retrieve(version(counter, 0))
    yield create(version(counter, 1), b"%d" % (int(answer.value) + 1))


def _keeps_the_old_number(counter: bytes) -> Steps:
    answer = yield retrieve(version(counter, 0))
    value, number, status = b"%d" % (int(answer.value) + 1), 0, ""
    while status != "OK":
        number += 1
        status = (yield create(version(counter, number), value)).status


def _stays_at_one_version(counter: bytes) -> Steps:
    status = ""
    while status != "OK":
        answer = yield retrieve(version(counter, 0))
        value = b"%d" % (int(answer.value) + 1)
        status = (yield create(version(counter, 1), value)).status


INCREMENT = Exercise(
    id="04.increment",
    title="Count, and lose none",
    statement=(
        "Write `increment(counter)`, a generator that yields operations and is sent their answers: "
        "`answer = yield retrieve(version(counter, 0))`. The counter's value number n is stored "
        "under `version(counter, n)`; value 0 is there already. Add one to the latest value, so "
        "that no count is lost, whoever else counts at the same time."
    ),
    hints=(
        "Update overwrites whatever is there. Which operation refuses to overwrite?",
        "Create the version after the one you read. What does ALREADY_EXISTS tell you then?",
        "`for n in itertools.count():` read version n, create version n + 1 with the value plus "
        'one, and return when its `answer.status == "OK"`.',
    ),
    reference=compare_and_replace,
    wrong=(
        WrongAnswer(read_then_write, "Update overwrites"),
        WrongAnswer(_gives_up, "gave up"),
        WrongAnswer(_keeps_the_old_number, "old number"),
        WrongAnswer(_stays_at_one_version, "again and again"),
    ),
    judge=_judge,
)
