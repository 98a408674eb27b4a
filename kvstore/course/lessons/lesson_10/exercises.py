"""Lesson 10: a service config for retries, and pauses with full jitter."""

import functools
import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc

from kvstore.client.channel import OPTIONS
from kvstore.course import my_code
from kvstore.course.exercises import Verdict, judges, not_yet, passed
from kvstore.course.exercises.grading import Drawn
from kvstore.course.exercises.puppet import Puppet, puppet
from kvstore.course.lessons import words
from kvstore.v1.kvstore_pb2 import RetrieveRequest
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

say = words("10")

# 10.retry_config --------------------------------------------------------------------------------

CALLS: Final = 30
"""Calls of which every attempt fails, so that a budget runs out."""
OTHERS: Final = [status.name for status in grpc.StatusCode if status.name != "UNAVAILABLE"]
FAILURES: Final = {
    status.name.encode(): status for status in grpc.StatusCode if status.name != "OK"
}
"""A call for such a key ends with this status, and one for b"OK" is answered."""
SHORT_S: Final = 0.005
"""A short pause; with 1 ms, gRPC sometimes never sends the retry (grpcio 1.85)."""


class _BadConfig(Exception):
    """gRPC does not accept what the learner returned; the text says why."""


@contextmanager
def _calling(config: Any) -> Iterator[tuple[Puppet, Callable[[str], str]]]:
    """Yield a server, and a function that makes a call which ends with this status.

    Each has a server of its own: all channels of a process to one server share one retry budget.
    """
    try:
        text = json.dumps(config)
    except TypeError as error:
        raise _BadConfig(say("not_json", error=error)) from None
    options = [*OPTIONS, ("grpc.service_config", text)]
    with (
        puppet({b"OK": b""}, FAILURES) as (server, address),
        grpc.insecure_channel(address, options=options) as channel,
    ):
        yield server, functools.partial(_call, KeyValueServiceStub(channel))


def _attempts_of(server: Puppet) -> list[float]:
    """Return when the attempts since the last time arrived."""
    arrived_s = [attempt.at_s for attempt in server.arrived]
    server.arrived.clear()
    return arrived_s


def _call(stub: Any, status: str) -> str:
    """Make a call that ends with this status; return the status of its end."""
    try:
        stub.Retrieve(RetrieveRequest(key=status.encode()), timeout=10)
    except grpc.RpcError as error:
        if "service config" in str(error.details() or ""):
            raise _BadConfig(say("not_accepted")) from None
        return str(error.code().name)
    return "OK"


@judges("10.retry_config")
def _judge_retry_config(answer: Any) -> Verdict:
    draw = random.Random(9)
    try:
        for step in (_attempts, _pauses, _longer_pauses, _budget, _refill):
            if problem := step(answer, draw):
                return not_yet(problem)
    except _BadConfig as bad:
        return not_yet(f"{bad} {_bad_field(answer(3, 0.05, 10, 0.1))}")
    return passed(say("passed_retry_config"))


def _bad_field(config: Any) -> str:
    """Return which field gRPC refuses, as far as its rules for a retry policy say it."""
    methods = config.get("methodConfig", []) if isinstance(config, dict) else []
    if not isinstance(methods, list):
        return say("no_method_config")
    for method in methods:
        policy = method.get("retryPolicy", {}) if isinstance(method, dict) else {}
        for name in "initialBackoff", "maxBackoff":
            if not re.fullmatch(r"\d+(\.\d{1,9})?s", str(policy.get(name, ""))):
                return say("no_pause", name=name, value=policy.get(name))
        attempts = policy.get("maxAttempts")
        if not isinstance(attempts, int) or attempts < 2:
            return say("no_attempts", attempts=attempts)
        growth = policy.get("backoffMultiplier")
        if not isinstance(growth, int | float) or growth <= 0:
            return say("no_multiplier", growth=growth)
        codes = policy.get("retryableStatusCodes")
        if not isinstance(codes, list) or not {*codes} <= {*OTHERS, "UNAVAILABLE"} or not codes:
            return say("no_codes", codes=codes)
    for name, value in dict(config.get("retryThrottling", {})).items():
        if not isinstance(value, int | float) or value <= 0:
            return say("no_budget_number", name=name, value=value)
    return say("field_unknown")


def _attempts(answer: Any, draw: random.Random) -> str:
    """One failing call with a large budget; then other statuses."""
    for attempts in (2, draw.choice([3, 4]), 5):
        with _calling(answer(attempts, SHORT_S, 100, 0.1)) as (server, call):
            call("UNAVAILABLE")
            count = len(_attempts_of(server))
            if count == 1:
                return say("no_policy")
            if count != attempts:
                return say("another_number_of_attempts", attempts=attempts, count=count)
            for status in OTHERS:
                call(status)
                if (count := len(_attempts_of(server))) != 1:
                    return say("retries_others", status=status, count=count)
    return ""


def _pauses(answer: Any, draw: random.Random) -> str:
    """The first pause is at least about as long as it should be (gRPC draws it, ±20 %)."""
    first_s = draw.choice([0.2, 0.3])
    with _calling(answer(2, first_s, 100, 0.1)) as (server, call):
        call("UNAVAILABLE")
        first, second = _attempts_of(server)
        if second - first < 0.7 * first_s:
            return say("another_first_pause", first_s=first_s, waited_s=second - first)
    with _calling(answer(2, SHORT_S, 100, 0.1)) as (server, call):
        for _ in range(6):
            call("UNAVAILABLE")
        at_s = _attempts_of(server)
        if min(later - at for at, later in zip(at_s[::2], at_s[1::2], strict=True)) > 0.17:
            return say("first_pause_fixed", short_s=SHORT_S)
    return ""


def _longer_pauses(answer: Any, draw: random.Random) -> str:
    """What gRPC does only after seconds is read off the config, which it has accepted."""
    config = answer(4, 0.25, 100, 0.1)
    for method in config["methodConfig"]:
        policy = method.get("retryPolicy", {})
        if policy.get("backoffMultiplier", 2) != 2:
            return say("another_multiplier", multiplier=policy["backoffMultiplier"])
        longest = str(policy.get("maxBackoff", "1s"))
        if float(longest.removesuffix("s")) != 1:
            return say("another_longest_pause", longest=longest)
    return ""


def _retries_allowed(tokens: float, attempts: int) -> int:
    """Return the retries of failing calls, one call after the other, until the budget ends them."""
    left, retries = tokens, 0
    for _ in range(CALLS):
        for attempt in range(1, attempts + 1):
            left -= 1  # each failed attempt costs a token
            if attempt == attempts or left <= tokens / 2:
                break
            retries += 1
    return retries


def _budget(answer: Any, draw: random.Random) -> str:
    """Many failing calls: nothing is retried with half of the tokens or fewer."""
    for tokens in (2 * draw.randint(2, 4), 2 * draw.randint(6, 9)):
        with _calling(answer(4, SHORT_S, tokens, 0.1)) as (server, call):
            for _ in range(CALLS):
                call("UNAVAILABLE")
        retries = len(server.arrived) - CALLS
        if retries == 3 * CALLS:
            return say("no_budget", calls=CALLS)
        if retries != (right := _retries_allowed(tokens, 4)):
            return say("another_budget", tokens=tokens, calls=CALLS, retries=retries, right=right)
    return ""


def _refill(answer: Any, draw: random.Random) -> str:
    """Answers earn tokens: after enough of them there are retries again."""
    tokens, ratio = 8, draw.choice([0.5, 1])
    with _calling(answer(2, SHORT_S, tokens, ratio)) as (server, call):
        for _ in range(2 * tokens):
            call("UNAVAILABLE")
        _attempts_of(server)
        needed = int((tokens / 2 + 1) / ratio)  # then one failure leaves half of the tokens
        for answered, expected in ((needed, 1), (int(2 / ratio), 2)):
            for _ in range(answered):
                call("OK")
            _attempts_of(server)
            call("UNAVAILABLE")
            if (count := len(_attempts_of(server))) != expected:
                return say("another_ratio", ratio=ratio, count=count, expected=expected)
    return ""


# 10.backoff -------------------------------------------------------------------------------------


full_jitter = my_code.course_version("limits.full_jitter")


class _Draw:
    """A source of random numbers that always draws the same one."""

    def __init__(self, number: float) -> None:
        self.number = number

    def __call__(self) -> float:
        return self.number

    def __repr__(self) -> str:
        return f"lambda: {self.number:g}"


def _pauses_drawn() -> Any:
    from hypothesis import strategies as st

    return st.tuples(
        st.integers(1, 60),
        st.sampled_from([0.01, 0.1, 0.25, 1.0]),
        st.sampled_from([0.05, 0.5, 1.0, 30.0]),
        st.builds(_Draw, st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])),
    )


judges("10.backoff")(Drawn(full_jitter, _pauses_drawn()))
