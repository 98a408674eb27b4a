"""Lesson 12: a channel that spreads its calls, and consistent hashing."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final

import grpc

from kvstore.course.exercises import Verdict, expect, judges, not_yet, passed
from kvstore.course.exercises.puppet import counting

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
    return passed(
        "one channel, and each of 2 and of 4 servers answered its share of the calls. The channel"
        " has a connection to each address."
    )


def _spread_problem(channel: Any, counts: Sequence[Counter[str]]) -> str:
    """Return what is wrong with the channel, or ""."""
    if isinstance(channel, list | tuple):
        return "return one channel, not several: gRPC chooses the server for each call."
    if not isinstance(channel, grpc.Channel):
        return f"return an open `grpc.Channel`, got {type(channel).__name__}."
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
        return "the channel is closed already. Return it open; the check closes it."
    except grpc.RpcError as error:
        return (
            f"a call failed with {error.code().name} ({error.details()}): are the addresses joined"
            " by commas, with `ipv4:` once in front, and is the service config valid JSON?"
        )
    return _share_problem([each.total() - was for each, was in zip(counts, before, strict=True)])


def _share_problem(answered: Sequence[int]) -> str:
    reached = sum(count > 0 for count in answered)
    if not reached:
        return "the calls reached another server. Use the addresses as the target of the channel."
    if reached == 1:
        return (
            f"one server answered all {sum(answered)} calls. The channel may know all addresses;"
            " its policy is still `pick_first`, which takes one and keeps it. Choose another"
            " policy in the service config."
        )
    if min(answered) < CALLS_EACH / 3:
        return f"the servers answered {list(answered)} calls: each should get an even share."
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
            f"With servers = {servers} it returned {name!r:.40}: return one of these names.",
        )
        owners.append(name)
    return owners


@judges("12.owner")
def _judge_owner(answer: Any) -> Verdict:
    four = _owners(answer, NAMES[:4])
    again = _owners(answer, NAMES[:4])
    expect(four == again, "For the same key it returned two servers. Leave chance out of it.")
    five = _owners(answer, NAMES)
    for before, after, key in zip(four, five, KEYS, strict=True):
        expect(
            after in (before, NAMES[4]),
            f"{NAMES[4]} joins, and {key!r} moves from {before} to {after}: keys may move to the"
            " new server only. A server's points must not depend on the number of servers.",
        )
    expect(
        four == _owners(answer, NAMES[3::-1]),
        "The same servers in another order, and keys move: use the names, not their places.",
    )
    for servers, owners in ((NAMES[:4], four), (NAMES, five)):
        counts = {name: owners.count(name) for name in servers}
        mean = len(KEYS) / len(servers)
        expect(
            LEAST * mean < min(counts.values()) and max(counts.values()) < MOST * mean,
            f"Of {len(KEYS)} keys the servers have {counts}. Give each a hundred points on the"
            " circle, in different places.",
        )
    ends = {answer(key, NAMES[:1]) for key in KEYS[:50]}
    expect(ends == {NAMES[0]}, "One server has all keys.")
    moved = sum(a != b for a, b in zip(four, five, strict=True))
    return passed(
        f"a server joined four, and {moved / len(KEYS):.0%} of the keys moved, all of them to it."
    )
