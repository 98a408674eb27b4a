"""The clients of lesson 02: futures with callbacks."""

import random
from collections.abc import Sequence
from typing import Any

import grpc

from kvstore.course.exercises import Verdict, judges, not_yet, passed
from kvstore.course.exercises.client_trials import GRACE_S, WAIT_S, reach_stub, sending
from kvstore.course.exercises.puppet import wait_for_count, wait_until
from kvstore.course.lessons import words
from kvstore.v1.kvstore_pb2 import RetrieveRequest

say = words("02")

OK, NOT_FOUND = grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND
ENDS = (OK, NOT_FOUND, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE)


Ending = tuple[int, grpc.StatusCode]
"""Which of the held calls ends next, counted from 0 in order of arrival, and how."""


def _orders() -> list[list[Ending]]:
    """How the calls end, one after the other: from few calls to many."""
    drawn = random.Random(2)
    return [
        [(0, OK)],
        [(1, NOT_FOUND), (0, OK)],
        [],
        *(
            [(drawn.randrange(left), drawn.choice(ENDS)) for left in range(count, 0, -1)]
            for count in (5, 12, 130)  # more than any limit of the answer's own
        ),
    ]


@judges("02.send_all")
def _judge_send_all(answer: Any) -> Verdict:
    reach_stub(answer, iter(()))
    for order in _orders():
        if why := _why_not_all(answer, order):
            return not_yet(why)
    if why := _why_not_all(answer, [(1, NOT_FOUND), (0, OK)], callbacks_late_s=GRACE_S):
        return not_yet(why)
    if why := _why_stuck(answer):
        return not_yet(why)
    return passed(say("passed_send_all"))


def _why_not_all(answer: Any, order: Sequence[Ending], callbacks_late_s: float = 0.0) -> str:
    """What is wrong with the answer when the calls end in this order; "" where it is right."""
    keys = [n // 2 if len(order) > 2 else n for n in range(len(order))]  # two may be alike
    requests = iter([RetrieveRequest(key=b"key %d" % key) for key in keys])
    with sending(answer, requests, callbacks_late_s=callbacks_late_s) as (puppet, sender):
        if not wait_for_count(lambda: puppet.waiting, len(order), lambda: sender.returned):
            if puppet.waiting > 1:
                return say("not_all_sent", order=len(order), waiting=puppet.waiting)
            return say("waits_for_reply", order=len(order), waiting=puppet.waiting, wait_s=WAIT_S)
        for count, (place, status) in enumerate(order, start=1):
            # the last call stays open until a sender that waits for a time would have returned
            if sender.returns_early() if count == len(order) else sender.returned:
                return say(
                    "returned_early",
                    result=sender.result,
                    left=len(order) + 1 - count,
                    order=len(order),
                )
            puppet.release(puppet.held()[place], status)
            wait_until(lambda count=count: sender.recorded >= count)  # type: ignore[misc]
        returns = sender.issued <= len(order) and sender.returns(
            WAIT_S + callbacks_late_s * len(order)
        )
        if sender.issued > len(order):  # perhaps after the judge ended those that it knew
            return say("sent_twice", issued=sender.issued, order=len(order))
        if not returns:
            return say("never_returns", order=len(order))
        return _why_not_codes(sender.result, [status for _, status in order])


def _why_stuck(answer: Any) -> str:
    """What is wrong where each call has ended before its callback is added."""
    requests = [RetrieveRequest(key=b"key %d" % n) for n in range(5)]
    with sending(answer, iter(requests), ended_first=True) as (puppet, sender):
        if not sender.returns():
            return say("callback_under_lock", arrived=len(puppet.arrived), requests=len(requests))
        return _why_not_codes(sender.result, [OK] * len(requests))


def _why_not_codes(returned: Any, codes: Sequence[grpc.StatusCode]) -> str:
    if not isinstance(returned, list) or not all(
        isinstance(each, grpc.StatusCode) for each in returned
    ):
        return say("no_codes", result=returned, ok=OK)
    names, wanted = [[code.name for code in each] for each in (returned, codes)]
    left_out = sorted(set(wanted) - set(names) - {OK.name})
    if len(names) < len(wanted) and left_out:
        return say("failed_left_out", names=names, left_out=left_out[0])
    if len(names) != len(wanted):
        return say("callbacks_not_awaited", names=len(names), wanted=len(wanted))
    if names != wanted:
        return say("order_of_sending", names=names, wanted=wanted)
    return ""
