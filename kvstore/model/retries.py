"""What a crowd that asks again costs: attempts for each operation that is done."""

import math
from collections.abc import Callable, Generator

import simpy

from kvstore.model.open_loop import Pool
from kvstore.model.prediction import Prediction


def in_lockstep(operations: int, limit: int) -> Prediction:
    """Attempts until all are done, when all ask at once, and the refused again at the same moment.

    Each time `limit` are served and the others refused: n + (n - L) + (n - 2L) + ..., which
    grows with the square of the crowd. Holds while a pause is longer than the work.
    Raises `ValueError` for no operation, or no place for any.
    """
    if not operations >= 1 or not limit >= 1:
        raise ValueError(f"operations and limit must be 1 or more, got {operations} and {limit}")
    rounds = math.ceil(operations / limit)
    return Prediction(
        sum(range(operations, 0, -limit)),
        "attempts",
        f"{operations} at once, {limit} of them served each time: {rounds} rounds",
        "limit",
    )


def played(operations: int, pool: Pool, wait_s: Callable[[int], float]) -> list[tuple[int, float]]:
    """The same crowd played through, for pauses that differ.

    `wait_s` gives the seconds before the next attempt from the number of failures so far.
    Returns for each operation, in the order in which they are done, its attempts and its time.
    """
    env = simpy.Environment()
    in_hand = 0
    done: list[tuple[int, float]] = []

    def one() -> Generator[simpy.Event, object, None]:
        nonlocal in_hand
        attempts = 1
        while in_hand >= pool.limit:
            pause_s = wait_s(attempts)
            if not pause_s > 0:
                raise ValueError("a pause of 0 s asks again for ever within the same moment")
            yield env.timeout(pause_s)
            attempts += 1
        in_hand += 1
        with threads.request() as thread:
            yield thread
            yield env.timeout(pool.disk_s)
        in_hand -= 1
        done.append((attempts, float(env.now)))

    threads = simpy.Resource(env, pool.threads)
    for _ in range(operations):
        env.process(one())
    env.run()
    return done
