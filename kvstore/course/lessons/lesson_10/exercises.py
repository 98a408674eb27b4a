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
from kvstore.v1.kvstore_pb2 import RetrieveRequest
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

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
        raise _BadConfig(f"`json.dumps` cannot write what you returned: {error}.") from None
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
            raise _BadConfig("gRPC does not accept this service config.") from None
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
    return passed(
        "the server counted the attempts: as many as you allow while there is budget, and one for"
        " each call when there is none."
    )


def _bad_field(config: Any) -> str:
    """Return which field gRPC refuses, as far as its rules for a retry policy say it."""
    methods = config.get("methodConfig", []) if isinstance(config, dict) else []
    if not isinstance(methods, list):
        return "`methodConfig` is a list of dicts."
    for method in methods:
        policy = method.get("retryPolicy", {}) if isinstance(method, dict) else {}
        for name in "initialBackoff", "maxBackoff":
            if not re.fullmatch(r"\d+(\.\d{1,9})?s", str(policy.get(name, ""))):
                return f'`{name}` is text such as `"0.05s"`, got {policy.get(name)!r:.40}.'
        attempts = policy.get("maxAttempts")
        if not isinstance(attempts, int) or attempts < 2:
            return f"`maxAttempts` is a whole number of 2 or more, got {attempts!r:.40}."
        growth = policy.get("backoffMultiplier")
        if not isinstance(growth, int | float) or growth <= 0:
            return f"`backoffMultiplier` is a number above 0, got {growth!r:.40}."
        codes = policy.get("retryableStatusCodes")
        if not isinstance(codes, list) or not {*codes} <= {*OTHERS, "UNAVAILABLE"} or not codes:
            return f"`retryableStatusCodes` is a list of names of statuses, got {codes!r:.40}."
    for name, value in dict(config.get("retryThrottling", {})).items():
        if not isinstance(value, int | float) or value <= 0:
            return f"`{name}` is a number above 0, got {value!r:.40}."
    return "Compare its names and nesting with the list above the cell."


def _attempts(answer: Any, draw: random.Random) -> str:
    """One failing call with a large budget; then other statuses."""
    for attempts in (2, draw.choice([3, 4]), 5):
        with _calling(answer(attempts, SHORT_S, 100, 0.1)) as (server, call):
            call("UNAVAILABLE")
            count = len(_attempts_of(server))
            if count == 1:
                return (
                    "a call failed with UNAVAILABLE, and the server saw one attempt: is the policy"
                    ' at `config["methodConfig"][0]["retryPolicy"]`, and does `"name": [{}]` name'
                    " all methods?"
                )
            if count != attempts:
                return (
                    f"attempts = {attempts}: the server saw {count} attempts of one call."
                    " `maxAttempts` counts the first attempt, too."
                )
            for status in OTHERS:
                call(status)
                if (count := len(_attempts_of(server))) != 1:
                    return (
                        f"a call that ended with {status} was sent {count} times: retry UNAVAILABLE"
                        " and nothing else."
                    )
    return ""


def _pauses(answer: Any, draw: random.Random) -> str:
    """The first pause is at least about as long as it should be (gRPC draws it, ±20 %)."""
    first_s = draw.choice([0.2, 0.3])
    with _calling(answer(2, first_s, 100, 0.1)) as (server, call):
        call("UNAVAILABLE")
        first, second = _attempts_of(server)
        if second - first < 0.7 * first_s:
            return (
                f"first_pause_s = {first_s}, and the second attempt came after"
                f" {second - first:.3f} s: `initialBackoff` is the first pause, as text in seconds."
            )
    with _calling(answer(2, SHORT_S, 100, 0.1)) as (server, call):
        for _ in range(6):
            call("UNAVAILABLE")
        at_s = _attempts_of(server)
        if min(later - at for at, later in zip(at_s[::2], at_s[1::2], strict=True)) > 0.17:
            return (
                f"first_pause_s = {SHORT_S}, and each second attempt came much later: use the"
                " argument."
            )
    return ""


def _longer_pauses(answer: Any, draw: random.Random) -> str:
    """What gRPC does only after seconds is read off the config, which it has accepted."""
    config = answer(4, 0.25, 100, 0.1)
    for method in config["methodConfig"]:
        policy = method.get("retryPolicy", {})
        if policy.get("backoffMultiplier", 2) != 2:
            return (
                "the pause doubles after each attempt, got"
                f" `backoffMultiplier` {policy['backoffMultiplier']!r}."
            )
        longest = str(policy.get("maxBackoff", "1s"))
        if float(longest.removesuffix("s")) != 1:
            return f'the longest pause is 1 s, `"1s"` as text, got `maxBackoff` {longest!r}.'
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
            return (
                f"{CALLS} calls failed, and each was sent 4 times: there is no budget."
                " `retryThrottling` stands beside `methodConfig`, not inside it."
            )
        if retries != (right := _retries_allowed(tokens, 4)):
            return (
                f"tokens = {tokens}: {CALLS} calls failed, and there were {retries} retries, where"
                f" {right} are right. `maxTokens` is the number of tokens at the start."
            )
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
                return (
                    f"ratio = {ratio}: after all tokens were lost, answers earned some, and a"
                    f" failing call was then sent {count} times, where {expected} is right."
                    " `tokenRatio` is what one answer earns."
                )
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
