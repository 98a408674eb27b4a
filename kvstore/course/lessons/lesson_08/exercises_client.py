"""The client of lesson 08: an open loop, with latencies that count from the due times."""

import inspect
import itertools
import threading
import time
import types
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import grpc

from kvstore.course.exercises import Verdict, expect, judges, passed
from kvstore.course.exercises.client_trials import GRACE_S, Requests, sending
from kvstore.course.exercises.puppet import wait_for_count
from kvstore.course.lessons import words
from kvstore.course.stubs import noting
from kvstore.server.hosted import replace_in_code
from kvstore.v1 import kvstore_pb2 as pb

say = words("08")

NEAR_S: Final = 0.2
"""Times of the trial's clock that differ by less are the same: looking at it takes time, too."""


class _Clock:
    """The clock of a trial: a sleep of the answer moves it, and takes no time."""

    def __init__(self) -> None:
        self.now_s, self._lock = 0.0, threading.Lock()

    def sleep(self, seconds: float) -> None:
        """Move the clock."""
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        with self._lock:
            self.now_s += seconds

    def read_s(self) -> float:
        """Return its time; it starts anywhere, as `time.perf_counter` does."""
        self.sleep(0.0001)  # or a loop that looks at it again and again would never end
        return 5_000 + self.now_s

    @contextmanager
    def in_place(self, answer: Any) -> Iterator[None]:
        """Let the answer see this clock in place of the true one while the block lasts."""
        names = {"sleep": self.sleep, **dict.fromkeys(_READINGS, self.read_s)}
        module = types.ModuleType("time")
        module.__dict__.update(vars(time) | names)
        pairs: list[tuple[Any, Any]] = [(time, module)]
        pairs += [(getattr(time, name), instead) for name, instead in names.items()]
        undo = replace_in_code(type("Holder", (), {"answer": inspect.unwrap(answer)}), pairs)
        try:
            yield
        finally:
            undo()


_FAILS: Final = grpc.StatusCode.INTERNAL
_READINGS: Final = ("perf_counter", "monotonic", "time")


def _near(times_s: Iterable[Any], expected_s: Iterable[float]) -> bool:
    pairs = zip(times_s, expected_s, strict=False)
    return all(abs(time_s - expected_s) < NEAR_S for time_s, expected_s in pairs)


def _rounded(times_s: Iterable[float]) -> list[float]:
    return [round(time_s, 1) for time_s in times_s]


@judges("08.open_loop")
def _judge(answer: Any) -> Verdict:
    clock = _Clock()
    with clock.in_place(answer):
        _while_nothing_is_answered(answer, clock, [0.0, 1.0, 1.0, 4.0])
        _behind(answer, clock, [0.0, 1.0, 1.5, 4.0])
    return passed(say("passed_open_loop"))


def _while_nothing_is_answered(answer: Any, clock: _Clock, due_s: Sequence[float]) -> None:
    """No call ends before all are sent: each must be sent at its due time."""
    began_s, sent_s, requests = clock.now_s, list[float](), _requests()
    client = _noting(answer, clock, sent_s)
    with sending(client, requests, due_s) as (puppet, sender):
        reached = wait_for_count(lambda: puppet.waiting, len(due_s), lambda: sender.returned)
        early = sender.returns(GRACE_S)
        expect(
            early or reached or puppet.waiting != 1,
            say("waits_for_reply"),
        )
        expect(
            len(sent_s) == len(due_s),
            say("not_all_sent", due_s=len(due_s), sent_s=len(sent_s)),
        )
        at_s = [time_s - began_s for time_s in sent_s]
        expect(
            _near(at_s, due_s),
            say("another_time", due_s=_rounded(due_s), at_s=_rounded(at_s)),
        )
        expect(not early, say("returned_early"))
        clock.now_s = began_s + 10
        puppet.release(0, _FAILS)
        puppet.let_go()
        expect(sender.returns(), say("never_returns"))
        expect(
            isinstance(sender.result, list) and len(sender.result) == len(due_s),
            say("no_latencies", result=sender.result),
        )
        expected_s = sorted(10 - each_s for each_s in due_s)
        expect(
            _near(sorted(sender.result), expected_s),
            say("another_latency", due_s=_rounded(due_s), rounded=_rounded(sorted(sender.result))),
        )


def _behind(answer: Any, clock: _Clock, due_s: Sequence[float]) -> None:
    """The second request takes until 2 s, so that two are sent late; each call ends at once."""
    began_s, sent_s = clock.now_s, list[float]()

    def late() -> None:
        if requests.count == 1:
            clock.now_s = max(clock.now_s, began_s + 2)

    requests = Requests(_requests(), late)
    client = _noting(answer, clock, sent_s)
    with sending(client, requests, due_s, ended_first=True) as (_, sender):
        expect(sender.returns(), say("hangs"))
    at_s = [time_s - began_s for time_s in sent_s]
    expect(
        _near(at_s, [0, 2, 2, 4]),
        say("late_in_all", due_s=_rounded(due_s), at_s=_rounded(at_s)),
    )
    expect(
        _near(sorted(sender.result), [0, 0, 0.5, 1.0]),
        say("latency_from_sending", rounded=_rounded(sorted(sender.result))),
    )


def _requests() -> Any:
    return (pb.RetrieveRequest(key=b"key %d" % number) for number in itertools.count())


def _noting(answer: Any, clock: _Clock, sent_s: list[float]) -> Any:
    def note() -> None:
        sent_s.append(clock.now_s)

    return lambda stub, *rest: answer(noting(stub, note), *rest)
