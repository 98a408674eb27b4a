"""Lesson 12: a channel that spreads its calls, and consistent hashing."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final

import grpc

from kvstore.course.exercises import Verdict, expect, judges, not_yet, passed
from kvstore.course.exercises.puppet import counting
from kvstore.course.lessons import words

say = words("12")

# 12.spread ----------------------------------------------------------------------------------------

PATIENCE_S: Final = 5.0
"""How long the check waits until calls reach every server."""
CALLS_EACH: Final = 12


@judges("12.spread")
def _judge_spread(answer: Any) -> Verdict:
    for count in (2, 4):
        with ExitStack() as stack:
            servers = [stack.enter_context(counting()) for _ in range(count)]
            channel = answer([address for address, _ in servers])
            try:
                problem = _spread_problem(channel, [calls for _, calls in servers])
            finally:
                if isinstance(channel, grpc.Channel):
                    channel.close()
        if problem:
            return not_yet(f"`spread(addresses)` with {count} addresses: {problem}")
    return passed(say("passed_spread"))


def _spread_problem(channel: Any, counts: Sequence[Counter[str]]) -> str:
    """Return what is wrong with the channel, or ""."""
    if isinstance(channel, list | tuple):
        return say("several_channels")
    if not isinstance(channel, grpc.Channel):
        return say("no_channel", kind=type(channel).__name__)
    call = channel.unary_unary("/any/Method")
    give_up_s = time.perf_counter() + PATIENCE_S
    try:
        # The connections are established one after the other.
        while min(each.total() for each in counts) < 2 and time.perf_counter() < give_up_s:
            call(b"", timeout=PATIENCE_S, wait_for_ready=True)
            if sum(each.total() for each in counts) > 50 * len(counts):
                break
        before = [each.total() for each in counts]
        for _ in range(CALLS_EACH * len(counts)):
            call(b"", timeout=PATIENCE_S, wait_for_ready=True)
    except ValueError:
        return say("closed")
    except grpc.RpcError as error:
        return say("call_failed", name=error.code().name, details=error.details())
    return _share_problem([each.total() - was for each, was in zip(counts, before, strict=True)])


def _share_problem(answered: Sequence[int]) -> str:
    reached = sum(count > 0 for count in answered)
    if not reached:
        return say("another_server")
    if reached == 1:
        return say("one_server", answered=sum(answered))
    if min(answered) < CALLS_EACH / 3:
        return say("uneven", answered=list(answered))
    return ""


# 12.owner -----------------------------------------------------------------------------------------


NAMES: Final = ("amsterdam", "berlin", "cork", "delft", "essen")
KEYS: Final = [b"key %d" % number for number in range(600)]
LEAST, MOST = 0.5, 1.7
"""The share of a server may be so many times the mean: 100 points each vary by a tenth."""


def _owners(answer: Any, servers: tuple[str, ...]) -> list[str]:
    owners = []
    for key in KEYS:
        name = answer(key, servers)
        expect(
            name in servers,
            say("no_server_name", servers=servers, name=name),
        )
        owners.append(name)
    return owners


@judges("12.owner")
def _judge_owner(answer: Any) -> Verdict:
    four = _owners(answer, NAMES[:4])
    again = _owners(answer, NAMES[:4])
    expect(four == again, say("by_chance"))
    five = _owners(answer, NAMES)
    for before, after, key in zip(four, five, KEYS, strict=True):
        expect(
            after in (before, NAMES[4]),
            say("moved_elsewhere", name=NAMES[4], key=key, before=before, after=after),
        )
    expect(
        four == _owners(answer, NAMES[3::-1]),
        say("by_place"),
    )
    for servers, owners in ((NAMES[:4], four), (NAMES, five)):
        counts = {name: owners.count(name) for name in servers}
        mean = len(KEYS) / len(servers)
        expect(
            LEAST * mean < min(counts.values()) and max(counts.values()) < MOST * mean,
            say("uneven_keys", keys=len(KEYS), counts=counts),
        )
    ends = {answer(key, NAMES[:1]) for key in KEYS[:50]}
    expect(ends == {NAMES[0]}, "One server has all keys.")
    moved = sum(a != b for a, b in zip(four, five, strict=True))
    return passed(say("passed_owner", share=moved / len(KEYS)))
