"""A run in which a function chooses the server of each call; each server has a copy of all keys."""

import re

import numpy as np
import pytest

from kvstore.client import load, workload
from kvstore.client.errors import RunFailed, ServerNotReached
from kvstore.client.fleet import Local
from kvstore.client.strategies import bounded, pipelined, tasks, threads
from kvstore.measure import audit
from kvstore.server import serving_replicas

READS = workload.reads(keys=3, value_bytes_mean=16)
QUICK = {"use_asyncio": True, "locking": "global", "read_delay_s": 0.002}


@pytest.fixture(scope="module")
def three():
    with serving_replicas([QUICK, QUICK, QUICK | {"read_delay_s": 0.006}]) as servers:
        yield servers


@pytest.mark.parametrize(("strategy", "server"), [(bounded, 0), (tasks, 2), (threads, 1)])
def test_each_call_goes_to_the_server_that_was_chosen(strategy, server, three):
    run = load.run(strategy, three, READS, choose=lambda _: server, in_flight=4, calls=40)

    assert {server} == set(run.records["connection"])
    assert 40 == run.operations_ok  # the server has all keys
    assert {"retrieve/OK": 40} == run.server.operations
    assert audit(run).holds


@pytest.mark.parametrize("strategy", [bounded, tasks])
def test_the_function_sees_the_open_calls_of_each_server(strategy, three):
    """It is asked for each call, and a call that has ended does not count any more."""
    seen = []

    def fewest(open_calls):
        seen.append(list(open_calls))
        return int(np.argmin(open_calls))

    run = load.run(strategy, three, READS, choose=fewest, in_flight=6, calls=120)
    calls = np.bincount(run.records["connection"], minlength=3)

    assert 120 == len(seen)
    assert [0, 0, 0] == seen[0]
    assert max(map(sum, seen)) <= 5  # the sixth place is that of the call itself
    assert max(map(max, seen)) >= 1
    assert min(calls) > 0
    assert calls[2] < calls[0]  # a slow server keeps its calls open for longer
    assert "fewest" == run.settings["choose"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda _: 3, "from 0 to 2, got 3"),
        (lambda _: None, "from 0 to 2, got None"),
    ],
)
def test_a_choice_that_makes_no_sense_ends_the_run(answer, says, three):
    with pytest.raises(RunFailed, match=says):
        load.run(bounded, three, READS, choose=answer, in_flight=4, calls=40)


@pytest.mark.parametrize(
    ("says", "strategy", "calls", "options"),
    [
        ("without parentheses", bounded, READS, {"choose": 2}),
        ("use `workload.reads\\(\\)`", bounded, workload.crud(), {}),
        ("unary calls", pipelined, READS, {"streams": 3}),
        ("a fleet", bounded, READS, {"fleet": Local(2)}),
    ],
)
def test_what_cannot_be_chosen_is_refused(says, strategy, calls, options, three):
    options = {"choose": lambda _: 0, **options}
    with pytest.raises(ValueError, match=says):
        load.run(strategy, three, calls, in_flight=6, calls=12, **options)


def test_a_server_that_takes_none_of_the_keys_is_named(three, monkeypatch):
    """The others have them: without the check of each server, its reads would be NOT_FOUND."""
    monkeypatch.setattr("secrets.token_hex", lambda size: "5a" * size)
    load.run(bounded, three.servers[1], READS, in_flight=1, calls=1)

    with pytest.raises(ServerNotReached, match=re.escape(three.servers[1].address)):
        load.run(bounded, three, READS, choose=lambda _: 0, in_flight=1, calls=1)
