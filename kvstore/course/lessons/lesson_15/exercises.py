"""Lesson 15: how much a change can bring, and a client with two servers, one of which fails."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import grpc
from hypothesis import strategies as st

from kvstore.client.messages import Operation, update
from kvstore.course.exercises import Exercise, Verdict, not_yet, passed
from kvstore.course.exercises.client_trials import Requests, Sender
from kvstore.course.exercises.grading import Drawn
from kvstore.course.exercises.puppet import served
from kvstore.course.lessons.lesson_15.capstone import patient
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc


def most_gain(most_per_s: Mapping[str, float], widened: str) -> float:
    """How many times the throughput at most, once this station is as wide as you like."""
    before_per_s = min(most_per_s.values())
    after_per_s = min(per_s for name, per_s in most_per_s.items() if name != widened)
    return after_per_s / before_per_s


def _drawn(rates: list[int], place: int) -> dict[str, Any]:
    names = ("calls in flight", "pool", "lock", "disk", "processor")
    most_per_s = {name: float(10 * rate) for name, rate in zip(names, rates, strict=False)}
    return {"most_per_s": most_per_s, "widened": list(most_per_s)[place % len(most_per_s)]}


INPUTS = st.builds(_drawn, st.lists(st.integers(1, 40), min_size=2, max_size=5), st.integers(0, 4))
"""Two to five stations, and any of them is widened: also one that does not bind."""

MOST_GAIN = Exercise(
    id="15.most_gain",
    title="What one change can bring",
    hints=(
        "The throughput now is the smallest of all bounds.",
        "After the change it is the smallest bound of the other stations.",
        "Divide the second by the first. A station that does not bind gives 1 without any `if`.",
    ),
    reference=most_gain,
    judge=Drawn(
        most_gain,
        INPUTS,
        mistakes=(
            (
                "The widest station never limits anything: which one binds next?",
                lambda most_per_s, widened: max(most_per_s.values()) / min(most_per_s.values()),
            ),
            (
                "That is the throughput afterwards. How many times the one before is it?",
                lambda most_per_s, widened: min(v for k, v in most_per_s.items() if k != widened),
            ),
            (
                "Upside down: divide the throughput afterwards by the one before.",
                lambda most_per_s, widened: (
                    min(most_per_s.values()) / min(v for k, v in most_per_s.items() if k != widened)
                ),
            ),
            (
                "You widen the bottleneck. But the station that is widened may be another one.",
                lambda most_per_s, widened: (
                    sorted(most_per_s.values())[1] / sorted(most_per_s.values())[0]
                ),
            ),
        ),
        right="The bound of the next station over the bound of the bottleneck: more than this no "
        "change of one station can bring.",
    ),
)


# ---- lesson 15 client ---------------------------------------------------------------------------
# A client with two servers, of which one stalls or goes away: judged by real calls.


COUNT, IN_FLIGHT, TIMEOUT_S = 40, 4, 0.3
"""Operations of a check, the most in flight, and the time after which a call is sent again.

A client that sends all at once has half of them at the server that stalls: far more than the limit
of `_problem`, however busy the machine is.
"""
PATIENCE_S: Final = 5.0
"""How long the stall lasts."""
BREAKS_AFTER = 4
"""Calls that arrive before a server breaks."""
SERVICE_S = 0.002
ATTEMPTS: Final = 10
"""The most attempts of one operation that the exercise allows."""
FAILURES: Final = [status for status in grpc.StatusCode if status.name not in ("OK", "CANCELLED")]
"""The statuses with which a failing server ends its calls, in turn."""
LONG_S: Final = 60.0
"""A time for calls that is not over during the check."""
FULL_S, SETTLE_S = 5.0, 0.1
"""How long the servers wait for all calls that may be in flight, and then for one too many."""


class _Trial:
    """Two servers that count attempts and answers. The first one breaks, or none."""

    def __init__(self, fault: str, in_flight: int = 0) -> None:
        self.answered: Counter[bytes] = Counter()
        self.attempts = [Counter[bytes](), Counter[bytes]()]
        self.most_waiting = 0
        """The most operations that had arrived and had no answer."""
        self.most_ahead = 0
        """The most operations that were taken beyond those that may be in flight."""
        self.taken: Callable[[], int] = lambda: 0
        """How many operations the client has taken."""
        self.fault = fault
        self.broken = threading.Event()
        self.released = threading.Event()
        self._in_flight = in_flight
        self._waiting: set[bytes] = set()
        self.changed = threading.Condition()

    def arrive(self, number: int, key: bytes) -> None:
        """Count an attempt."""
        with self.changed:
            if not self.answered[key]:
                self._waiting.add(key)
            self.most_waiting = max(self.most_waiting, len(self._waiting))
            self.attempts[number][key] += 1
            if sum(counter.total() for counter in self.attempts) == BREAKS_AFTER:
                self.broken.set()
            self.changed.notify_all()

    def work(self, number: int, key: bytes, context: Any) -> None:
        """Answer one call after its service time, and not before the end of a stall."""
        self.arrive(number, key)
        if number == 0 and self.fault == "stall" and self.broken.is_set():
            self.released.wait()
        fails = self.broken.is_set() and (
            self.fault == "both" or (number, self.fault) == (0, "fails")
        )
        if fails:
            with self.changed:
                self._waiting.discard(key)
                status = FAILURES[self.attempts[number].total() % len(FAILURES)]
            context.abort(status, "the check wants this call to fail")
        if self.fault == "none" and not self.answered:
            self._hold_the_first()
        time.sleep(SERVICE_S)
        if context.is_active():
            with self.changed:
                self.answered[key] += 1
                self._waiting.discard(key)

    def _hold_the_first(self) -> None:
        """Hold calls until all places are taken; then look for a call or an operation too many."""
        with self.changed:
            self.changed.wait_for(lambda: len(self._waiting) >= self._in_flight, FULL_S)
            self.changed.wait_for(lambda: len(self._waiting) > self._in_flight, SETTLE_S)
            # Another thread may have answered meanwhile: each answer frees a place.
            places = self._in_flight + self.answered.total()
            self.most_ahead = max(self.most_ahead, self.taken() - places)


class _Service(kvstore_pb2_grpc.KeyValueServiceServicer):
    """One of the two servers."""

    def __init__(self, trial: _Trial, number: int) -> None:
        self._trial, self._number = trial, number

    def Update(self, request: pb.UpdateRequest, context: Any) -> pb.UpdateResponse:
        """Answer one call."""
        self._trial.work(self._number, request.key, context)
        return pb.UpdateResponse()


@contextmanager
def _two_servers(trial: _Trial) -> Iterator[list[str]]:
    with ExitStack() as stack:
        first = stack.enter_context(ExitStack())  # it may end before the second one
        addresses = [
            each.enter_context(served(_Service(trial, number), ThreadPoolExecutor(2 * COUNT)))
            for number, each in enumerate((first, stack))
        ]
        breaking = threading.Thread(target=_when_broken, args=(trial, first))
        breaking.start()
        try:
            yield addresses
        finally:
            trial.broken.set()
            trial.released.set()
            breaking.join()


def _when_broken(trial: _Trial, server: ExitStack) -> None:
    trial.broken.wait()
    if trial.fault == "goes":
        server.close()
    elif trial.fault == "stall":
        trial.released.wait(PATIENCE_S)
        trial.released.set()


def _judge_client(client: Any) -> Verdict:
    for in_flight in (1, IN_FLIGHT, 2 * IN_FLIGHT - 1):
        if problem := _without_a_fault(client, in_flight):
            return not_yet(problem)
    for fault in ("stall", "goes", "fails"):
        trial = _Trial(fault)
        operations = [update(b"item-%d" % n, b"value") for n in range(COUNT)]
        with _two_servers(trial) as addresses:
            began_s = time.perf_counter()
            client(addresses, iter(operations), IN_FLIGHT, TIMEOUT_S)
            lasted_s = time.perf_counter() - began_s
            if problem := _problem(trial, operations, lasted_s):
                return not_yet(problem)
    if problem := _no_server_left(client):
        return not_yet(problem)
    return passed(
        "Every operation was answered, although one server stalled, and then one went away. What "
        "you have paid is a second attempt for some of them."
    )


def _without_a_fault(client: Any, in_flight: int) -> str:
    """Both servers answer, the first calls when all places are taken: one attempt for each."""
    trial = _Trial("none", in_flight)
    wanted = [update(b"item-%d" % n, b"value") for n in range(COUNT)]
    operations = Requests(wanted)
    trial.taken = lambda: operations.count
    with _two_servers(trial) as addresses:
        client(addresses, operations, in_flight, LONG_S)
    if trial.most_waiting > in_flight:
        return _too_many(trial.most_waiting, in_flight)
    if trial.most_ahead > 1:
        return (
            f"{trial.most_ahead} operations were taken that had no place, with in_flight = "
            f"{in_flight}: take the next one from the iterator when its place is nearly there. In "
            "an open loop it waits until the operation is due."
        )
    attempts = [key for counter in trial.attempts for key in counter.elements()]
    if len(attempts) > COUNT:
        return (
            f"{len(attempts)} calls for {COUNT} operations, and no call failed: send an operation "
            "to one server, and to the other one only after its call has failed."
        )
    if lost := COUNT - len(trial.answered):
        return f"{lost} of {COUNT} operations were never sent, although no server failed."
    if trial.most_waiting < in_flight:
        return (
            f"in_flight was {in_flight}, and at most {trial.most_waiting} operations were in "
            "flight. Send the next one without waiting for the reply: `future` does not wait."
        )
    return ""


def _no_server_left(client: Any) -> str:
    """Both servers fail from the first call on: the client must give up, and return."""
    trial = _Trial("both")
    trial.broken.set()
    operations = [update(b"item-%d" % n, b"value") for n in range(IN_FLIGHT)]
    with _two_servers(trial) as addresses:
        sender = Sender(client, (addresses, iter(operations), IN_FLIGHT, TIMEOUT_S))
        until_s = time.monotonic() + FULL_S
        while not sender.returned and time.monotonic() < until_s and _most(trial) <= 2 * ATTEMPTS:
            time.sleep(0.01)
        most = _most(trial)
        if most > ATTEMPTS:
            return (
                f"both servers failed each call, and your client sent one operation {most} times or"
                f" more: give it up after {ATTEMPTS} attempts at most."
            )
        if not sender.returns(FULL_S):
            return "both servers failed each call, and your client did not return."
    return ""


def _most(trial: _Trial) -> int:
    """Return the attempts of the operation that was sent most often."""
    first, second = trial.attempts
    with trial.changed:
        return max((first + second).values(), default=0)


def _too_many(most: int, in_flight: int) -> str:
    return (
        f"{most} operations were open at once, and in_flight was {in_flight}. Acquire a place "
        "before the first attempt, and keep it until the operation is answered."
    )


def _problem(trial: _Trial, operations: Sequence[Operation], lasted_s: float) -> str:
    first, second = trial.attempts
    lost = [each.key for each in operations if not trial.answered[each.key]]
    again = [key for key, count in first.items() if count > 1 and not second[key]]
    if not lost and trial.most_waiting > IN_FLIGHT:
        return _too_many(trial.most_waiting, IN_FLIGHT)
    if trial.fault == "stall" and again:
        return (
            f"{len(again)} operations were sent again to the server that stalled, and never to the "
            "other one. Use another stub for the next attempt."
        )
    if trial.fault == "stall" and lost:
        return (
            f"One server stalled, and {len(lost)} operations ended with DEADLINE_EXCEEDED. Send "
            "such an operation again, in the callback of the call that failed."
        )
    if trial.fault == "stall" and lasted_s >= PATIENCE_S:
        return (
            "One server stalled, and your calls waited until it went on. Give each call a deadline:"
            " `future(request, timeout=timeout_s)`."
        )
    if trial.fault == "fails" and lost:
        return (
            f"One server ended its calls with many different statuses, and {len(lost)} operations"
            " were lost. Whatever is not OK has failed: send the operation again."
        )
    if lost:
        return (
            f"One server went away, and {len(lost)} operations were lost. Their calls ended with "
            "UNAVAILABLE: send them again, too."
        )
    return ""


CLIENT = Exercise(
    id="15.client",
    title="A client that loses nothing",
    hints=(
        "Begin with `bounded` of lesson 03: acquire, send with `future`, release in the callback.",
        "Make one stub for each address, and give each call `timeout=timeout_s`.",
        "In the callback, look at `call.code()`. If it is not OK, do not release the place: send "
        "the same operation again with the stub of the other address.",
        "Write a function `send(operation, attempt)`; its callback calls `send` again. Give up "
        "after a few attempts, and release the place then.",
    ),
    reference=patient,
    judge=_judge_client,
    may_return_none=True,
    may_pause=True,
    timeout_s=60.0,
)
