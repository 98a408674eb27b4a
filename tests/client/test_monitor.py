"""monitor.py: memory ceilings, and a server that refuses calls or is gone."""

import itertools
import socket
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from kvstore.client import load, workload
from kvstore.client import monitor as reach_module
from kvstore.client.errors import RunFailed
from kvstore.client.monitor import UNREACHED_S, Reachability
from kvstore.measure import audit
from kvstore.measure.recorder import Recorder
from kvstore.protocol import (
    CREATE,
    DEADLINE_EXCEEDED,
    OK,
    RESOURCE_EXHAUSTED,
    UNAVAILABLE,
)
from kvstore.server import serving

READS = workload.reads(keys=1, value_bytes_mean=16, sizes="fixed")


@pytest.fixture(scope="module")
def serial():
    with serving(read_delay_s=0.2, write_delay_s=0) as server:
        yield server


@pytest.mark.slow
def test_a_strategy_that_fails_leaves_no_call_without_an_end(serial):
    """A sender whose channel is closed under it fails just like this one."""

    def stumbles(stub, operations, in_flight):
        for operation in itertools.islice(operations, 5):
            operation.rpc(stub).future(operation.request)
        raise ZeroDivisionError

    with pytest.raises(RunFailed, match="5") as failed:
        load.run(stumbles, serial, READS, calls=10)

    assert 5 == failed.value.run.issued
    assert audit(failed.value.run).holds


@pytest.mark.slow
def test_a_strategy_that_returns_too_early_has_its_calls_cancelled(serial):
    def leaves(stub, operations, in_flight):
        for operation in operations:
            operation.rpc(stub).future(operation.request)

    run = load.run(leaves, serial, READS, calls=5)

    assert 5 == sum(run.outcomes().values())
    assert run.outcomes()["CANCELLED"] >= 1
    assert audit(run).holds


class Calls:
    """Stands for a client: its records, and a clock that is set by hand."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.recorder.connected()
        self.recorder.now_s = lambda: self.at_s  # type: ignore[method-assign]
        self.at_s = 0.0

    def end(self, at_s: float, status: int, connection: int = 0) -> None:
        self.at_s = at_s
        self.recorder.record(at_s, at_s, at_s, CREATE, status, 0, 0, connection=connection)


@pytest.fixture
def port() -> Iterator[SimpleNamespace]:
    """An address at which no server listens until `listen()`."""
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        yield SimpleNamespace(address=f"127.0.0.1:{own.getsockname()[1]}", listen=own.listen)


@pytest.mark.parametrize(
    ("lost", "listens", "ends"),
    [
        ([False, False, False, True], False, [(1, OK), (2, UNAVAILABLE), (2.5, UNAVAILABLE), 3]),
        ([False] * 4, True, [(1, OK), (2, UNAVAILABLE), (2.5, UNAVAILABLE), 3]),
        *(
            (
                [False] * 4 + [True],
                False,
                [(0, UNAVAILABLE), (0.9, other), (1, UNAVAILABLE), 1.9, 2],
            )
            for other in (OK, DEADLINE_EXCEEDED)
        ),
    ],
)
def test_only_unavailable_for_a_while_and_a_closed_port_is_lost(lost, listens, ends, port):
    """Any other end begins the wait anew, and a server that listens may refuse for ever."""
    if listens:
        port.listen()
    calls = Calls()
    reach = Reachability(calls, port.address)
    found = []
    assert not reach.lost()  # no call has ended
    for each in ends:
        if isinstance(each, tuple):
            calls.end(each[0] * UNREACHED_S, each[1])
        else:
            calls.at_s = each * UNREACHED_S
        found.append(reach.lost())

    assert lost == found


@pytest.mark.parametrize(
    ("ends", "last_answer_s"),
    [
        ([OK, OK, DEADLINE_EXCEEDED, DEADLINE_EXCEEDED], 1.0),
        ([UNAVAILABLE, DEADLINE_EXCEEDED], 0.0),
        ([OK, DEADLINE_EXCEEDED, OK], None),  # it came back
        ([OK, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED], None),  # a refusal is an answer
    ],
)
def test_a_server_is_unresponsive_from_its_last_answer_on(ends, last_answer_s, port, monkeypatch):
    """It accepts connections, as the kernel does for a stopped process, and says nothing."""
    monkeypatch.setattr(reach_module, "ANSWER_S", 0.1)
    port.listen()
    calls = Calls()
    for at_s, status in enumerate(ends):
        calls.end(float(at_s), status)
    expected = {} if last_answer_s is None else {port.address: last_answer_s}

    assert expected == Reachability(calls, port.address).unresponsive()
