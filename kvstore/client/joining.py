"""Users who join one after the other: each is a caller in a closed loop from its time on."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from kvstore.client.client import Client
from kvstore.client.schedule import Schedule

LOOK_S: Final = 0.05
"""Whoever waits for the next user looks this often whether the run has ended meanwhile."""


def users(
    client: Client, schedule: Schedule, in_flight: int, joins: Sequence[float]
) -> Iterator[int]:
    """Yield each user's number when it is time; all at once where `joins` is empty.

    Nobody joins any more once the schedule hands out nothing more.
    """
    for number in range(in_flight):
        while joins and (left_s := joins[number] - client.now_s()) > 0:
            if schedule.stopped:
                return
            time.sleep(min(left_s, LOOK_S))
        yield number


async def users_async(
    client: Client, schedule: Schedule, in_flight: int, joins: Sequence[float]
) -> AsyncIterator[int]:
    """Do as `users` does, and let other tasks run meanwhile."""
    for number in range(in_flight):
        while joins and (left_s := joins[number] - client.now_s()) > 0:
            if schedule.stopped:
                return
            await asyncio.sleep(min(left_s, LOOK_S))
        yield number


def checked(joins: Iterable[float], in_flight: int, strategy: Callable[..., None]) -> list[float]:
    """When each of `in_flight` users joins, in seconds from the start of the run, in order.

    Raises `ValueError` for a strategy without callers of its own, for more or fewer times than
    users, and for a time that makes no sense.
    """
    if "joins" not in inspect.signature(strategy).parameters:
        raise ValueError(
            f"callers cannot join {getattr(strategy, '__name__', 'this strategy')} one by one:"
            " only the strategies threads and tasks have callers of their own"
        )
    times = [float(at_s) for at_s in islice(joins, in_flight + 1)]
    if len(times) != in_flight:
        some = "more" if len(times) > in_flight else f"{len(times)}"
        raise ValueError(
            f"joins says when {some} users begin, and in_flight is {in_flight}: each user has one"
            " call in flight, so give one time for each"
        )
    if times != sorted(times) or not all(0 <= at_s < float("inf") for at_s in times):
        raise ValueError("joins must be seconds from the start of the run, 0 or more, in order")
    return times
