"""The interceptor of lesson 09, which refuses calls beyond a limit.

It is judged by real calls: how many are in the servicer at once, and how the others end. The trial
holds calls in the servicer, so no judgement depends on a speed.
"""

import functools
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final

import grpc

from kvstore.client.channel import OPTIONS
from kvstore.course.exercises import (
    NOT_ATTEMPTED,
    StubReached,
    Verdict,
    Wrong,
    controlled_time,
    judges,
    not_yet,
    passed,
)
from kvstore.course.exercises.puppet import Puppet, Script, served, wait_until
from kvstore.course.exercises.server_trials import SETTLE_S, unlogged
from kvstore.course.lessons import words
from kvstore.v1.kvstore_pb2 import DESCRIPTOR, RetrieveRequest, UpdateRequest
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

say = words("09")

DEADLINE_S: Final = 8.0
SERVICE: Final = DESCRIPTOR.services_by_name["KeyValueService"]
REFUSED: Final = "RESOURCE_EXHAUSTED"
POOL: Final = "calls"
"""How the names of the server's threads for calls begin."""
NEVER_HELD: Final = b"quick"
DETAILS: Final = SimpleNamespace(method=f"/{SERVICE.full_name}/Retrieve", invocation_metadata=())
"""What an interceptor learns of a call before it is made."""
KEYS: Final = (b"key", NEVER_HELD, *(b"key %d" % number for number in range(100)))
SCRIPT: Final = Script(
    values={key: b"value of " + key for key in KEYS},
    failures={
        b"fails": RuntimeError("the check wants this call to fail"),
        b"aborts": grpc.StatusCode.FAILED_PRECONDITION,
    },
    never_held=frozenset([NEVER_HELD]),
)

# 09.shed ----------------------------------------------------------------------------------------


class Trial:
    """A running server with the learner's code, and a stub that calls it."""

    def __init__(self, servicer: Any, stub: Any, pool: ThreadPoolExecutor, threads: int) -> None:
        self.servicer, self.stub = servicer, stub
        self.pool, self.threads = pool, threads

    def begin(
        self, key: bytes = b"key", *, update: bool = False, deadline_s: Any = DEADLINE_S
    ) -> Any:
        """Start a call and return its future."""
        if update:
            return self.stub.Update.future(UpdateRequest(key=key), deadline_s)
        return self.stub.Retrieve.future(RetrieveRequest(key=key), deadline_s)

    def end_of(self, call: Any) -> str:
        """Wait for a call; return the name of its status. Raises `Wrong`."""
        error = call.exception()
        if error is None:
            return "OK"
        details = str(error.details() or "")
        if "the check wants" in details and error.code() is grpc.StatusCode.UNKNOWN:
            return "FAILED"
        if "Exception" in details or "serialize" in details:
            raise Wrong(say("failed_inside", detail=details[:200]))
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            raise Wrong(say("unknown_method"))
        return str(error.code().name)


@contextmanager
def running(servicer: Any, threads: int, interceptors: tuple[Any, ...] = ()) -> Iterator[Trial]:
    """Serve with the learner's code while the block lasts."""
    pool = ThreadPoolExecutor(threads, POOL)
    with (
        unlogged("grpc._server"),
        served(servicer, pool, interceptors=interceptors) as address,
        grpc.insecure_channel(address, options=OPTIONS) as channel,
    ):
        yield Trial(servicer, KeyValueServiceStub(channel), pool, threads)


def _unwritten(answer: Callable[..., Any]) -> None:
    """Raise `StubReached` for an interceptor that is still to be written."""
    interceptor = answer(1)
    if interceptor is NOT_ATTEMPTED:
        raise StubReached
    if not isinstance(interceptor, grpc.ServerInterceptor):
        raise Wrong(say("no_interceptor", kind=type(interceptor).__name__))
    whole = grpc.unary_unary_rpc_method_handler(lambda request, context: request)
    handler = interceptor.intercept_service(lambda details: whole, DETAILS)
    if handler is NOT_ATTEMPTED:
        raise StubReached
    if not callable(getattr(handler, "unary_unary", None)):
        raise Wrong(say("no_handler", handler=handler))


@judges("09.shed")
def _judge_shed(answer: Any) -> Verdict:
    draw = random.Random(8)
    _unwritten(answer)
    for limit in (1, draw.randint(2, 4), draw.randint(5, 8), 20):
        for step in (_one_by_one, _too_many, _errors):
            with running(Puppet(SCRIPT), 32, (answer(limit),)) as trial:
                if problem := step(trial, limit, draw):
                    return not_yet(problem)
    with controlled_time.Steps() as steps:
        for race in (_the_last_place, _two_ends):
            if problem := race(answer, steps):
                return not_yet(problem)
    with running(Puppet(SCRIPT), 2, (answer(4),)) as trial:
        if problem := _cancelled_in_the_queue(trial, 4):
            return not_yet(problem)
    return passed(say("passed_shed"))


def _one_by_one(trial: Trial, limit: int, draw: random.Random) -> str:
    """One call after the other, more than there are places."""
    for number in range(3 * limit + 2):
        key = b"key %d" % draw.randrange(100)
        call = trial.begin(key)
        end = trial.end_of(call)
        if end != "OK":
            return say("place_lost", limit=limit, call=number + 1, end=end)
        if (value := call.result().value) != b"value of " + key:
            return say("another_reply", value=value, key=key)
    return ""


def _too_many(trial: Trial, limit: int, draw: random.Random) -> str:
    """More calls at once than places, of two methods; then as many again."""
    for attempt in ("first", "second"):
        trial.servicer.hold()
        with controlled_time.standing_still():  # to wait for a place is no refusal, however short
            calls = [
                trial.begin(b"key", update=draw.random() < 0.5)
                for _ in range(limit + draw.randint(1, 6))
            ]
            wait_until(functools.partial(_so_many_done, calls, len(calls) - limit))
            time.sleep(SETTLE_S)
            inside, refused = trial.servicer.waiting, [call for call in calls if call.done()]
            trial.servicer.let_go()
        if inside > limit:
            return say("too_many_inside", limit=limit, inside=inside)
        if len(refused) < len(calls) - limit:
            return say(
                "not_refused_at_once",
                limit=limit,
                calls=len(calls),
                refused=len(refused),
                wanted=len(calls) - limit,
            )
        if inside < limit:
            return say(
                "too_few_let_in", limit=limit, calls=len(calls), inside=inside, attempt=attempt
            )
        ends = {trial.end_of(call) for call in refused}
        if ends != {REFUSED}:
            return say("another_refusal", refused=REFUSED, ends=", ".join(sorted(ends)))
        if {trial.end_of(call) for call in calls if call not in refused} != {"OK"}:
            return say("another_end")
    return ""


def _so_many_done(calls: list[Any], count: int) -> bool:
    return _done(calls) == count


def _done(calls: list[Any]) -> int:
    return sum(bool(call.done()) for call in calls)


def _errors(trial: Trial, limit: int, draw: random.Random) -> str:
    """Calls that fail in the servicer must give their places back, too."""
    for _ in range(limit + 1):
        end = trial.end_of(trial.begin(b"fails"))
        if end == "OK":
            return say("error_swallowed")
        if end == REFUSED:
            return say("place_lost_after_error")
        if end != "FAILED":
            return say("error_changed", end=end)
    end = trial.end_of(trial.begin(b"aborts"))
    if end != "FAILED_PRECONDITION":
        return say("abort_swallowed", end=end)
    return ""


def _the_last_place(answer: Any, steps: controlled_time.Steps) -> str:
    """One call stands between two steps while another one comes; there is one place."""
    for number in range(controlled_time.MOST_STEPS):
        with running(Puppet(SCRIPT), 4, (answer(1),)) as trial:
            inside, stopped = _both_inside(trial, steps, number)
        if inside > 1:
            return say("two_took_the_last_place")
        if not stopped:
            break
    return ""


def _both_inside(trial: Trial, steps: controlled_time.Steps, number: int) -> tuple[int, bool]:
    """Stop a call before its step; return how many were let in, and whether it stopped."""
    held = trial.servicer
    held.hold()
    steps.stop_at(number, _in_the_pool)
    first = trial.begin()
    wait_until(lambda: steps.held.is_set() or held.waiting)
    stopped = steps.held.is_set()
    second = trial.begin()
    _wait_for(lambda: second.done() or held.waiting)
    steps.release()
    _wait_for(lambda: held.waiting > 1)
    inside = held.waiting
    held.let_go()
    for call in (first, second):
        trial.end_of(call)
    return inside, stopped


def _two_ends(answer: Any, steps: controlled_time.Steps) -> str:
    """One call stands between two steps while another one ends; then two places are free."""
    for number in range(controlled_time.MOST_STEPS):
        with running(Puppet(SCRIPT), 8, (answer(2),)) as trial:
            inside, stopped = _let_in_after_two_ends(trial, steps, number)
        if inside != 2:
            return say("two_gave_back_one", inside=inside)
        if not stopped:
            break
    return ""


def _let_in_after_two_ends(
    trial: Trial, steps: controlled_time.Steps, number: int
) -> tuple[int, bool]:
    """Stop a call before its step while another one ends; return how many are let in then."""
    held = trial.servicer
    held.hold()
    first = trial.begin()
    wait_until(lambda: held.waiting, DEADLINE_S)
    steps.stop_at(number, _in_the_pool)
    second = trial.begin(NEVER_HELD)
    wait_until(lambda: steps.held.is_set() or second.done())
    stopped = steps.held.is_set()
    held.let_go()
    _wait_for(first.done)
    steps.release()
    for call in (first, second):
        trial.end_of(call)
    held.hold()
    calls = [trial.begin() for _ in range(4)]
    wait_until(lambda: held.waiting + _done(calls) >= 4, DEADLINE_S)
    inside = held.waiting
    held.let_go()
    for call in calls:
        trial.end_of(call)
    return inside, stopped


def _in_the_pool() -> bool:
    """Whether this is a thread for calls: gRPC calls interceptors in one of its own."""
    return threading.current_thread().name.startswith(POOL)


def _wait_for(condition: Callable[[], object]) -> None:
    """Wait for something that does not come where a call stands still with a lock."""
    wait_until(condition, 2 * SETTLE_S)


def _cancelled_in_the_queue(trial: Trial, limit: int) -> str:
    """Callers give up while their calls wait for a thread: no place may be lost."""
    for _ in range(3):
        threads_are_free = threading.Event()
        for _ in range(trial.threads):  # other work of the server, such as another service
            trial.pool.submit(threads_are_free.wait, DEADLINE_S)
        queued = [trial.begin() for _ in range(limit)]
        time.sleep(SETTLE_S)
        for call in queued:
            call.cancel()
        time.sleep(5 * SETTLE_S)  # the server must hear of it before a thread is free
        threads_are_free.set()
        if trial.end_of(trial.begin()) == REFUSED:
            return say("place_lost_in_the_queue")
    return ""
