"""Lesson 04: where calls wait, the rate of a server, and a counter for many clients."""

import random
from functools import partial
from typing import Any

import grpc

from kvstore.course.exercises import Verdict, judges, not_yet, passed
from kvstore.course.exercises.client_trials import ClientTrial, try_client
from kvstore.course.exercises.puppet import Script
from kvstore.course.lessons import words
from kvstore.course.lessons.lesson_04.lost_update import (
    History,
    NeverDone,
    compare_and_set,
    history,
    key_of,
    orders,
    watched,
)
from kvstore.server import serving

say = words("04")

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


@judges("04.add_one")
def _judge_add_one(answer: Any) -> Verdict:
    ten = partial(compare_and_set, amount=OTHERS_ADD)
    with serving(read_delay_s=0, write_delay_s=0, locking="per_key", use_asyncio=True) as server:
        for number, order in enumerate(_drawn_orders()):
            counter = b"judge %d" % number
            try:
                result = history(server, answer, order, counter, START, {"Z": (ten, OTHERS_ADD)})
            except NeverDone:
                return not_yet(say("never_newer", order=order))
            if result.lost:
                return not_yet(_why_lost(result))
            for name, created in result.created.items():
                if result.returned[name] != created:
                    return not_yet(
                        say(
                            "another_version_returned",
                            order=order,
                            created=created,
                            returned=result.returned[name],
                        )
                    )
    if problem := _errors_that_stay(answer) or _many_newer(answer):
        return not_yet(problem)
    return passed(say("passed_add_one"))


MOST_CALLS = 200
"""So many calls are enough for an add, whatever it looks at."""
NEWER = 30
"""So many versions are newer than the one that the answer is told of."""


def _adding(answer: Any, counter: bytes, script: Script) -> tuple[ClientTrial, list[Any]]:
    """Let the answer add alone, up to `MOST_CALLS` calls; return the trial and its calls."""
    calls: list[Any] = []

    def limit() -> None:
        if len(calls) >= MOST_CALLS:
            raise NeverDone

    def client(stub: Any) -> Any:
        return answer(watched(stub, "A", calls, limit), counter, 0)

    return try_client(script, client), calls


def _errors_that_stay(answer: Any) -> str:
    """One call ends with another error than ALREADY_EXISTS: it must leave the function."""
    counter = b"errors"
    first, second = key_of(counter, 0), key_of(counter, 1)
    for method, key in (("Create", second), ("Retrieve", first)):
        for status in grpc.StatusCode:
            if status.name in ("OK", "CANCELLED", "ALREADY_EXISTS"):
                continue
            if (method, status.name) == ("Retrieve", "NOT_FOUND"):
                continue  # the trials of all orders have it
            script = Script({first: b"%d" % START}, failures={key: status})
            trial, calls = _adding(answer, counter, script)
            failed = (method, key.decode(), status.name)
            ends = [(call["call"], call["key"], call["status"]) for call in calls]
            after = len(ends) - 1 - ends.index(failed) if failed in ends else 0
            failed_call = f"a {method} ended with {status.name}, and your function"
            if trial.failure is None:
                return say("error_swallowed", event=failed_call, returned=trial.returned)
            if after:
                return say(
                    "goes_on_after_error",
                    event=failed_call,
                    more=after if after < MOST_CALLS // 2 else "endless",
                    calls="call" if after == 1 else "calls",
                )
            if trial.status is None and not isinstance(trial.failure.__cause__, NeverDone):
                cause = trial.failure.__cause__
                if isinstance(getattr(cause, "__cause__", None), grpc.RpcError):
                    continue  # `raise ... from error`
                raise trial.failure
    return ""


def _many_newer(answer: Any) -> str:
    """Many versions are newer than the one that it is told of, and values do not follow them."""
    counter = b"newer"
    values = {key_of(counter, n): b"%d" % (START + OTHERS_ADD * n) for n in range(NEWER + 1)}
    trial, calls = _adding(answer, counter, Script(values))
    if trial.failure and isinstance(trial.failure.__cause__, NeverDone):
        return say("calls_without_end", newer=NEWER)
    if trial.failure:
        raise trial.failure
    writes = b"%d" % (START + OTHERS_ADD * NEWER + 1)
    created = [(each["key"], each["writes"]) for each in calls if each["call"] == "Create"]
    if created[-1:] != [(key_of(counter, NEWER + 1).decode(), writes.decode())]:
        return say("add_is_missing", newer=NEWER, calls=len(calls))
    if trial.returned != NEWER + 1:
        return say("another_version", version=NEWER + 1, returned=trial.returned)
    return ""


def _why_lost(result: History) -> str:
    summary = (
        f"in the order {result.order}, the clients added {result.counted} to {START}, and the"
        f" counter shows {result.stored}:"
    )
    calls = result.calls[result.calls["client"] != "Z"] if len(result.calls) else result.calls
    if not len(calls):
        return f"{summary} your clients made no call."
    if "Retrieve" not in set(calls.groupby("client").head(1)["call"]):
        return (
            f"{summary} the value of a new version is the latest value plus one: read that first."
        )
    if "Update" in set(calls["call"]):
        return f"{summary} Update overwrites whatever is there. Which call refuses to?"
    if "ALREADY_EXISTS" in set(calls.groupby("client").tail(1)["status"]):
        return f"{summary} a client was refused, and gave up. Its add is missing: try again."
    return (
        f"{summary} a client was refused, and wrote a number from its first read: read again first."
    )
