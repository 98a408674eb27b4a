"""Some faults, each with one strategy; `tests/long/test_every_fault.py` has all of them."""

from collections.abc import Iterator

import pytest
from long import faults
from long.table import FAULTS

from kvstore.client import strategies
from kvstore.measure.recorder import Recorder
from kvstore.server import Server

pytestmark = pytest.mark.slow

BY_NAME = {fault.name: fault for fault in FAULTS}


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    with faults.shared_servers() as both:
        yield both


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("kill 9", strategies.tasks),
        ("sigstop", strategies.chained),
        ("black hole", strategies.pipelined),
        ("RST of the connection", strategies.bounded),
        ("restart on the same port", strategies.threads),
        ("another server on its port", strategies.blocking),
        ("ctrl c", strategies.pipelined),
        ("full disk", strategies.bounded),
        ("a reply that cannot be parsed", strategies.pipelined),
        ("more calls than the server accepts", strategies.tasks),
    ],
)
def test_a_run_says_what_happened_and_loses_no_call(name, strategy, servers):
    way = next(way for way in faults.ways() if way.strategy is strategy)
    wrong, _ = faults.judge(BY_NAME[name], way, servers[strategy is strategies.pipelined])

    assert not wrong


def test_a_call_that_is_recorded_twice_is_found(monkeypatch, servers):
    """The judge reads the accounts: here the fourth call ends twice."""
    record = Recorder.record

    def stutters(self, *fields) -> None:
        record(self, *fields)
        if len(self) == 4:
            record(self, *fields)

    monkeypatch.setattr(Recorder, "record", stutters)
    monkeypatch.setattr("kvstore.client.monitor.SETTLE_S", 0.5)
    bounded = next(way for way in faults.ways() if way.strategy is strategies.bounded)
    wrong, _ = faults.judge(BY_NAME["ctrl c"], bounded, servers[0])

    assert any("DOES NOT HOLD" in each for each in wrong), wrong
