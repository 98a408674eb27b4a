"""An open loop played through, call by call: calls that come whether or not others are answered.

It takes due times and the server's settings, and nothing that was measured. Each call waits in
one queue for a thread and keeps it through its disk time. Whose deadline has gone by when a
thread gets to it is passed over, as gRPC's own server does.
"""

import itertools
import math
from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import simpy

_ROUNDING_S = 1e-9
"""A call that is done at its deadline is in time, whatever floating point says."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The server. Raises `ValueError` naming the setting when one makes no sense."""

    threads: int
    disk_s: float
    limit: float = math.inf
    """Calls in its hands, beyond which it refuses; infinite to accept all."""
    time_needed_s: float = 0.0
    """Seconds that a call must have left when a thread gets to it, or it is passed over."""

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
        """Whether a call with so much time left is not begun."""
        return left_s <= 0 or left_s < self.time_needed_s - _ROUNDING_S


class Call(NamedTuple):
    """What became of one call; seconds of simulated time."""

    due_s: float
    ended_s: float
    end: str
    """"in time", "late" (done for nobody), "dropped" (never begun) or "refused"."""


@dataclass(frozen=True)
class Played:
    """Every call of an open loop, in the order in which they fell due."""

    calls: tuple[Call, ...]

    @property
    def ends(self) -> Counter[str]:
        """How many calls ended in which way."""
        return Counter(call.end for call in self.calls)

    def goodput_per_s(self, offered_for_s: float) -> float:
        """Calls in time for each of these seconds."""
        return self.ends["in time"] / offered_for_s


def open_loop(
    due_s: Iterable[float], pool: Pool, *, deadline_s: float, until_s: float = math.inf
) -> Played:
    """Play the calls due before `until_s`, in order; each is gone `deadline_s` after it was due."""
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
