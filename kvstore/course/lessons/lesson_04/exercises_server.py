"""The server of lesson 04: a servicer with a lock for each key, behind a pool of threads."""

import random
import time
from collections.abc import Callable
from typing import Any

import grpc

from kvstore.course.exercises import Verdict, controlled_time, judges, not_yet, passed
from kvstore.course.exercises.puppet import wait_until
from kvstore.course.exercises.server_trials import (
    SETTLE_S,
    ServerUnderTrial,
    started,
    statuses,
)
from kvstore.course.lessons import words

say = words("04")

KEYS = [b"key %d" % number for number in range(8)]
RARE = [b"rare key %d" % number for number in range(2 * controlled_time.MOST_STEPS)]
"""Keys that are written for the first time while a caller stands still."""
VALUES = {key: b"value of " + key for key in (*KEYS, *RARE)} | {b"": b"of the empty key"}
"""What the learner's server holds at the start."""


@judges("04.server")
def _judge_server(answer: Any) -> Verdict:
    draw = random.Random(4)
    steps: list[tuple[Callable[[ServerUnderTrial, random.Random], str], int]] = [
        (_one_call_at_a_time, 2),
        (_writers_and_readers, 8),
        (_a_disk_that_fails, 4),
        (_the_pool, draw.randint(2, 3)),
        (_the_pool, draw.randint(4, 6)),
    ]
    for step, threads in steps:
        with started(answer, VALUES, threads) as trial:
            if problem := step(trial, draw):
                return not_yet(problem)
    with controlled_time.Steps() as stops, started(answer, VALUES, 4) as trial:
        if problem := _two_first_writers(trial, stops) or _one_after_the_other(trial, stops):
            return not_yet(problem)
    return passed(say("passed_server"))


def _one_call_at_a_time(trial: ServerUnderTrial, draw: random.Random) -> str:
    """Values, statuses, and what was done on the disk."""
    key, unknown = draw.choice(KEYS[1:]), b"unknown"
    if (reply := trial.read(key)) != VALUES[key]:
        return say("another_value", right=VALUES[key], reply=reply)
    if trial.disk.reads[key] != 1:
        return say("not_one_read", read=trial.disk.reads[key])
    if (reply := trial.read(unknown)) is not grpc.StatusCode.NOT_FOUND:
        return say("unknown_not_refused", reply=_status(reply))
    if trial.disk.reads[unknown]:
        return say("unknown_read_at_the_disk")
    for attempt in ("first", "second"):
        (status,) = statuses(trial, [trial.begin_write(unknown, b"x")])
        if status != "NOT_FOUND":
            return say("unknown_not_refused_twice", attempt=attempt, status=status)
    (status,) = statuses(trial, [trial.begin_write(key, b"new")])
    if status != "OK" or (reply := trial.read(key)) != b"new":
        return say("update_without_effect", status=status)
    if (reply := trial.read(b"")) != VALUES[b""]:
        return say("empty_key", right=VALUES[b""], reply=_status(reply))
    for value in (b"", b"no longer empty"):
        (status,) = statuses(trial, [trial.begin_write(KEYS[0], value)])
        if status != "OK" or (reply := trial.read(KEYS[0])) != value:
            return say("empty_value", value=value, status=status)
    if trial.disk.writes[unknown]:
        return say("unknown_written_to_the_disk")
    if trial.disk.writes[key] != 1:
        return say("not_one_write", write=trial.disk.writes[key])
    return ""


def _status(reply: bytes | grpc.StatusCode) -> str:
    return reply.name if isinstance(reply, grpc.StatusCode) else f"OK and {reply!r}"


def _writers_and_readers(trial: ServerUnderTrial, draw: random.Random) -> str:
    """Two writers of one key and one of each of two others; then reads, while they write."""
    one, two, three = draw.sample(KEYS, 3)
    schedule = [one, one, two, three]
    draw.shuffle(schedule)
    disk = trial.disk
    with disk.shut("write"):
        writes = [trial.begin_write(key, b"%d" % n) for n, key in enumerate(schedule)]
        wait_until(lambda: len(disk.writing) == 3)
        with controlled_time.running_ahead():  # to wait for a lock for a time is no lock
            time.sleep(SETTLE_S)
        inside = disk.writing
        if max(inside.values(), default=0) > 1:
            return _TWO_WRITERS
        if not inside:
            return say("no_write_at_the_disk")
        if len(inside) < 3:
            return say("one_lock_for_all", inside=len(inside))
        reads = {key: trial.begin_read(key) for key in schedule}
        if not wait_until(lambda: all(read.done() for read in reads.values())):
            return say("reader_takes_the_lock")
        if any(trial.outcome(read).value != VALUES[key] for key, read in reads.items()):
            return say("changed_too_soon")
    if set(ends := statuses(trial, writes)) != {"OK"}:
        return say("writes_failed", ends=", ".join(ends))
    if disk.most_writers > 1:
        return _TWO_WRITERS
    return ""


_TWO_WRITERS = say("two_writers")


def _two_first_writers(trial: ServerUnderTrial, stops: controlled_time.Steps) -> str:
    """The first writer of a key stands between two steps while a second one comes."""
    for number, key in enumerate(RARE[: controlled_time.MOST_STEPS]):
        writers, stopped = _on_the_disk(trial, stops, number, key)
        if writers > 1:
            return say("two_locks_for_a_key")
        if not stopped:
            break
    return ""


def _on_the_disk(
    trial: ServerUnderTrial, stops: controlled_time.Steps, number: int, key: bytes
) -> tuple[int, bool]:
    """Stop a writer before its step; return how many are on the disk, and whether it stopped."""
    disk = trial.disk
    with disk.shut("write"):
        stops.stop_at(number)
        first = trial.begin_write(key, b"first")
        wait_until(lambda: stops.held.is_set() or disk.writing.get(key))
        stopped = stops.held.is_set()
        second = trial.begin_write(key, b"second")
        wait_until(lambda: disk.writing.get(key), SETTLE_S)  # unless it must wait for a lock
        stops.release()
        wait_until(lambda: disk.writing.get(key, 0) > 1, SETTLE_S)
        writers = disk.writing.get(key, 0)
    statuses(trial, [first, second])
    return writers, stopped


def _one_after_the_other(trial: ServerUnderTrial, stops: controlled_time.Steps) -> str:
    """A writer that comes from the disk stands between two steps while a second one comes."""
    for number, key in enumerate(RARE[controlled_time.MOST_STEPS :]):
        stopped = _second_comes(trial, stops, number, key)
        if trial.read(key) != b"second":
            return say("changed_too_late")
        if not stopped:
            break
    return ""


def _second_comes(
    trial: ServerUnderTrial, stops: controlled_time.Steps, number: int, key: bytes
) -> bool:
    """Stop a writer at a step after the disk while a second one comes; whether it stopped."""
    stops.stop_at(number, lambda: trial.disk.writes[key] > 0)
    first = trial.begin_write(key, b"first")
    wait_until(lambda: stops.held.is_set() or first.done())
    stopped = stops.held.is_set()
    second = trial.begin_write(key, b"second")
    wait_until(second.done, SETTLE_S)  # unless it must wait for the lock
    stops.release()
    statuses(trial, [first, second])
    return stopped


def _a_disk_that_fails(trial: ServerUnderTrial, draw: random.Random) -> str:
    """A write that fails must give its lock back."""
    key = draw.choice(KEYS)
    trial.disk.broken.add(key)
    (status,) = statuses(trial, [trial.begin_write(key, b"lost")])
    if status == "OK":
        return say("disk_error_swallowed")
    if trial.read(key) != VALUES[key]:
        return say("changed_without_the_disk")
    again = trial.begin_write(key, b"kept")
    if not wait_until(again.done):
        return say("lock_not_released")
    if trial.outcome(again) is grpc.StatusCode.UNKNOWN or trial.read(key) != b"kept":
        return say("broken_after_an_error")
    return ""


def _the_pool(trial: ServerUnderTrial, draw: random.Random) -> str:
    """More reads than threads: as many on the disk as there are threads, and the others wait."""
    threads = trial.threads
    with trial.disk.shut("read"):
        reads = [trial.begin_read(draw.choice(KEYS)) for _ in range(threads + 3)]
        wait_until(lambda: trial.disk.busy() >= threads)
        time.sleep(SETTLE_S)
        busy = trial.disk.busy()
    ends = statuses(trial, reads)
    if busy != threads:
        return say("another_pool", threads=threads, busy=busy)
    if set(ends) != {"OK"}:
        return say(
            "refused_at_the_pool",
            calls=threads + 3,
            threads=threads,
            ends=", ".join(sorted(set(ends) - {"OK"})),
        )
    return ""
