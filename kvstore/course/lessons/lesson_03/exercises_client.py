"""The client of lesson 03: a semaphore that limits the calls in flight."""

import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import grpc

from kvstore import numbers
from kvstore.client.messages import METHODS, Operation
from kvstore.course.exercises import Verdict, controlled_time, judges, not_yet, passed
from kvstore.course.exercises.client_trials import (
    GRACE_S,
    WAIT_S,
    Requests,
    Sender,
    reach_stub,
    sending,
)
from kvstore.course.exercises.puppet import Puppet, wait_for_count, wait_until
from kvstore.course.lessons import words
from kvstore.v1 import kvstore_pb2 as pb

say = words("03")

OK, NOT_FOUND = grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND
ENDS = (OK, OK, NOT_FOUND, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE)
Ending = tuple[float, grpc.StatusCode]
"""Which of the held calls ends next, as a share of their number from 0 to 1, and how."""


def _schedules() -> list[tuple[int, list[Ending]]]:
    """A limit, and how the calls end one after the other: from small to large."""
    first_in = [(0.0, OK)] * 12
    drawn = random.Random(3)
    return [
        (3, first_in),
        (3, [(0.0, NOT_FOUND if n % 2 else OK) for n in range(12)]),
        (1, [(0.0, OK), (0.0, NOT_FOUND), (0.0, OK)]),
        (5, [(0.5, OK), (0.0, NOT_FOUND)]),
        (2, []),
        (110, [(0.0, OK)] * 130),  # more than any limit of the answer's own
        *(
            (drawn.randint(2, 9), [(drawn.random(), drawn.choice(ENDS)) for _ in range(30)])
            for _ in range(3)
        ),
    ]


@judges("03.bounded")
def _judge_bounded(answer: Any) -> Verdict:
    reach_stub(answer, iter(()), 3)
    for limit, endings in _schedules():
        if why := _why_not_bounded(answer, limit, endings):
            return not_yet(why)
    if why := _why_stuck(answer):
        return not_yet(why)
    return passed(say("passed_bounded"))


def _why_not_bounded(answer: Any, limit: int, endings: Sequence[Ending]) -> str:
    """What is wrong with the sender on one schedule; "" where it is right."""
    at_once = min(limit, len(endings))
    # all at once have a key of their own, and later ones come twice: two of them may be alike
    keys = [b"key %d" % (n if n < at_once else n // 2) for n in range(len(endings))]
    kinds = [[*METHODS][(n if n < at_once else n // 2) % 4] for n in range(len(endings))]
    wanted = [Operation(kind, key, b"v") for kind, key in zip(kinds, keys, strict=True)]
    requests = Requests(each.request for each in wanted)
    with sending(answer, requests, limit) as (puppet, sender):
        if at_once and (why := _why_not_full(puppet, sender, requests, limit, len(endings))):
            return why
        failed = False
        for ended, (share, status) in enumerate(endings, start=1):
            # the last call stays open until a sender that waits for a time would have returned
            if sender.returns_early() if ended == len(endings) else sender.returned:
                return _why_returned(puppet, len(endings), limit, failed)
            held = puppet.held(keys[:limit])
            puppet.release(held[min(int(share * len(held)), len(held) - 1)], status)
            failed |= status is not OK
            expected = min(limit, len(endings) - ended)
            refilled = wait_until(lambda expected=expected: puppet.waiting >= expected)  # type: ignore[misc]
            if puppet.most > limit:
                return _too_many(puppet.most, limit, failed)
            if not refilled:
                return _why_not_refilled(puppet, sender, limit, keys, endings[:ended])
        if puppet.most > limit:
            return _too_many(puppet.most, limit, failed)
        asked = Counter((METHODS[each.kind], each.key) for each in wanted)
        if strange := Counter((each.method, each.key) for each in puppet.arrived) - asked:
            method, key = next(iter(strange))
            other = next((name for name, each in asked if each == key), method)
            if other != method:
                return say("another_method", method=method, key=key, other=other)
            return say("sent_twice", method=method, key=key)
        if not sender.returns():
            return say("never_returns", endings=len(endings))
    return ""


def _why_stuck(answer: Any) -> str:
    """What is wrong where each call has ended before its callback is added."""
    requests = [pb.UpdateRequest(key=b"key %d" % n, value=b"v") for n in range(12)]
    with sending(answer, iter(requests), 3, ended_first=True) as (puppet, sender):
        if sender.returns():
            return ""
        return say("callback_under_lock", arrived=len(puppet.arrived), requests=len(requests))


def _why_not_full(
    puppet: Puppet, sender: Sender, requests: Requests, limit: int, count: int
) -> str:
    """What is wrong before the first call has ended: `limit` calls must be held, and no more."""
    at_once = min(limit, count)
    reached = wait_for_count(lambda: puppet.waiting, at_once, lambda: sender.returned)
    with controlled_time.running_ahead():
        time.sleep(GRACE_S)
    if puppet.most > limit:
        return _too_many(puppet.most, limit)
    if sender.returned:
        return _why_returned(puppet, count, limit)
    if not reached and puppet.waiting == 1:
        return say("one_at_a_time", limit=limit)
    if not reached:
        return say(
            "place_stays_empty", limit=limit, waiting=puppet.waiting, count=count, wait_s=WAIT_S
        )
    if requests.count > 2 * limit + 1:
        return say("taken_too_soon", count=requests.count, limit=limit)
    polls = sender.polls()
    if puppet.most > limit:
        return _too_many(puppet.most, limit)
    if polls:
        return say("polls")
    return ""


def _too_many(most: int, limit: int, failed: bool = False) -> str:
    if failed:
        return say("released_twice", limit=limit, most=most)
    if most == limit + 1:
        return say("one_too_many", limit=limit, most=most)
    return say("released_too_soon", limit=limit, most=most)


def _why_returned(puppet: Puppet, count: int, limit: int, failed: bool = False) -> str:
    wait_until(lambda: len(puppet.arrived) >= count)  # some may be on their way
    if puppet.most > limit:
        return _too_many(puppet.most, limit, failed)
    if len(puppet.arrived) < count:
        return say("not_all_sent", arrived=len(puppet.arrived), count=count)
    if failed:
        return say("returned_early_after_failure", waiting=numbers.count(puppet.waiting, "call"))
    return say("returned_early", waiting=numbers.count(puppet.waiting, "call"))


def _why_not_refilled(
    puppet: Puppet, sender: Sender, limit: int, keys: Sequence[bytes], ends: Sequence[Ending]
) -> str:
    """Why no new call came within `WAIT_S`, although calls have ended so."""
    count, ended, status = len(keys), len(ends), ends[-1][1]
    if sender.returned:
        return _why_returned(puppet, count, limit)
    if status is not OK:
        return say("failed_keeps_its_place", ended=ended, name=status.name)
    before = len(puppet.arrived)
    not_the_oldest = any(share for share, _ in ends)
    if puppet.waiting and not_the_oldest:
        puppet.release(puppet.held(keys[:limit])[0])
        if wait_until(lambda: len(puppet.arrived) > before, 2 * GRACE_S):
            return say("waits_for_the_oldest")
    for number in puppet.held():
        puppet.release(number)
    wait_until(lambda: sender.returned or len(puppet.arrived) > before)
    if sender.returned:
        return _why_returned(puppet, count, limit)
    if len(puppet.arrived) > before:
        return say("in_waves")
    if ended == 1:
        return say("never_released", before=before)
    return say("stopped", before=before, count=count)
