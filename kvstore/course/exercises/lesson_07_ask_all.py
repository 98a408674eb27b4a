"""Lesson 07: one coroutine that waits for many answers of a back end at once."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kvstore.client import workload
from kvstore.client.channel import connected, target_of
from kvstore.client.client import Client
from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed
from kvstore.server import serving

Ask = Callable[[bytes], Awaitable[bytes]]

VALUES = {b"key %d" % number: b"value %d" % number for number in range(6)}
FAR, UNKNOWN = b"key 1", b"nobody's key"
"""A key whose answer takes longer than the others', and one that the back end does not know."""
KEYS = [b"key 0", FAR, b"key 2", UNKNOWN, b"key 4", b"key 5"]
EXPECTED = [VALUES.get(key) for key in KEYS]


async def ask_all(ask: Ask, keys: Sequence[bytes]) -> list[bytes | None]:
    """The value of each key in the order of `keys`, None for one that is not known."""

    async def one(key: bytes) -> bytes | None:
        try:
            return await ask(key)
        except KeyError:
            return None

    return list(await asyncio.gather(*(one(key) for key in keys)))


class _BackEnd:
    """Asks a real server, and knows how many of its answers were waited for at once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._open = 0
        self.most = 0
        self.asked = 0

    async def ask(self, key: bytes) -> bytes:
        """The value of a key. Raises KeyError when it is not known."""
        self.asked += 1
        self._open += 1
        self.most = max(self.most, self._open)
        try:
            if key == FAR:
                await asyncio.sleep(0.05)
            answer = await self._client.acall(workload.retrieve(key))
        finally:
            self._open -= 1
        if answer.status != "OK":
            raise KeyError(key)
        return answer.value


async def _result(answer: Callable[..., Any], ask: Ask, keys: list[bytes]) -> Any:
    found = answer(ask, keys)
    return await found if inspect.isawaitable(found) else found


async def _nobody(key: bytes) -> bytes:
    raise KeyError(key)


def _judge(answer: Any) -> Verdict:
    found: list[Any] = [asyncio.run(_result(answer, _nobody, []))]  # a stub shows without a server
    with (
        serving(read_delay_s=0.01, write_delay_s=0, locking="per_key", use_asyncio=True) as server,
        connected(target_of(server)) as (channel, _),
    ):
        client = Client(channel, server.address, deadline_s=5.0)
        for key, value in VALUES.items():
            client.call(workload.create(key, value))
        back_end = _BackEnd(client)

        async def work() -> None:
            found[:] = [await _result(answer, back_end.ask, list(KEYS))]

        client.run_async(work)
    return _verdict(found[0], back_end)


def _verdict(found: Any, back_end: _BackEnd) -> Verdict:
    try:
        values = list(found)
    except TypeError:
        return not_yet(f"a list with one value for each key is asked for, got {found!r:.80}.")
    never_run = [value for value in values if inspect.iscoroutine(value)]
    for coroutine in never_run:
        coroutine.close()  # nobody will await it now, and it needs no warning
    if never_run:
        return not_yet(
            "`ask(key)` alone asks nobody: it makes a coroutine, which runs when it is awaited."
        )
    if any(isinstance(value, Exception) for value in values):
        return not_yet(
            "an exception lies in the list of values, where `None` should stand for a key that the"
            " back end does not know."
        )
    if back_end.asked != len(KEYS) or len(values) != len(KEYS):
        return not_yet(
            f"{len(KEYS)} keys, {back_end.asked} questions to the back end, {len(values)} values:"
            " one of each for every key."
        )
    if sorted(map(str, values)) == sorted(map(str, EXPECTED)) and values != EXPECTED:
        return not_yet(
            "all values are there, in the order in which they came: the second key's answer took"
            " longer. Its place is still the second."
        )
    if values != EXPECTED:
        return not_yet(f"the values are not those of the keys: {values} instead of {EXPECTED}.")
    if back_end.most == 1:
        return not_yet(
            "every value is right, but you waited for one after the other: an `await` in a loop is"
            " the blocking client again. Begin all of them, then await."
        )
    if back_end.most < len(KEYS):
        return not_yet(
            f"never more than {back_end.most} of {len(KEYS)} answers were waited for at once."
        )
    return passed(
        f"{len(KEYS)} answers were waited for at once, on one thread; the slow one kept its place,"
        " and the unknown key hurt nobody."
    )


async def _one_by_one(ask: Ask, keys: Sequence[bytes]) -> list[bytes | None]:
    values: list[bytes | None] = []
    for key in keys:
        try:
            values.append(await ask(key))
        except KeyError:
            values.append(None)
    return values


async def _as_they_come(ask: Ask, keys: Sequence[bytes]) -> list[bytes | None]:
    values: list[bytes | None] = []
    for next_one in asyncio.as_completed([ask(key) for key in keys]):
        try:
            values.append(await next_one)
        except KeyError:
            values.append(None)
    return values


async def _lets_one_error_through(ask: Ask, keys: Sequence[bytes]) -> list[bytes]:
    return list(await asyncio.gather(*(ask(key) for key in keys)))


async def _keeps_the_errors(ask: Ask, keys: Sequence[bytes]) -> list[Any]:
    return list(await asyncio.gather(*(ask(key) for key in keys), return_exceptions=True))


async def _never_awaits(ask: Ask, keys: Sequence[bytes]) -> list[Any]:
    return [ask(key) for key in keys]


async def _two_at_a_time(ask: Ask, keys: Sequence[bytes]) -> list[bytes | None]:
    return [
        value
        for first in range(0, len(keys), 2)
        for value in await ask_all(ask, keys[first : first + 2])
    ]


ASK_ALL = Exercise(
    id="07.ask_all",
    title="Wait for all at once",
    statement=(
        "Write the coroutine `ask_all(ask, keys)`: the list of values, one for each key and in the "
        "order of `keys`, None for a key that the back end does not know. `await ask(key)` gives "
        "the value, or raises KeyError. No answer may wait for another one."
    ),
    hints=(
        "`await ask(key)` in a loop waits for each answer before the next question is asked. Where"
        " do you put the `await`, so that all of them are asked first?",
        "`await asyncio.gather(*coroutines)` runs all of them and returns their values in the order"
        " in which you named them.",
        "One KeyError would end the whole `gather`. Write a small coroutine `one(key)` that tries"
        " `await ask(key)` and returns None on KeyError, and gather those.",
    ),
    reference=ask_all,
    wrong=(
        WrongAnswer(_one_by_one, "the blocking client again"),
        WrongAnswer(_as_they_come, "in the order in which they came"),
        WrongAnswer(_lets_one_error_through, "KeyError: b"),
        WrongAnswer(_keeps_the_errors, "an exception lies in the list"),
        WrongAnswer(_never_awaits, "alone asks nobody"),
        WrongAnswer(_two_at_a_time, "never more than 2 of 6"),
    ),
    judge=_judge,
)
