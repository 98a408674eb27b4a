"""disk.py: who waits how long, with no waiting."""

import asyncio

import pytest

from kvstore.codes import CREATE, DELETE, RETRIEVE, UPDATE
from kvstore.server import ServerSettings, disk
from kvstore.server.disk import Disk

BOTH = ServerSettings(read_delay_s=0.01, write_delay_s=0.05)


@pytest.fixture
def slept(monkeypatch) -> list[float]:
    """How long whoever asked would have slept."""
    slept: list[float] = []

    async def sleep(delay_s: float) -> None:
        slept.append(delay_s)

    monkeypatch.setattr(disk.time, "sleep", slept.append)
    monkeypatch.setattr(disk.asyncio, "sleep", sleep)
    return slept


@pytest.mark.parametrize(
    ("delay_s", "kind"), [(0.01, RETRIEVE), (0.05, CREATE), (0.05, UPDATE), (0.05, DELETE)]
)
def test_reads_and_writes_take_their_own_time_on_both_stacks(delay_s, kind, slept):
    Disk(BOTH).work(kind)
    asyncio.run(Disk(BOTH).work_async(kind))

    assert delay_s == Disk(BOTH).delay_s(kind)
    assert [delay_s, delay_s] == slept


def test_no_delay_is_no_sleep_at_all(slept):
    """Even a sleep of nothing gives the turn away."""
    instant = Disk(ServerSettings(read_delay_s=0, write_delay_s=0))
    instant.work(RETRIEVE)
    asyncio.run(instant.work_async(CREATE))

    assert [] == slept


@pytest.mark.parametrize(
    ("instant", "read_delay_s", "write_delay_s"),
    [(True, 0, 0), (False, 0.01, 0), (False, 0, 0.01), (False, 0.01, 0.05)],
)
def test_a_disk_is_instant_when_nothing_waits(instant, read_delay_s, write_delay_s):
    settings = ServerSettings(read_delay_s=read_delay_s, write_delay_s=write_delay_s)

    assert instant == Disk(settings).instant


@pytest.mark.parametrize(
    ("passed_s", "stalled_s"), [(0.0, 0.3), (0.1, 0.2), (0.4, 0.0), (1.1, 0.2), (1.9, 0.0)]
)
def test_a_stalled_disk_first_gets_over_its_stall(passed_s, stalled_s, slept, monkeypatch):
    monkeypatch.setattr(disk.time, "perf_counter", lambda: 5.0)
    stalling = Disk(ServerSettings(read_delay_s=0.01, stall_s=0.3, stall_every_s=1.0))
    monkeypatch.setattr(disk.time, "perf_counter", lambda: 5.0 + passed_s)
    stalling.work(RETRIEVE)
    asyncio.run(stalling.work_async(RETRIEVE))

    assert not stalling.instant
    assert pytest.approx([stalled_s + 0.01] * 2) == slept
