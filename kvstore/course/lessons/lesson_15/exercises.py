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
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

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
    return passed(
        "Every request was answered, although one server stalled, one went away, and both were "
        "slow for a while. What you have paid is a second or third attempt for some of them."
    )


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
        return (
            f"{trial.most_ahead} requests were taken that had no permit, with in_flight = "
            f"{in_flight}: take the next one from the iterator when its permit is nearly there. In "
            "an open loop it waits until the request is due."
        )
    attempts = [key for counter in trial.attempts for key in counter.elements()]
    if len(attempts) > COUNT:
        return (
            f"{len(attempts)} calls for {COUNT} requests, and no call failed: send a request "
            "to one server, and to the other one only after its call has failed."
        )
    if lost := COUNT - len(trial.answered):
        return f"{lost} of {COUNT} requests were never sent, although no server failed."
    if trial.most_waiting < in_flight:
        return (
            f"in_flight was {in_flight}, and at most {trial.most_waiting} requests were in "
            "flight. Send the next one without waiting for the reply: `future` does not wait."
        )
    return ""


def _both_slow(client: Any) -> str:
    """Both servers need longer than the time-out for a while: attempts must not pile up."""
    trial = _Trial("slow")
    wanted = [update(b"item-%d" % n, b"value").request for n in range(IN_FLIGHT)]
    with _two_servers(trial) as addresses:
        client(addresses, iter(wanted), IN_FLIGHT, TIMEOUT_S)
    if (most := _most(trial)) > MOST_WHEN_SLOW:
        return (
            f"both servers were slow for {SLOW_PHASE_S:g} s, and your client sent one request"
            f" {most} times: a storm. Each attempt is work for a server that is slow already, and"
            " one with the same time-out ends as the last one did. Let each further attempt take"
            " twice as long."
        )
    if lost := sum(not trial.answered[each.key] for each in wanted):
        return (
            f"both servers were slow for {SLOW_PHASE_S:g} s, with {SLOW_S:g} s for each call, and"
            f" {lost} of {IN_FLIGHT} requests were lost. Let each further attempt take twice as"
            " long."
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
            return (
                f"both servers failed each call, and your client sent one request {most} times or"
                f" more: give it up after {ATTEMPTS} attempts at most."
            )
        if not sender.returns(FULL_S):
            return "both servers failed each call, and your client did not return."
    return ""


def _most(trial: _Trial) -> int:
    """Return the attempts of the request that was sent most often."""
    first, second = trial.attempts
    with trial.changed:
        return max((first + second).values(), default=0)


def _too_many(most: int, in_flight: int) -> str:
    return (
        f"{most} requests were open at once, and in_flight was {in_flight}. Acquire a permit "
        "before the first attempt, and keep it until the request is answered."
    )


def _problem(trial: _Trial, requests: Sequence[Any], lasted_s: float) -> str:
    first, second = trial.attempts
    lost = [each.key for each in requests if not trial.answered[each.key]]
    again = [key for key, count in first.items() if count > 1 and not second[key]]
    if not lost and trial.most_waiting > IN_FLIGHT:
        return _too_many(trial.most_waiting, IN_FLIGHT)
    if trial.fault == "stall" and again:
        return (
            f"{len(again)} requests were sent again to the server that stalled, and never to the "
            "other one. Use another stub for the next attempt."
        )
    if trial.fault == "stall" and lost:
        return (
            f"One server stalled, and {len(lost)} requests ended with DEADLINE_EXCEEDED. Send "
            "such a request again, in the callback of the call that failed."
        )
    if trial.fault == "stall" and lasted_s >= PATIENCE_S:
        return (
            "One server stalled, and your calls waited until it went on. Give each call a deadline:"
            " `future(request, timeout=timeout_s)`."
        )
    if trial.fault == "fails" and lost:
        return (
            f"One server ended its calls with many different statuses, and {len(lost)} requests"
            " were lost. Whatever is not OK has failed: send the request again."
        )
    if lost:
        return (
            f"One server went away, and {len(lost)} requests were lost. Their calls ended with "
            "UNAVAILABLE: send them again, too."
        )
    return ""
