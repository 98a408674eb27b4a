"""Lesson 04: how many calls are in each box of a server with a pool and a global lock."""

from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed


def where_they_are(in_flight: int, threads: int) -> tuple[int, int, int]:
    """Calls in the pool's queue, waiting for the lock, and on the disk."""
    with_a_thread = min(in_flight, threads)
    return in_flight - with_a_thread, with_a_thread - 1, 1


def _judge(answer: Any) -> Verdict:
    queue, lock, disk = answer(32, 8)
    if disk != 1:
        return not_yet(f"on the disk you put {disk}: the lock that is held there lets in one.")
    if queue == 0:
        return not_yet("nobody in the pool's queue: but 32 calls share 8 threads.")
    if queue + lock + disk != 32:
        return not_yet(
            f"your boxes hold {queue + lock + disk} calls, and 32 are in flight: the one on the "
            "disk has a thread, too."
        )
    if (queue, lock) != (24, 7):
        return not_yet(
            f"you put {queue} in the queue and {lock} at the lock: a call that waits for the lock "
            "has its thread already, and keeps it."
        )
    queue, lock, disk = answer(4, 8)
    if (queue, lock, disk) != (0, 3, 1):
        return not_yet(
            f"with 4 in flight and 8 threads you give {(queue, lock, disk)}: some threads stay "
            "idle, and no box holds fewer than none."
        )
    return passed(
        "N - c in the queue, c - 1 at the lock, 1 on the disk. More threads move the waiting "
        "from one box to the next, and none of it away."
    )


WHERE_THEY_ARE = Exercise(
    id="04.where_they_are",
    title="Where are they?",
    statement=(
        "A server has `threads` threads and one global lock, held through the disk; a round trip "
        "takes no time. Write `where_they_are(in_flight, threads)`: how many calls are in the "
        "pool's queue, how many wait for the lock, and how many are on the disk, as a tuple."
    ),
    hints=(
        "How many calls have a thread? All others are in the pool's queue.",
        "One of those who have a thread has the lock as well, and is on the disk.",
        "`with_a_thread = min(in_flight, threads)`, and the three numbers add up to `in_flight`.",
    ),
    reference=where_they_are,
    wrong=(
        WrongAnswer(lambda n, c: (0, n - 1, 1), "nobody in the pool's queue"),
        WrongAnswer(lambda n, c: (n - c, c, 1), "your boxes hold"),
        WrongAnswer(lambda n, c: (n - c, 0, c), "lets in one"),
        WrongAnswer(lambda n, c: (n - 1, 0, 1), "keeps it"),
        WrongAnswer(lambda n, c: (n - c, c - 1, 1), "fewer than none"),
    ),
    judge=_judge,
)
