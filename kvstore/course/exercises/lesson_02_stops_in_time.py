"""Lesson 02: a sender that stops before there are too many in flight."""

from collections.abc import Callable, Iterator
from typing import Any

import grpc

from kvstore.client import strategies, workload
from kvstore.client.channel import connected, target_of
from kvstore.client.client import Client
from kvstore.client.workload import Operation
from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed
from kvstore.course.exercises.trials import Trial, tried
from kvstore.server import serving

MOST = 10
CALLS = 3 * MOST


def stops_in_time(client: Client, schedule: Iterator[Operation], most: int) -> None:
    """Send without waiting; once `most` calls are in flight, send no more."""
    for operation in schedule:
        client.start(operation)
        if client.in_flight >= most:
            break
    client.wait_until_idle()


def _judge_stops(answer: Any) -> Verdict:
    with grpc.insecure_channel("127.0.0.1:1") as nowhere:  # a stub shows without any server
        tried(answer, Client(nowhere, "127.0.0.1:1"), [], MOST)
    # Reads are slow and queue up at the lock; creates take no time, and never do.
    reads = [workload.retrieve(b"unknown")] * CALLS
    creates = [
        workload.create(b"key %d" % n, b"value")._replace(due_s=0.05 + 0.005 * n)
        for n in range(CALLS)
    ]
    with serving(locking="global", read_delay_s=0.025, write_delay_s=0) as server:
        slow = _trial(answer, server, reads)
        if why := _why_not(slow):
            return not_yet(why)
        quick = _trial(answer, server, creates)
    if quick.sent < CALLS and quick.most < MOST - 1:
        return not_yet(
            f"a quick server had never more than {quick.most} calls in flight, and you stopped "
            f"after {quick.sent} of {CALLS}: you count what was sent. What was answered is no "
            "longer in flight."
        )
    return passed(
        f"The slow server had {slow.most} calls in flight and got no more; the quick one got "
        f"{quick.sent}. Memory is safe, but {CALLS - slow.sent} operations were never sent: is "
        "there a sender that holds back, and goes on when there is room? That is lesson 03."
    )


def _trial(answer: Any, server: object, operations: list[Operation]) -> Trial:
    target = target_of(server)
    with connected(target) as (channel, _):
        return tried(answer, Client(channel, target.address, deadline_s=5.0), operations, MOST)


def _why_not(slow: Trial) -> str:
    """What is wrong with what the sender did to the slow server; "" when nothing is."""
    if slow.stuck:
        return f"it stands still after {slow.sent} calls, all answered: for what does it wait?"
    if slow.left:
        return (
            f"it returned with {slow.left} calls in flight: who starts calls waits for their "
            "answers, with `client.wait_until_idle()`."
        )
    if slow.most > MOST + 1:
        return (
            f"the limit was {MOST}, and {slow.most} calls were in flight: look at the backlog "
            "after each call that you send. A limit that is looked at later limits nothing."
        )
    if slow.most > MOST:
        return (
            f"the limit was {MOST}, and {slow.most} were in flight: one too many. Stop when the "
            "limit is reached, not when it is passed."
        )
    if slow.most == 1 and slow.sent > 1:
        return (
            "there was never more than one call in flight: `client.call` waits for each answer. "
            "That is safe, and as slow as lesson 01: use `client.start`."
        )
    if slow.sent == CALLS:
        return (
            f"all {CALLS} were sent, never more than {slow.most} at once: your sender waits for "
            "room and goes on. That is what lesson 03 is about; this one is to stop."
        )
    if slow.most < MOST - 1:
        return (
            f"it stopped with only {slow.most} calls in flight, where {MOST} were allowed: what "
            "does it compare with the limit?"
        )
    return ""


def _sender(
    stops: Callable[[Client, int, int], bool], *, verb: str = "start", waits: bool = True
) -> Callable[[Client, Iterator[Operation], int], None]:
    """A sender with a mistake; `stops(client, sent, most)` is asked after each call."""

    def sender(client: Client, schedule: Iterator[Operation], most: int) -> None:
        for sent, operation in enumerate(schedule, start=1):
            getattr(client, verb)(operation)
            if stops(client, sent, most):
                break
        if waits:
            client.wait_until_idle()

    return sender


def _in_time(client: Client, sent: int, most: int) -> bool:
    return client.in_flight >= most


STOPS = Exercise(
    id="02.stops_in_time",
    title="A sender that stops in time",
    statement=(
        "Write `stops_in_time(client, schedule, most)`: send each operation of `schedule` with "
        "`client.start(operation)`, without waiting; but as soon as `most` calls are in flight, "
        "send no more. Return when all that was sent is answered."
    ),
    hints=(
        "Begin with the source of `futures`. After which line do you have to look?",
        "`client.in_flight` is how many calls are sent and not yet answered, just now. It goes "
        "down as well as up.",
        "`if client.in_flight >= most: break` after each `client.start(operation)`, and "
        "`client.wait_until_idle()` after the loop.",
    ),
    reference=stops_in_time,
    wrong=(
        WrongAnswer(_sender(lambda client, sent, most: False), "limits nothing"),
        WrongAnswer(_sender(lambda client, sent, most: sent == most), "you count what was sent"),
        WrongAnswer(_sender(_in_time, verb="call"), "waits for each answer"),
        WrongAnswer(_sender(lambda client, sent, most: client.in_flight > most), "one too many"),
        WrongAnswer(_sender(_in_time, waits=False), "who starts calls waits for their"),
        WrongAnswer(strategies.bounded, "what lesson 03 is about"),
    ),
    judge=_judge_stops,
    may_return_none=True,
)
