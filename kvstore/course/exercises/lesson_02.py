"""Lesson 02: a queue that nobody limits, when it fills memory, and a sender that stops in time."""

import math
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


def latency_of_kth(k: int, sent_per_s: float, answered_per_s: float) -> float:
    """Seconds from sending the k-th call to its answer: answered at k/X, sent at (k-1)/lambda."""
    return max(1 / answered_per_s, k / answered_per_s - (k - 1) / sent_per_s)


def _judge_latency(answer: Any) -> Verdict:
    if why := _why_not_five(float(answer(100, math.inf, 20.0))):
        return not_yet(why)
    found = float(answer(100, 40.0, 20.0))
    if math.isclose(found, 5.0):
        return not_yet(
            "at 40 calls/s the 100th call is only sent after 2.475 s, and answered after 5 s: "
            "latency runs from when a call is sent."
        )
    if not _near(found, 2.525):
        return not_yet(
            f"sent at 40/s, answered at 20/s, the 100th call takes {found:.4g} s: write down when "
            "it is sent, and when it is answered."
        )
    found = float(answer(100, 10.0, 20.0))
    if found < 0:
        return not_yet(
            f"sent at 10/s and answered at 20/s the 100th call takes {found:.4g} s: an answer "
            "before the question. Nobody queues here, so how long does one call alone take?"
        )
    if not _near(found, 0.050):
        return not_yet(
            f"sent at 10/s and answered at 20/s no call finds another one before it, and yours "
            f"takes {found:.4g} s: one call alone takes 1/X."
        )
    return passed(
        "k/X - (k-1)/λ: while λ > X, each call waits a little longer than the one before it, "
        "without end. Below X nobody waits."
    )


def _why_not_five(found: float) -> str:
    """What is wrong with the latency of the 100th of calls that are all sent at once, at 20/s."""
    reasons = {
        5.0: "",
        0.050: "that is the time at the lock alone: 99 other calls go through it first.",
        4.950: "99 calls go before it, and then it needs the lock itself: 100 times 1/X.",
        2000.0: "you multiply k by X: do faster servers make their callers wait longer?",
        2.5: "that is the mean over all 100 calls: the last one is asked for.",
    }
    near = [why for value, why in reasons.items() if math.isclose(found, value)]
    other = f"the 100th of 100 calls sent at once takes {found:.4g} s: how many go before it?"
    return near[0] if near else other


LATENCY_OF_KTH = Exercise(
    id="02.latency_of_kth",
    title="How long does the k-th call wait?",
    statement=(
        "Write `latency_of_kth(k, sent_per_s, answered_per_s)`: seconds from sending the k-th call "
        "to its answer, at a server with one lock. `k` counts from 1; the first call is sent at "
        "0 s. `sent_per_s` may be `math.inf`: all at once. It may also be less than "
        "`answered_per_s`."
    ),
    hints=(
        "Write down two times since the start: when is the k-th call sent, and when is it "
        "answered?",
        "A busy server gives its k-th answer at k/X. The k-th call is sent at (k-1)/λ. Latency "
        "is the difference.",
        "When λ < X the server is idle in between, and the difference goes below zero. No call "
        "is faster than 1/X: `max(...)`.",
    ),
    reference=latency_of_kth,
    wrong=(
        WrongAnswer(lambda k, sent, answered: 1 / answered, "at the lock alone"),
        WrongAnswer(lambda k, sent, answered: (k - 1) / answered, "99 calls go before it"),
        WrongAnswer(lambda k, sent, answered: k * answered, "multiply"),
        WrongAnswer(lambda k, sent, answered: k / answered / 2, "mean over all"),
        WrongAnswer(lambda k, sent, answered: k / answered, "is only sent after"),
        WrongAnswer(lambda k, sent, answered: k / answered - (k - 1) / sent, "before the question"),
    ),
    judge=_judge_latency,
)


def seconds_until_full(
    ceiling_mb: float, base_mb: float, kb_per_call: float, sent_per_s: float, answered_per_s: float
) -> float:
    """When memory meets its ceiling: the room, over what the backlog adds each second."""
    growth_mb_per_s = kb_per_call / 1000 * (sent_per_s - answered_per_s)
    if growth_mb_per_s <= 0:
        return math.inf
    return (ceiling_mb - base_mb) / growth_mb_per_s


def _judge_until_full(answer: Any) -> Verdict:
    # 400 MB of room; 50 kB for each of 600 calls more in each second: 30 MB/s.
    found = float(answer(500.0, 100.0, 50.0, 1000.0, 400.0))
    reasons = {
        400 / 30: "",
        400 / 50: "you leave out the answers: a call that was answered gives its memory back.",
        500 / 30: "you start from nothing: the process uses 100 MB before the first call.",
        400 / 30_000: "the room is in MB and a call in kB: 1 MB is 1,000 kB.",
        400 / 70: "answers make room: they are taken off, not added.",
        30 / 400: "that is turned round: more room lasts longer, faster growth does not.",
    }
    near = [why for value, why in reasons.items() if math.isclose(found, value, rel_tol=1e-9)]
    if not near:
        return not_yet(
            f"400 MB of room, 50 kB for each of 600 calls more in each second, gave {found:.4g} s: "
            "by how many MB does memory grow in one second?"
        )
    if near[0]:
        return not_yet(near[0])
    found = float(answer(500.0, 100.0, 50.0, 20.0, 25.0))
    if found != math.inf:
        return not_yet(
            f"the server answers faster than you send, and you say it is full after {found:.4g} s. "
            "It never is: `math.inf`."
        )
    return passed(
        "(ceiling - base) / (bytes per call · (λ - X)). The only way never to get there is λ ≤ X, "
        "and without a limit nothing sees to that."
    )


UNTIL_FULL = Exercise(
    id="02.seconds_until_full",
    title="When is memory full?",
    statement=(
        "Write `seconds_until_full(ceiling_mb, base_mb, kb_per_call, sent_per_s, answered_per_s)`: "
        "seconds until a process that uses `base_mb` at its start reaches the ceiling, or "
        "`math.inf` when it never does."
    ),
    hints=(
        "How many calls more are in flight after each second?",
        "The backlog grows by λ - X calls each second, and memory by that times the cost of a "
        "call. How much room is there for it?",
        "(ceiling - base) / (cost · (λ - X)), with 1 MB = 1,000 kB; `math.inf` when λ ≤ X.",
    ),
    reference=seconds_until_full,
    wrong=(
        WrongAnswer(lambda c, b, kb, sent, x: (c - b) / (kb / 1000 * sent), "leave out"),
        WrongAnswer(lambda c, b, kb, sent, x: c / (kb / 1000 * (sent - x)), "start from nothing"),
        WrongAnswer(lambda c, b, kb, sent, x: (c - b) / (kb * (sent - x)), "1,000 kB"),
        WrongAnswer(lambda c, b, kb, sent, x: (c - b) / (kb / 1000 * (sent + x)), "not added"),
        WrongAnswer(lambda c, b, kb, sent, x: kb / 1000 * (sent - x) / (c - b), "turned round"),
        WrongAnswer(lambda c, b, kb, sent, x: (c - b) / (kb / 1000 * (sent - x)), "never is"),
    ),
    judge=_judge_until_full,
)


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


def _near(found: float, expected: float) -> bool:
    """Within a part of one call: some count the first call as sent at 1/lambda."""
    return abs(found - expected) <= 0.01 * expected + 1e-12
