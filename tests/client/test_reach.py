"""reach.py: telling a server that refuses calls from one that is not there."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from kvstore.client.reach import UNREACHED_S, Reach
from kvstore.codes import CREATE, DEADLINE_EXCEEDED, OK, UNAVAILABLE
from kvstore.measure.recorder import Recorder


class Calls:
    """Stands for a client: its records, and a clock that is set by hand."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.at_s = 0.0

    def now_s(self) -> float:
        return self.at_s

    def end(self, at_s: float, status: int) -> None:
        self.at_s = at_s
        self.recorder.record(at_s, at_s, at_s, CREATE, status, 0, 0)


@pytest.fixture
def port() -> Iterator[SimpleNamespace]:
    """An address of our own, where nobody listens until `listen()`."""
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        yield SimpleNamespace(address=f"127.0.0.1:{own.getsockname()[1]}", listen=own.listen)


def test_only_unavailable_for_a_while_and_nobody_there_is_lost(port):
    calls = Calls()
    reach = Reach(calls, port.address)
    found = []
    for at_s, status in [(1, OK), (2, UNAVAILABLE), (2 + UNREACHED_S / 2, UNAVAILABLE)]:
        calls.end(at_s, status)
        found.append(reach.lost())
    calls.at_s = 2 + UNREACHED_S

    assert [False, False, False, True] == [*found, reach.lost()]


@pytest.mark.parametrize("status", [OK, DEADLINE_EXCEEDED])
def test_any_other_end_begins_the_wait_anew(status, port):
    calls = Calls()
    reach = Reach(calls, port.address)
    calls.end(0.0, UNAVAILABLE)
    assert not reach.lost()
    calls.end(0.9 * UNREACHED_S, status)
    calls.end(1.0 * UNREACHED_S, UNAVAILABLE)
    assert not reach.lost()
    calls.at_s = 1.9 * UNREACHED_S
    assert not reach.lost()
    calls.at_s = 2.0 * UNREACHED_S
    assert reach.lost()


def test_a_server_that_listens_may_refuse_for_as_long_as_it_likes(port):
    port.listen()
    calls = Calls()
    reach = Reach(calls, port.address)
    for tenth in range(50):
        calls.end(tenth * UNREACHED_S / 10, UNAVAILABLE)
        assert not reach.lost()


def test_a_run_that_waits_for_answers_is_not_lost(port):
    calls = Calls()
    reach = Reach(calls, port.address)
    calls.at_s = 100.0

    assert not reach.lost()
