"""Lesson 15: a client with two servers, which fail in four ways: judged by real calls."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import grpc

from kvstore.client.messages import update
from kvstore.course.exercises import Verdict, judges, not_yet, passed
from kvstore.course.exercises.client_trials import Requests, Sender
from kvstore.course.exercises.puppet import served
from kvstore.course.lessons import words
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

say = words("15")

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
"""The most attempts of one request that the exercise allows."""
FAILURES: Final = [status for status in grpc.StatusCode if status.name not in ("OK", "CANCELLED")]
"""The statuses with which a failing server ends its calls, in turn."""
SLOW_S, SLOW_PHASE_S = 0.9, 4.0
"""What both servers need for a call in their slow phase, three times the time-out, and how long the
phase lasts."""
MOST_WHEN_SLOW: Final = 6
"""Attempts of one request in the slow phase: with time-outs that double there are three or four."""
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
        """The most requests that had arrived and had no answer."""
        self.most_ahead = 0
        """The most requests that were taken beyond those that may be in flight."""
        self.taken: Callable[[], int] = lambda: 0
        """How many requests the client has taken."""
        self.fault = fault
        self.slow_until_s = time.monotonic() + SLOW_PHASE_S
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
        if self.fault == "slow":
            left_s = self.slow_until_s - time.monotonic()
            self.released.wait(max(0.0, min(SLOW_S, left_s)))
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
        """Hold calls until all permits are taken; then look for a call or a request too many."""
        with self.changed:
            self.changed.wait_for(lambda: len(self._waiting) >= self._in_flight, FULL_S)
            self.changed.wait_for(lambda: len(self._waiting) > self._in_flight, SETTLE_S)
            # Another thread may have answered meanwhile: each answer frees a permit.
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


@judges("15.client")
def _judge_client(client: Any) -> Verdict:
    for in_flight in (1, IN_FLIGHT, 2 * IN_FLIGHT - 1):
        if problem := _without_a_fault(client, in_flight):
            return not_yet(problem)
    for fault in ("stall", "goes", "fails"):
        trial = _Trial(fault)
        wanted = [update(b"item-%d" % n, b"value").request for n in range(COUNT)]
        with _two_servers(trial) as addresses:
            began_s = time.perf_counter()
            client(addresses, iter(wanted), IN_FLIGHT, TIMEOUT_S)
            lasted_s = time.perf_counter() - began_s
            if problem := _problem(trial, wanted, lasted_s):
                return not_yet(problem)
    for last in (_both_slow, _no_server_left):
        if problem := last(client):
            return not_yet(problem)
    return passed(say("passed_client"))


def _without_a_fault(client: Any, in_flight: int) -> str:
    """Both servers answer, the first calls when all permits are taken: one attempt for each."""
    trial = _Trial("none", in_flight)
    requests = Requests(update(b"item-%d" % n, b"value").request for n in range(COUNT))
    trial.taken = lambda: requests.count
    with _two_servers(trial) as addresses:
        client(addresses, requests, in_flight, LONG_S)
    if trial.most_waiting > in_flight:
        return _too_many(trial.most_waiting, in_flight)
    if trial.most_ahead > 1:
        return say("taken_too_soon", most_ahead=trial.most_ahead, in_flight=in_flight)
    attempts = [key for counter in trial.attempts for key in counter.elements()]
    if len(attempts) > COUNT:
        return say("sent_to_both", attempts=len(attempts), count=COUNT)
    if lost := COUNT - len(trial.answered):
        return say("never_sent", lost=lost, count=COUNT)
    if trial.most_waiting < in_flight:
        return say("too_few_open", in_flight=in_flight, most_waiting=trial.most_waiting)
    return ""


def _both_slow(client: Any) -> str:
    """Both servers need longer than the time-out for a while: attempts must not pile up."""
    trial = _Trial("slow")
    wanted = [update(b"item-%d" % n, b"value").request for n in range(IN_FLIGHT)]
    with _two_servers(trial) as addresses:
        client(addresses, iter(wanted), IN_FLIGHT, TIMEOUT_S)
    if (most := _most(trial)) > MOST_WHEN_SLOW:
        return say("storm", slow_phase_s=SLOW_PHASE_S, most=most)
    if lost := sum(not trial.answered[each.key] for each in wanted):
        return say(
            "lost_while_slow",
            slow_phase_s=SLOW_PHASE_S,
            slow_s=SLOW_S,
            lost=lost,
            in_flight=IN_FLIGHT,
        )
    return ""


def _no_server_left(client: Any) -> str:
    """Both servers fail from the first call on: the client must give up, and return."""
    trial = _Trial("both")
    trial.broken.set()
    wanted = [update(b"item-%d" % n, b"value").request for n in range(IN_FLIGHT)]
    with _two_servers(trial) as addresses:
        sender = Sender(client, (addresses, iter(wanted), IN_FLIGHT, TIMEOUT_S))
        until_s = time.monotonic() + FULL_S
        while not sender.returned and time.monotonic() < until_s and _most(trial) <= 2 * ATTEMPTS:
            time.sleep(0.01)
        most = _most(trial)
        if most > ATTEMPTS:
            return say("never_gives_up", most=most, attempts=ATTEMPTS)
        if not sender.returns(FULL_S):
            return say("never_returns")
    return ""


def _most(trial: _Trial) -> int:
    """Return the attempts of the request that was sent most often."""
    first, second = trial.attempts
    with trial.changed:
        return max((first + second).values(), default=0)


def _too_many(most: int, in_flight: int) -> str:
    return say("too_many_open", most=most, in_flight=in_flight)


def _problem(trial: _Trial, requests: Sequence[Any], lasted_s: float) -> str:
    first, second = trial.attempts
    lost = [each.key for each in requests if not trial.answered[each.key]]
    again = [key for key, count in first.items() if count > 1 and not second[key]]
    if not lost and trial.most_waiting > IN_FLIGHT:
        return _too_many(trial.most_waiting, IN_FLIGHT)
    if trial.fault == "stall" and again:
        return say("sent_to_the_stalled", again=len(again))
    if trial.fault == "stall" and lost:
        return say("not_sent_again", lost=len(lost))
    if trial.fault == "stall" and lasted_s >= PATIENCE_S:
        return say("waited_for_the_stall")
    if trial.fault == "fails" and lost:
        return say("other_statuses_lost", lost=len(lost))
    if lost:
        return say("lost_when_one_went", lost=len(lost))
    return ""
