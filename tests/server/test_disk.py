"""disk.py: who waits how long, with no waiting."""

import asyncio

import pytest
from tables import for_each

from kvstore.protocol import CREATE, DELETE, RETRIEVE, UPDATE
from kvstore.server import ServerSettings, disk
from kvstore.server.disk import Disk

BOTH = ServerSettings(read_delay_s=0.01, write_delay_s=0.05)


@pytest.fixture
def slept(monkeypatch) -> list[float]:
    """The seconds for which the callers would have slept."""
    slept: list[float] = []

    async def sleep(delay_s: float) -> None:
        slept.append(delay_s)

    monkeypatch.setattr(disk.time, "sleep", slept.append)
    monkeypatch.setattr(disk.asyncio, "sleep", sleep)
    return slept


@for_each(("delay_s", "kind"), [(0.01, RETRIEVE), (0.05, CREATE), (0.05, UPDATE), (0.05, DELETE)])
def test_reads_and_writes_take_their_own_time_on_both_stacks(delay_s, kind, slept):
    slept.clear()
    Disk(BOTH).work(kind)
    asyncio.run(Disk(BOTH).work_async(kind))

    assert delay_s == Disk(BOTH).delay_s(kind)
    assert [delay_s, delay_s] == slept


@for_each(
    ("instant", "read_delay_s", "write_delay_s"),
    [(True, 0, 0), (False, 0.01, 0), (False, 0, 0.01), (False, 0.01, 0.05)],
)
def test_a_disk_is_instant_when_nothing_waits(instant, read_delay_s, write_delay_s, slept):
    """Then it does not sleep at all: even a sleep of 0 s lets other threads run."""
    slept.clear()
    made = Disk(ServerSettings(read_delay_s=read_delay_s, write_delay_s=write_delay_s))
    made.work(RETRIEVE)
    asyncio.run(made.work_async(CREATE))

    assert instant == made.instant
    assert [delay_s for delay_s in (read_delay_s, write_delay_s) if delay_s] == slept


@for_each(("passed_s", "stalled_s"), [(0.0, 0.3), (0.1, 0.2), (0.4, 0.0), (1.1, 0.2), (1.9, 0.0)])
def test_a_stalled_disk_first_gets_over_its_stall(passed_s, stalled_s, slept, monkeypatch):
    slept.clear()
    monkeypatch.setattr(disk.time, "perf_counter", lambda: 5.0)
    stalling = Disk(ServerSettings(read_delay_s=0.01, stall_s=0.3, stall_every_s=1.0))
    monkeypatch.setattr(disk.time, "perf_counter", lambda: 5.0 + passed_s)
    stalling.work(RETRIEVE)
    asyncio.run(stalling.work_async(RETRIEVE))

    assert not stalling.instant
    assert pytest.approx([stalled_s + 0.01] * 2) == slept
