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
from kvstore.v1 import kvstore_pb2 as pb

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
    return passed(
        "There were never more calls in flight than the limit. The end of each call, a failed one "
        "too, made room for the next one. It returned when all calls had ended."
    )


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
                return (
                    f"the server received {method} of {key!r}, and the request was for {other}: "
                    "let `method_of(stub, request)` choose the method."
                )
            return (
                f"the server received {method} of {key!r} once more than `requests` has it: "
                "send each request once."
            )
        if not sender.returns():
            return f"all {len(endings)} calls have ended. It does not return: what ends its wait?"
    return ""


def _why_stuck(answer: Any) -> str:
    """What is wrong where each call has ended before its callback is added."""
    requests = [pb.UpdateRequest(key=b"key %d" % n, value=b"v") for n in range(12)]
    with sending(answer, iter(requests), 3, ended_first=True) as (puppet, sender):
        if sender.returns():
            return ""
        return (
            f"it stopped after {len(puppet.arrived)} of {len(requests)} calls. Each call had"
            " ended when its callback was added: gRPC then runs the callback at once, in *your*"
            " thread. Hold no lock there that the callback takes."
        )


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
        return (
            f"the limit was {limit}, and one call was in flight: the next one was sent only after "
            "the reply. A method of the stub waits for its reply; its `.future(request)` does not."
        )
    if not reached:
        return (
            f"the limit was {limit}, and only {puppet.waiting} of {count} calls were in flight"
            f" after {WAIT_S:g} s: a place stays empty."
        )
    if requests.count > 2 * limit + 1:
        return (
            f"it took {requests.count} requests while {limit} calls were in flight: the others "
            "wait in a queue of your own, which has no limit. Take a request when there is a "
            "place for its call."
        )
    polls = sender.polls()
    if puppet.most > limit:
        return _too_many(puppet.most, limit)
    if polls:
        return (
            "while all places were taken it kept running: it looks again and again whether a place "
            "is free. That costs CPU time. Let `acquire()` wait."
        )
    return ""


def _too_many(most: int, limit: int, failed: bool = False) -> str:
    if failed:
        return (
            f"the limit was {limit}, and after a call had failed {most} calls were in flight. "
            "Release one place for each call, at its end and nowhere else."
        )
    if most == limit + 1:
        return (
            f"the limit was {limit}, and {most} calls were in flight, one too many: is a call sent "
            "before its place is acquired, or is there one place too many?"
        )
    return (
        f"the limit was {limit}, and {most} calls were in flight. Release a place when its call "
        "has ended, not when it was sent, and not after a time."
    )


def _why_returned(puppet: Puppet, count: int, limit: int, failed: bool = False) -> str:
    wait_until(lambda: len(puppet.arrived) >= count)  # some may be on their way
    if puppet.most > limit:
        return _too_many(puppet.most, limit, failed)
    if len(puppet.arrived) < count:
        return (
            f"it returned after {len(puppet.arrived)} of {count} requests: send each one that "
            "`requests` hands out."
        )
    if failed:
        return (
            f"it returned with {numbers.count(puppet.waiting, 'call')} still in flight, after a"
            " call had failed. Release one place for each call, at its end, and wait for all of"
            " them."
        )
    return (
        f"it returned with {numbers.count(puppet.waiting, 'call')} still in flight. Wait for "
        "the end of each call: then all places are free again."
    )


def _why_not_refilled(
    puppet: Puppet, sender: Sender, limit: int, keys: Sequence[bytes], ends: Sequence[Ending]
) -> str:
    """Why no new call came within `WAIT_S`, although calls have ended so."""
    count, ended, status = len(keys), len(ends), ends[-1][1]
    if sender.returned:
        return _why_returned(puppet, count, limit)
    if status is not OK:
        return (
            f"call {ended} ended with {status.name}, and no new call took its place: a call that "
            "fails must release its place too."
        )
    before = len(puppet.arrived)
    not_the_oldest = any(share for share, _ in ends)
    if puppet.waiting and not_the_oldest:
        puppet.release(puppet.held(keys[:limit])[0])
        if wait_until(lambda: len(puppet.arrived) > before, 2 * GRACE_S):
            return (
                "a call ended, and no new one took its place until the oldest one had ended: it "
                "waits for one certain call. The end of *any* call makes room for one."
            )
    for number in puppet.held():
        puppet.release(number)
    wait_until(lambda: sender.returned or len(puppet.arrived) > before)
    if sender.returned:
        return _why_returned(puppet, count, limit)
    if len(puppet.arrived) > before:
        return (
            "it sends in waves: the next calls came only when all calls had ended. The end of one "
            "call must make room for one call, at once."
        )
    if ended == 1:
        return (
            f"it stopped after {before} calls, and all of them have ended: no place is ever "
            "released. Which line calls `release()`, and when?"
        )
    return f"it stopped after {before} of {count} calls, and they have ended: what is missing?"
