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

    def end(self, at_s: float, status: int, connection: int = 0) -> None:
        self.at_s = at_s
        self.recorder.record(at_s, at_s, at_s, CREATE, status, 0, 0, connection=connection)


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


@pytest.mark.parametrize("gone", [0, 1])
def test_of_several_servers_each_is_watched_by_itself(gone, port):
    """The answers of the one that is well hide nothing of the one that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as well:
        there = f"127.0.0.1:{well.getsockname()[1]}"
        addresses = [there, there]
        addresses[gone] = port.address
        calls = Calls()
        reach = Reach(calls, ",".join(addresses))
        found = []
        for tenth in range(11):
            calls.end(tenth * UNREACHED_S / 10, UNAVAILABLE, connection=2 + gone)
            calls.end(tenth * UNREACHED_S / 10, OK, connection=1 - gone)
            found.append(reach.lost())

        assert [False] * 10 + [True] == found
        assert reach.unavailable_at_last()
        assert [port.address] == reach.silent()


def test_one_of_several_that_refuses_and_listens_is_not_lost(port):
    port.listen()
    calls = Calls()
    reach = Reach(calls, f"{port.address},{port.address}")
    for tenth in range(30):
        calls.end(tenth * UNREACHED_S / 10, UNAVAILABLE, connection=1)
        assert not reach.lost()
    calls.end(tenth * UNREACHED_S / 10, OK, connection=1)

    assert not reach.unavailable_at_last()
    assert [] == reach.silent()
