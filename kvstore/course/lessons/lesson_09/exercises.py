"""Lesson 09, further lessons: shedding, a short queue, and a method that gives up."""

import inspect
import math
import random
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import grpc

from kvstore.course.exercises import (
    NOT_ATTEMPTED,
    Exercise,
    StubReached,
    Verdict,
    driven,
    not_yet,
    passed,
)
from kvstore.course.exercises.grading import Drawn
from kvstore.course.exercises.server_trials import ServerFailed
from kvstore.course.lessons.lesson_09.exercises_server import Trial, running
from kvstore.course.lessons.lesson_09.giving_up import PieceDisk
from kvstore.v1.kvstore_pb2 import RetrieveRequest, RetrieveResponse
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceServicer

# 09.in_time_for (further/09_until_it_is_too_late) -----------------------------------------------


def in_time_for_s(offered_per_s: float, threads: int, disk_s: float, deadline_s: float) -> float:
    """Return the seconds until the queue, which grows at λ - X, leaves no time for the disk."""
    served_per_s = threads / disk_s
    if offered_per_s <= served_per_s:
        return math.inf
    longest_wait_s = deadline_s - disk_s
    return longest_wait_s * served_per_s / (offered_per_s - served_per_s)


def _overloads() -> Any:
    """Draw a pool, a rate as a share of its capacity, and a deadline of one disk time or more."""
    from hypothesis import strategies as st

    shares = [0.25, 0.5, 1.0, 1.25, 1.5, 2.0, 4.0]
    return st.builds(
        lambda share, threads, disk_s, times: (
            share * threads / disk_s, threads, disk_s, times * disk_s
        ),
        st.sampled_from(shares),
        st.integers(1, 64),
        st.sampled_from([0.0625, 0.125, 0.25, 0.5]),  # exact, so that λ = X is met exactly
        st.sampled_from([1.0, 1.5, 2.0, 5.0, 20.0]),
    )  # fmt: skip


IN_TIME_FOR = Exercise(
    id="09.in_time_for",
    title="How long are calls in time?",
    hints=(
        "At which rate is the queue emptied, and at which does it grow?",
        "The last call that is in time may wait for deadline - disk. How many are before it then?",
        "Calls that may wait, (deadline - disk)·X, divided by the growth, λ - X.",
    ),
    reference=in_time_for_s,
    judge=Drawn(
        in_time_for_s,
        _overloads(),
        mistakes=(
            (
                "A call that waits for its whole deadline has no time left for its own disk.",
                lambda offered, c, disk, deadline: (
                    math.inf if offered <= c / disk else deadline * c / disk / (offered - c / disk)
                ),
            ),
            (
                "The queue does not grow at λ: calls are served meanwhile, so it grows at λ - X.",
                lambda offered, c, disk, deadline: (
                    math.inf if offered <= c / disk else (deadline - disk) * c / disk / offered
                ),
            ),
            (
                "You divide seconds by a rate. How many *calls* may be in the queue?",
                lambda offered, c, disk, deadline: (
                    math.inf if offered <= c / disk else (deadline - disk) / (offered - c / disk)
                ),
            ),
            (
                "You count on one thread. All of them serve at once, so X is threads / disk_s.",
                lambda offered, c, disk, deadline: (
                    math.inf
                    if offered <= 1 / disk
                    else (deadline - disk) / disk / (offered - 1 / disk)
                ),
            ),
            (
                "At or below the capacity no queue grows: then it goes well for ever, `math.inf`.",
                lambda offered, c, disk, deadline: (
                    math.nan
                    if offered == c / disk
                    else (deadline - disk) * c / disk / (offered - c / disk)
                ),
            ),
            (
                "Below the capacity every call is in time, for ever: return `math.inf`, not 0.",
                lambda offered, c, disk, deadline: (
                    0.0
                    if offered <= c / disk
                    else (deadline - disk) * c / disk / (offered - c / disk)
                ),
            ),
        ),
        right="A queue is short enough up to (deadline - disk)·X calls, and it fills at λ - X. "
        "After that, a server that serves in order of arrival answers no call in time.",
    ),
)


# ---- lesson 09 deadline -------------------------------------------------------------------------
# The method of lesson 09 that gives up: it reads a value piece by piece while there is time.
#
# It is judged by real calls with deadlines, and by the pieces that its disk was asked for. A
# piece takes as long as the trial says, so no judgement depends on the speed of the machine.


LATE: Final = "DEADLINE_EXCEEDED"


class Reader(KeyValueServiceServicer):
    """Reads a value in pieces, and begins none for which its caller does not wait."""

    def __init__(self, disk: Any) -> None:
        self.disk = disk

    def Retrieve(self, request: Any, context: Any) -> RetrieveResponse:
        """Return all pieces; end with DEADLINE_EXCEEDED where one can no longer end in time."""
        value = b""
        for number in range(self.disk.pieces):
            if context.time_remaining() < self.disk.piece_s:
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "too little time is left")
            value += self.disk.read(request.key, number)
        return RetrieveResponse(value=value)


def _unwritten(answer: Callable[..., Any]) -> None:
    """Raise `StubReached` for a method that is still to be written."""
    servicer = answer(PieceDisk(2, 0.01))
    if servicer is NOT_ATTEMPTED:
        raise StubReached
    if not isinstance(servicer, KeyValueServiceServicer):
        raise ServerFailed(
            f"`Reader(disk)` must be a servicer, got {type(servicer).__name__}: hand in the class."
        )
    if inspect.iscoroutinefunction(servicer.Retrieve):
        raise ServerFailed(
            "write `def Retrieve`, not `async def`: the server of the check has threads."
        )
    try:
        found = servicer.Retrieve(RetrieveRequest(key=b"key"), _Patient())
    except Exception:
        return  # the calls will show it
    if found is NOT_ATTEMPTED:
        raise StubReached


class _Patient:
    """The context of a call without a deadline, for a first look at the answer."""

    def time_remaining(self) -> float:
        return 1e9

    def is_active(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: None


def _judge_give_up(answer: Any) -> Verdict:
    draw = random.Random(8)
    try:
        _unwritten(answer)
        for step in (_enough_time, _two_calls, _no_time_at_all, _just_about, _time_for_some):
            if problem := step(answer, draw):
                return not_yet(problem)
    except ServerFailed as failed:
        return not_yet(str(failed))
    return passed(
        "every piece that was begun could still reach its caller. The method looked at the clock"
        " before each piece, not only once."
    )


def _enough_time(answer: Callable[..., Any], draw: random.Random) -> str:
    """Calls with much time or without a deadline: all pieces, in order."""
    for pieces, deadline_s in ((1, None), (draw.randint(2, 6), 60.0), (draw.randint(2, 6), None)):
        disk = PieceDisk(pieces, 10.0)
        key = b"key %d" % draw.randrange(100)
        with running(answer(disk), 4) as trial:
            call = trial.begin(key, deadline_s=deadline_s)
            end = trial.end_of(call)
            waits = "no deadline" if deadline_s is None else f"a deadline of {deadline_s:g} s"
            if end != "OK":
                return (
                    f"{pieces} pieces of 10 s each and {waits}: the call ended with {end}. Before a"
                    " piece, look only at the time for *this* piece."
                )
            if (found := bytes(call.result().value)) != disk.value(key):
                return f"the value must be all pieces in order, {disk.value(key)!r}, got {found!r}."
            if len(disk.read_pieces) != pieces:
                return f"{pieces} pieces were read {len(disk.read_pieces)} times: read each once."
    return ""


class _DiskOfTwo(PieceDisk):
    """A disk whose reads of two calls come in turns."""

    def __init__(self, pieces: int, piece_s: float) -> None:
        super().__init__(pieces, piece_s)
        self._both = threading.Barrier(2, timeout=1.0)

    def read(self, key: bytes, number: int) -> bytes:
        try:
            self._both.wait()
        except threading.BrokenBarrierError:
            pass  # the other call is alone, or never comes
        return super().read(key, number)


def _two_calls(answer: Callable[..., Any], draw: random.Random) -> str:
    """Two calls of one servicer, one after the other and at the same time."""
    for disk, at_once in ((PieceDisk(3, 10.0), False), (_DiskOfTwo(3, 10.0), True)):
        with running(answer(disk), 4) as trial:
            calls = []
            for key in (b"key 1", b"key 2"):
                calls.append(trial.begin(key, deadline_s=None))
                if not at_once:
                    trial.end_of(calls[-1])
            if {trial.end_of(call) for call in calls} != {"OK"}:
                return "two calls with much time came, and one of them did not end with OK."
            found = [bytes(call.result().value) for call in calls]
        if found != [disk.value(b"key 1"), disk.value(b"key 2")]:
            when = "at the same time" if at_once else "one after the other"
            return (
                f"two calls came {when}, and their values were {found}: all calls share `self`, so"
                " keep the pieces of a call in a variable of the method."
            )
    return ""


def _no_time_at_all(answer: Callable[..., Any], draw: random.Random) -> str:
    """A piece takes longer than the caller waits: none may be begun, and the call ends early."""
    disk, waits_s = PieceDisk(draw.randint(1, 5), 30.0), 3.0
    with driven.standing_still(), running(answer(disk), 4) as trial:
        started_s = time.perf_counter()
        end = trial.end_of(trial.begin(deadline_s=waits_s))
        took_s = time.perf_counter() - started_s
    if disk.read_pieces:
        return (
            f"the caller waits for {waits_s:g} s, and a piece takes 30 s: your method began one"
            " all the same. Compare `context.time_remaining()` with `disk.piece_s`."
        )
    if end != LATE:
        return f"without time for a piece, the call must end with {LATE}, got {end}."
    if took_s > 0.8 * waits_s:
        return "the method waited until the deadline. End the call at once: `context.abort(...)`."
    return ""


def _just_about(answer: Callable[..., Any], draw: random.Random) -> str:
    """A little more time than one piece takes, or a little less: by far more than any delay here.

    The pieces of this disk take no time, so that there is as much left before the last one.
    """
    for pieces, piece_s, deadline_s in ((3, 5000.0, 6000.0), (1, 400.0, 500.0), (4, 1e-6, 60.0)):
        disk = PieceDisk(pieces, piece_s)
        with running(answer(disk), 4) as trial:
            end = trial.end_of(trial.begin(deadline_s=deadline_s))
        if end != "OK":
            return (
                f"the caller waits for {deadline_s:g} s, and a piece takes {piece_s:g} s: the call"
                f" ended with {end}. Before a piece, look only at the time for *this* piece."
            )
    for pieces, piece_s, deadline_s in ((3, 5000.0, 4500.0), (1, 500.0, 400.0)):
        disk = PieceDisk(pieces, piece_s)
        with driven.standing_still(), running(answer(disk), 4) as trial:
            end = trial.end_of(trial.begin(deadline_s=deadline_s))
        if disk.read_pieces or end != LATE:
            return (
                f"the caller waits for {deadline_s:g} s, and a piece takes {piece_s:g} s: your"
                f" method read {len(disk.read_pieces)}, and the call ended with {end}. Begin no"
                " piece for which `context.time_remaining()` is less than `disk.piece_s`."
            )
    return ""


def _time_for_some(answer: Callable[..., Any], draw: random.Random) -> str:
    """The first piece takes most of the time: then the next one must not be begun."""
    deadline_s, piece_s, slow_s = 2.4, 0.8, 1.75
    for _ in range(3):  # a machine that is busy may leave no time even for the first piece
        disk = PieceDisk(draw.randint(2, 5), piece_s)
        disk.lasts_s = slow_s
        with running(answer(disk), 4) as trial:
            end = _end_here(trial, trial.begin(deadline_s=deadline_s))
        if disk.read_pieces:
            break
    if not disk.read_pieces:
        return (
            f"the caller waits for {deadline_s} s, and a piece takes {piece_s} s: no piece was"
            " read. There is time for the first one."
        )
    if len(disk.read_pieces) > 1:
        return (
            f"after the first piece {deadline_s - slow_s:.2f} s were left, and a piece takes"
            f" {piece_s} s. Your method began the next piece: look at the time before *each* piece."
        )
    if end != LATE:
        return f"when the time is too short for the next piece, end with {LATE}, got {end}."
    return ""


def _end_here(trial: Trial, call: Any) -> str:
    """Return the status, once the method has ended as well."""
    end = trial.end_of(call)
    time.sleep(0.05)
    return end


GIVE_UP = Exercise(
    id="09.give_up",
    title="Give up in time",
    hints=(
        "`for number in range(self.disk.pieces):` reads the pieces, one `self.disk.read` for each.",
        "Before each piece: is `context.time_remaining()` less than `self.disk.piece_s`? Without a "
        "deadline it is a very large number.",
        '`context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "too little time is left")` raises, so '
        "nothing after it runs. At the end: `return RetrieveResponse(value=value)`.",
    ),
    reference=Reader,
    judge=_judge_give_up,
    timeout_s=60.0,
)
