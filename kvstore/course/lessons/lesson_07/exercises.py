"""Lesson 07: a client that waits for many replies at once, and the calls of a climb."""

import asyncio
import inspect
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import grpc

from kvstore.client.channel import OPTIONS
from kvstore.client.client import LATE_REPORTS_S
from kvstore.course.exercises import Exercise, Verdict, WrongAnswer, not_yet, passed
from kvstore.course.exercises.grading import Drawn
from kvstore.course.exercises.puppet import PATIENCE_S, Puppet, puppet
from kvstore.v1.kvstore_pb2 import RetrieveRequest
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

# 07.ask_all -----------------------------------------------------------------------------------

SETTLE_S: Final = 0.5
"""The trial looks so long whether one more call arrives."""
EMPTY, UNKNOWN = b"empty", b"no such key"
"""A key whose value has no bytes, and one that the back end does not know."""
VALUES: Final = {**{b"key %d" % number: b"value %d" % number for number in range(20)}, EMPTY: b""}
FAILURES: Final = {
    status.name.encode(): status
    for status in grpc.StatusCode
    if status.name not in ("OK", "NOT_FOUND", "CANCELLED")
}


async def ask_all(stub: Any, keys: Sequence[bytes]) -> list[bytes | None]:
    """Return the value of each key in the order of `keys`, None for one that is not known."""

    async def one(key: bytes) -> bytes | None:
        try:
            reply = await stub.Retrieve(RetrieveRequest(key=key))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise
        value: bytes = reply.value
        return value

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(key)) for key in keys]
    return [task.result() for task in tasks]


def _drawn_keys() -> list[list[bytes]]:
    """Draw lists of keys, from short to long: known and unknown ones, and some keys twice."""
    draw = random.Random(7)
    known = list(VALUES)
    six = [known[0], known[1], known[2], UNKNOWN, EMPTY, known[0]]
    long = [*draw.sample(known, 18), UNKNOWN, EMPTY, *draw.choices(known, k=4)]
    draw.shuffle(long)
    return [[known[3]], six, long, []]


class _Trial:
    """One call of the answer, against a back end that holds every call."""

    def __init__(self, back_end: Puppet, address: str) -> None:
        self.back_end, self.address = back_end, address
        self.most = 0
        """The most calls that waited at the back end at once."""
        self.calls: list[bytes] = []

    async def found(self, answer: Callable[..., Any], keys: list[bytes]) -> Any:
        """Return what the answer returns; the back end answers in an order that is drawn."""
        before = len(self.back_end.arrived)
        async with grpc.aio.insecure_channel(self.address, options=OPTIONS) as channel:
            stub = KeyValueServiceStub(channel)
            with self.back_end.shut():
                task = asyncio.ensure_future(_result(answer, stub, list(keys)))
                await self._all_there(task, len(keys))
                self.most = self.back_end.waiting
                if self.most == len(keys):
                    order = list(range(before, before + len(keys)))
                    random.Random(len(keys)).shuffle(order)
                    for number in order[:-1] if keys else ():
                        self.back_end.release(number)
                        await asyncio.sleep(0.005)
            try:
                return await task
            finally:
                self.calls = [call.key for call in self.back_end.arrived[before:]]
                await asyncio.sleep(LATE_REPORTS_S)  # gRPC reports the end of a call left behind

    async def _all_there(self, task: Any, count: int) -> None:
        """Wait until all calls have arrived, the answer has ended, or no more calls come."""
        loop = asyncio.get_running_loop()
        began_s = last_s = loop.time()
        seen = 0
        while not task.done() and self.back_end.waiting < count:
            if self.back_end.waiting > seen:
                seen, last_s = self.back_end.waiting, loop.time()
            if loop.time() > (last_s + SETTLE_S if seen else began_s + PATIENCE_S):
                return
            await asyncio.sleep(0.002)


async def _result(answer: Callable[..., Any], stub: Any, keys: list[bytes]) -> Any:
    found = answer(stub, keys)
    return await found if inspect.isawaitable(found) else found


def _status(error: BaseException | None) -> Any:
    """Return the status of the failed call that this error is, or that led to it; else None."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            return next(filter(None, map(_status, error.exceptions)), None)
        if isinstance(error, grpc.RpcError):
            return error.code()
        error = error.__cause__
    return None


def _judge_ask_all(answer: Any) -> Verdict:
    asyncio.run(_result(answer, None, []))  # one that is still to be written shows, with no server
    with puppet(VALUES, FAILURES) as (back_end, address):
        trial = _Trial(back_end, address)
        for keys in _drawn_keys():
            if problem := _problem(asyncio.run(trial.found(answer, keys)), keys, trial):
                return not_yet(problem)
        for key, status in FAILURES.items():
            try:
                asyncio.run(trial.found(answer, [b"key 1", key, UNKNOWN]))
            except BaseException as error:
                if _status(error) is status:
                    continue
                raise
            return not_yet(
                f"one call ended with {status.name}, and your coroutine returned a list as if all"
                " were well. Only the status NOT_FOUND means that the back end does not know the"
                " key: look at `error.code()`, and raise every other error."
            )
    return passed(
        "all calls were in flight at once, on one thread. The values stand in the order of the"
        " keys, and an unknown key did not disturb the others."
    )


def _problem(found: Any, keys: list[bytes], trial: _Trial) -> str:
    expected = [VALUES.get(key) for key in keys]
    try:
        values = list(found)
    except TypeError:
        return f"return a list with one value for each key, got {found!r:.80}."
    never_run = [value for value in values if inspect.isawaitable(value)]
    for each in never_run:
        if inspect.iscoroutine(each):
            each.close()  # nothing awaits it now, and it needs no warning
    if never_run:
        return (
            "the list has a call, a task or a coroutine where a value should be: each has to be"
            " awaited."
        )
    if any(isinstance(value, BaseException) for value in values):
        return (
            "the list has an exception where `None` should stand for a key that the back end does"
            " not know."
        )
    if any(hasattr(value, "SerializeToString") for value in values):
        return "the list has a reply: return its `value`."
    if len(trial.calls) != len(keys) or len(values) != len(keys):
        return (
            f"{len(keys)} keys, {len(trial.calls)} calls to the back end, {len(values)} values:"
            " every key needs one call and one value, also a key that stands there twice."
        )
    if values != expected and sorted(map(str, values)) == sorted(map(str, expected)):
        return (
            "all values are there, in the order in which the replies came. Put them in the order"
            " of the keys."
        )
    for key, value, right in zip(keys, values, expected, strict=True):
        if value != right:
            return f"the value of {key!r} must be {right!r}, got {value!r}."
    if trial.most < min(2, len(keys)):
        return (
            "every value is right, but each call waited for the reply before it: an `await` in a"
            " loop is the blocking client again. Start all calls, then await."
        )
    if trial.most < len(keys):
        return f"never more than {trial.most} of {len(keys)} calls were in flight at once."
    return ""


# Known-wrong answers, each as a learner would write it.


async def _one(stub: Any, key: bytes) -> bytes | None:
    return (await ask_all(stub, [key]))[0]


async def _one_by_one(stub: Any, keys: Sequence[bytes]) -> list[bytes | None]:
    return [await _one(stub, key) for key in keys]


async def _as_they_come(stub: Any, keys: Sequence[bytes]) -> list[bytes | None]:
    return [await each for each in asyncio.as_completed([_one(stub, key) for key in keys])]


async def _lets_one_error_through(stub: Any, keys: Sequence[bytes]) -> list[bytes]:
    replies = await asyncio.gather(*(stub.Retrieve(RetrieveRequest(key=key)) for key in keys))
    return [reply.value for reply in replies]


async def _keeps_the_errors(stub: Any, keys: Sequence[bytes]) -> list[Any]:
    calls = (stub.Retrieve(RetrieveRequest(key=key)) for key in keys)
    replies = await asyncio.gather(*calls, return_exceptions=True)
    return [getattr(reply, "value", reply) for reply in replies]


async def _never_awaits(stub: Any, keys: Sequence[bytes]) -> list[Any]:
    return [stub.Retrieve(RetrieveRequest(key=key)) for key in keys]


async def _two_at_a_time(stub: Any, keys: Sequence[bytes]) -> list[bytes | None]:
    return [
        value
        for first in range(0, len(keys), 2)
        for value in await ask_all(stub, keys[first : first + 2])
    ]


async def _each_key_once(stub: Any, keys: Sequence[bytes]) -> list[bytes | None]:
    return await ask_all(stub, list(dict.fromkeys(keys)))


async def _any_error_is_none(stub: Any, keys: Sequence[bytes]) -> list[Any]:
    async def one(key: bytes) -> Any:
        try:
            return (await stub.Retrieve(RetrieveRequest(key=key))).value
        except Exception:
            return None

    return list(await asyncio.gather(*(one(key) for key in keys)))


async def _empty_is_none(stub: Any, keys: Sequence[bytes]) -> list[bytes | None]:
    return [value or None for value in await ask_all(stub, keys)]


async def _returns_replies(stub: Any, keys: Sequence[bytes]) -> list[Any]:
    async def one(key: bytes) -> Any:
        try:
            return await stub.Retrieve(RetrieveRequest(key=key))
        except grpc.aio.AioRpcError:
            return None

    return list(await asyncio.gather(*(one(key) for key in keys)))


ASK_ALL = Exercise(
    id="07.ask_all",
    title="Wait for all at once",
    hints=(
        "`await stub.Retrieve(...)` in a loop waits for each reply before the next call starts."
        " Start one task for each key, and await all of them together.",
        "`async with asyncio.TaskGroup() as group:` waits for all tasks of"
        " `group.create_task(...)`. After the block, `task.result()` is the value of a task.",
        "One NOT_FOUND would end the whole group. Write a small coroutine `one(key)` that tries"
        " `await stub.Retrieve(...)` and returns None on NOT_FOUND. Start one task of it per key.",
    ),
    reference=ask_all,
    wrong=(
        WrongAnswer(_one_by_one, "the blocking client again"),
        WrongAnswer(_as_they_come, "in the order in which the replies came"),
        WrongAnswer(_lets_one_error_through, "NOT_FOUND"),
        WrongAnswer(_keeps_the_errors, "the list has an exception"),
        WrongAnswer(_never_awaits, "each has to be awaited"),
        WrongAnswer(_two_at_a_time, "never more than 2 of 6"),
        WrongAnswer(_each_key_once, "also a key that stands there twice"),
        WrongAnswer(_any_error_is_none, "as if all were well"),
        WrongAnswer(_empty_is_none, "the value of b'empty' must be b''"),
        WrongAnswer(_returns_replies, "return its `value`"),
    ),
    judge=_judge_ask_all,
)


# 07.calls_in_climb (further/07_jmeters_summary) ------------------------------------------------


def calls_in_climb(users: int, climb_s: float, threads: float, wait_s: float) -> float:
    """Return the area under X(t) = min(N(t), threads) / wait_s, with N from 0 to `users`."""
    limit = min(users, threads)
    full_at_s = climb_s * limit / users
    in_service = limit / 2 * full_at_s + limit * (climb_s - full_at_s)
    return in_service / wait_s


def _climbs() -> Any:
    from hypothesis import strategies as st

    return st.tuples(
        st.integers(1, 500),
        st.sampled_from([1.0, 5.0, 20.0, 30.0, 60.0]),
        st.integers(1, 500),
        st.sampled_from([0.01, 0.1, 0.25, 0.4, 1.0]),
    )


CALLS_IN_CLIMB = Exercise(
    id="07.calls_in_climb",
    title="The calls of a whole climb",
    hints=(
        "X(t) = min(N(t), c) / S. The calls are the area under it.",
        "N(t) meets the limit after `climb_s * threads / users` seconds. Before that the area is a "
        "triangle, after it a rectangle.",
        "With fewer users than threads there is no rectangle: begin with "
        "`limit = min(users, threads)`.",
    ),
    reference=calls_in_climb,
    judge=Drawn(
        calls_in_climb,
        _climbs(),
        mistakes=(
            (
                "That is all users all the time: they join one after the other.",
                lambda n, t, c, w: n / w * t,
            ),
            (
                "That is the rate at the end of the climb all the time: at its start there are "
                "few users.",
                lambda n, t, c, w: min(n, c) / w * t,
            ),
            (
                "That is the area under N(t): no more calls than there are threads are in service "
                "at once.",
                lambda n, t, c, w: n / 2 / w * t,
            ),
            (
                "min(mean of N, c) is not the mean of min(N, c): the pool is full at the end only.",
                lambda n, t, c, w: min(n / 2, c) / w * t,
            ),
            (
                "Those are seconds of service: how many calls fit into them?",
                lambda n, t, c, w: calls_in_climb(n, t, c, w) * w,
            ),
            (
                "That is a rate in calls/s, averaged over the climb: multiply it by its seconds.",
                lambda n, t, c, w: calls_in_climb(n, t, c, w) / t,
            ),
            (
                "With fewer users than threads the pool is never full: begin with `min(users, "
                "threads)`.",
                lambda n, t, c, w: (c / 2 * t * c / n + c * (t - t * c / n)) / w,
            ),
        ),
        right="the area under X(t) = min(N(t), c)/S. Over the whole climb, the limit of a pool is"
        " nearly invisible. Look at the end of the climb.",
    ),
)
