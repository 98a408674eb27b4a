"""Lesson 01: a loop with a deadline, and calls per second from what was sent."""

import math
import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import grpc

from kvstore.course.exercises import Verdict, judges, not_yet, passed
from kvstore.course.exercises.client_trials import ClientTrial, try_client
from kvstore.course.exercises.puppet import Script
from kvstore.course.lessons import words

if TYPE_CHECKING:
    pass

say = words("01")

TRIALS = 8
"""So many lists of keys are drawn."""
SHORT_S = 0.6
"""The deadline where the calls are slow, and where one is never answered."""
SLOW_S = 0.15
"""How long each of the slow calls takes: any four of them take as long as one deadline."""

Values = list[bytes | None]


@judges("01.read_all")
def _judge_read_all(answer: Any) -> Verdict:
    for wrong in (
        _wrong_with_drawn_keys,
        _wrong_with_slow_calls,
        _wrong_with_a_stalled_call,
        _wrong_with_another_failure,
    ):
        if text := wrong(answer):
            return not_yet(text)
    return passed(say("passed_read_all"))


def _trial(
    answer: Callable[..., Any], script: Script, keys: Sequence[bytes], deadline_s: float
) -> ClientTrial:
    return try_client(script, lambda stub: answer(stub, list(keys), deadline_s))


def _wrong_with_drawn_keys(answer: Callable[..., Any]) -> str:
    rng = random.Random(1)
    lengths = sorted([0, 1, 1, 130, *(rng.randrange(2, 9) for _ in range(TRIALS - 4))])
    for length in lengths:
        pool = [b"key %d" % number for number in rng.sample(range(100), 6)]
        there = {key: b"value of " + key for key in rng.sample(pool, rng.randrange(1, 6))}
        there[pool[0]] = b""  # a key may have an empty value
        keys = [rng.choice(pool) for _ in range(length)]  # a key may be there twice
        if length == 1:
            keys = [b"nowhere"] if lengths.index(1) % 2 else keys
        if length >= 2:
            keys[rng.randrange(length - 1)] = b"nowhere"
        deadline_s = rng.choice([2.0, 5.0, 20.0])
        trial = _trial(answer, Script(there), keys, deadline_s)
        if text := _wrong_with(trial, keys, [there.get(key) for key in keys], deadline_s):
            return text
    return ""


def _wrong_with(
    trial: ClientTrial, keys: Sequence[bytes], expected: Values, deadline_s: float
) -> str:
    missing = expected.count(None)
    what = f"{len(keys)} {'key' if len(keys) == 1 else 'keys'}, {missing} of them without a value"
    if trial.failure:
        if trial.status is grpc.StatusCode.NOT_FOUND:
            return say("not_found_raised", what=what, served=len(trial.served))
        if trial.status is grpc.StatusCode.DEADLINE_EXCEEDED:
            return say("too_short_a_timeout", what=what, deadline_s=deadline_s)
        raise trial.failure
    if trial.overlapping:
        return say("overlapping", what=what, overlapping=trial.overlapping)
    called_keys = [call.key for call in trial.served]
    if called_keys != list(keys):
        return say("not_one_call_each", what=what, calls=len(called_keys), keys=len(keys))
    if text := _wrong_with_deadlines(trial, deadline_s):
        return text
    if trial.returned == expected:
        return ""
    if not isinstance(trial.returned, list):
        return f"Return a list, got {trial.returned!r:.60}."
    if trial.returned == [value for value in expected if value is not None]:
        return say("none_left_out")
    return say("wrong_values", what=what, expected=expected, returned=trial.returned)


def _wrong_with_deadlines(trial: ClientTrial, deadline_s: float) -> str:
    """What is wrong with the deadlines that the calls got."""
    deadlines_s = [given_s for given_s in trial.deadlines_s if given_s is not None]
    less_and_less = (
        len(deadlines_s) == len(trial.deadlines_s) and deadlines_s == sorted(deadlines_s)[::-1]
    )
    if less_and_less and deadlines_s and deadlines_s[-1] < deadlines_s[0] <= 1.001 * deadline_s:
        return say(
            "deadline_shared",
            longest_s=deadlines_s[0],
            shortest_s=deadlines_s[-1],
            deadline_s=deadline_s,
        )
    for given_s in trial.deadlines_s:
        if given_s is None or given_s > 1e6:
            return say("no_deadline")
        if not math.isclose(given_s, deadline_s, rel_tol=1e-3):  # clocks differ
            return say("wrong_timeout", given_s=given_s, deadline_s=deadline_s)
    return ""


def _wrong_with_slow_calls(answer: Callable[..., Any]) -> str:
    """Calls that together last longer than one deadline."""
    keys = [b"key %d" % number for number in range(6)]
    there = {key: b"slow" for key in keys}
    for slower in (1, 4):  # on a busy machine one call may take longer than the short deadline
        slow_s, short_s = slower * SLOW_S, slower * SHORT_S
        trial = _trial(answer, Script(there, delay_s=slow_s), keys, short_s)
        if trial.status is None and trial.returned == [b"slow"] * 6:
            return ""
    return say("slow_calls_cut", slow_s=slow_s, short_s=short_s)


def _wrong_with_a_stalled_call(answer: Callable[..., Any]) -> str:
    keys = [b"first", b"stalled", b"third"]
    there = {key: b"value" for key in keys}
    began_s = time.perf_counter()
    trial = _trial(answer, Script(there, stalled=frozenset([b"stalled"])), keys, SHORT_S)
    took_s = time.perf_counter() - began_s
    if trial.status is grpc.StatusCode.DEADLINE_EXCEEDED:
        return _calls_after(trial, 2, "DEADLINE_EXCEEDED")
    if trial.failure and trial.status is None:
        raise trial.failure
    return say("stalled_call_swallowed", took_s=took_s, returned=trial.returned)


def _wrong_with_another_failure(answer: Callable[..., Any]) -> str:
    keys = [b"first", b"broken", b"third"]
    there = {key: b"value" for key in keys}
    for status in grpc.StatusCode:
        name = status.name
        if name in ("OK", "NOT_FOUND"):
            continue
        trial = _trial(answer, Script(there, failures={b"broken": status}), keys, SHORT_S)
        if trial.status is status:
            if text := _calls_after(trial, 2, name):
                return text
            continue
        if trial.failure and trial.status is None:
            raise trial.failure
        return say("error_swallowed", name=name)
    return ""


def _calls_after(trial: ClientTrial, expected: int, status: str) -> str:
    if len(trial.served) == expected:
        return ""
    return say("goes_on_after_error", status=status, more=len(trial.served) - expected)
