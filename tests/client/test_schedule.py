"""schedule.py: when the asking ends, with a clock of our own."""

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kvstore.client import pacing, workload
from kvstore.client.schedule import Schedule
from kvstore.client.workload import Operations


def schedule(**settings) -> Schedule:
    usual = {"clock": lambda: 0.0}
    operations = Operations(workload.crud(value_bytes_mean=1))
    return Schedule(operations, **{**usual, **settings})


@pytest.mark.parametrize("asynchronous", [False, True])
def test_many_callers_send_no_call_before_it_is_due(asynchronous):
    """A caller that finds the end of the schedule must not make the others send early."""
    began_s = time.perf_counter()
    due = schedule(
        duration_s=0.4,
        due_times=pacing.constant_rate(50.0),
        clock=lambda: time.perf_counter() - began_s,
    )
    early: list[float] = []

    async def acall() -> None:
        async for operation in due:
            early.append(operation.due_s - due._clock())

    async def together() -> None:
        await asyncio.gather(*(acall() for _ in range(40)))

    def call(_: object) -> None:
        early.extend(operation.due_s - due._clock() for operation in due)

    if asynchronous:
        asyncio.run(together())
    else:
        with ThreadPoolExecutor(40) as pool:
            list(pool.map(call, range(40)))

    assert 20 == len(early)
    assert max(early) <= 0
    assert due.stopped


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_schedule_that_is_stopped_lets_its_waiting_caller_go(asynchronous):
    due = schedule(due_times=iter([0.0, 1e6]), joins=[0.0, 1e6])

    async def awaited() -> list[object]:
        return [operation async for operation in due]

    for _ in range(2):  # one waits for a due time, the other one to join
        stopper = threading.Timer(0.1, due.stop)
        stopper.start()
        assert len(asyncio.run(awaited()) if asynchronous else list(due)) <= 2


def test_an_open_loop_ends_by_due_time_not_by_the_clock():
    """A client that lags still sends all that was due: its lateness is what is measured."""
    due = schedule(duration_s=0.5, due_times=pacing.constant_rate(10), clock=lambda: 99.0)

    assert 5 == len(list(due))


@pytest.mark.parametrize(("handed_out", "calls", "duration_s"), [(3, 3, 1.0), (4, 9, 0.5)])
def test_of_a_count_and_a_duration_the_first_to_come_ends_it(handed_out, calls, duration_s):
    clock = itertools.count(step=0.125)

    assert handed_out == len(
        list(schedule(calls=calls, duration_s=duration_s, clock=lambda: next(clock)))
    )


def test_a_schedule_that_has_ended_stays_ended():
    """Another caller may ask once more, at a time when the clock went back a little."""
    times = iter([0.0, 0.6, 0.4, 0.4])
    ended, stopped = schedule(duration_s=0.5, clock=lambda: next(times)), schedule()

    assert (1, 0) == (len(list(ended)), len(list(ended)))
    assert 5 == len(list(itertools.islice(stopped, 5)))
    stopped.stop()
    assert [] == list(stopped)


def each_a_little_later(per_s: float) -> Iterator[float]:
    """Due times that let another thread come in between, as any step may."""
    for due_s in pacing.constant_rate(per_s):
        time.sleep(0)
        yield due_s


@pytest.mark.parametrize("due_times", [None, each_a_little_later(1_000)])
def test_threads_that_share_a_schedule_get_each_operation_once(due_times):
    shared = schedule(calls=1_000, due_times=due_times, clock=lambda: time.sleep(0) or 9.0)
    together = threading.Barrier(8)

    def take(_: object) -> list[float]:
        together.wait()
        return [operation.due_s for operation in shared]

    with ThreadPoolExecutor(8) as pool:
        all_due_s = sorted(itertools.chain.from_iterable(pool.map(take, range(8))))

    assert 1_000 == len(all_due_s)
    if due_times:
        assert [number / 1_000 for number in range(1_000)] == all_due_s
