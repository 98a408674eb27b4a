"""Simulate an open loop call by call: calls arrive at their due times, answered or not.

The input is due times and the settings of the server, nothing that was measured. Calls wait in
one queue for a thread and keep the thread during their disk time. The server drops a call whose
deadline has passed when a thread takes it, as gRPC's own server does.
"""

import itertools
import math
from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import simpy

_ROUNDING_S = 1e-9
"""Seconds. A call that ends exactly at its deadline is in time, in spite of rounding."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The settings of the simulated server. Raises `ValueError` for a value out of range."""

    threads: int
    disk_s: float
    limit: float = math.inf
    """Calls in the server, waiting or in service; further calls are refused. Infinite: no limit."""
    time_needed_s: float = 0.0
    """Seconds until the deadline that a call needs when a thread takes it; else it is dropped."""

    def __post_init__(self) -> None:
        if self.threads != int(self.threads) or not self.threads >= 1:
            raise ValueError(f"threads must be a whole number of 1 or more, got {self.threads}")
        if not 0 <= self.disk_s < math.inf:
            raise ValueError(f"disk_s must be 0 or more seconds, got {self.disk_s}")
        if not self.limit >= 1:
            raise ValueError(f"limit must be 1 or more, got {self.limit}")
        if not 0 <= self.time_needed_s < math.inf:
            raise ValueError(f"time_needed_s must be 0 or more, got {self.time_needed_s}")

    def passes_over(self, left_s: float) -> bool:
        """Return whether a call with `left_s` seconds until its deadline is dropped."""
        return left_s <= 0 or left_s < self.time_needed_s - _ROUNDING_S


class Call(NamedTuple):
    """The outcome of one call; times are simulated seconds."""

    due_s: float
    ended_s: float
    end: str
    """"in time", "late" (completed after its deadline), "dropped" (not started) or "refused"."""


@dataclass(frozen=True)
class Played:
    """A simulated open loop: every call, in order of due time."""

    calls: tuple[Call, ...]

    @property
    def ends(self) -> Counter[str]:
        """The number of calls by outcome."""
        return Counter(call.end for call in self.calls)

    def goodput_per_s(self, offered_for_s: float) -> float:
        """Return the calls in time per second, over `offered_for_s` seconds."""
        return self.ends["in time"] / offered_for_s


def open_loop(
    due_s: Iterable[float], pool: Pool, *, deadline_s: float, until_s: float = math.inf
) -> Played:
    """Simulate the calls due before `until_s`, with a deadline for each call.

    `due_s` are the due times in seconds, in order. The deadline of a call is `deadline_s` seconds
    after its due time.
    """
    env = simpy.Environment()
    threads = simpy.Resource(env, pool.threads)
    ended: dict[int, Call] = {}
    in_hand = 0

    def one(number: int, due: float) -> Generator[simpy.Event, object, None]:
        nonlocal in_hand
        if in_hand >= pool.limit:
            ended[number] = Call(due, env.now, "refused")
            return
        in_hand += 1
        with threads.request() as thread:
            yield thread
            if pool.passes_over(due + deadline_s - env.now):
                ended[number] = Call(due, env.now, "dropped")
            else:
                yield env.timeout(pool.disk_s)
                in_time = env.now - due <= deadline_s + _ROUNDING_S
                ended[number] = Call(due, env.now, "in time" if in_time else "late")
        in_hand -= 1

    def arrivals() -> Generator[simpy.Event, object, None]:
        for number, due in enumerate(itertools.takewhile(lambda at_s: at_s < until_s, due_s)):
            yield env.timeout(max(0.0, due - env.now))
            env.process(one(number, due))

    env.process(arrivals())
    env.run()
    return Played(tuple(ended[number] for number in sorted(ended)))
