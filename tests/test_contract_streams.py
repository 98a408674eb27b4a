"""A server that caps the streams of a connection: what a client sees, and what it does not."""

import pytest

from kvstore.client import load
from kvstore.client.strategies import bounded, tasks
from kvstore.client.workload import Workload
from kvstore.measure import audit

SMALL = Workload(value_bytes_mean=16)
STREAMS = 2


@pytest.fixture
def capped(own_server):
    """Starts a server that works on two calls of a connection at once."""

    def start(**settings):
        return own_server(
            read_delay_s=0.01,
            write_delay_s=0.01,
            max_streams=STREAMS,
            station_times=True,
            **settings,
        )

    return start


@pytest.mark.parametrize(("strategy", "connections"), [(tasks, 1), (bounded, 1), (tasks, 2)])
def test_without_protection_calls_wait_and_none_is_refused(strategy, connections, capped):
    run = load.run(
        strategy,
        capped(refuse_streams=False),
        SMALL,
        in_flight=12,
        connections=connections,
        calls=60,
    )
    calls = run.calls

    assert audit(run).holds
    assert set(run.outcomes()) <= {"OK", "NOT_FOUND", "ALREADY_EXISTS"}
    # Each is 10 ms at the disk, and no more than two of a connection at once: an ordering of
    # what the server itself did, which no noise can turn round.
    assert run.window_s >= 60 * 0.0099 / (STREAMS * connections)
    assert 60 == run.server.answered == len(calls)


def test_a_refused_stream_is_never_counted_as_a_success(capped):
    """Refused are those that come before the server has freed the stream of the last answer."""
    # The server is mostly fast enough: of a few runs, one has a refused call.
    runs = (load.run(bounded, capped(), SMALL, in_flight=12, calls=200) for _ in range(10))
    run = next((each for each in runs if "UNAVAILABLE" in each.outcomes()), None)
    assert run is not None, "the canary: gRPC refuses no more, and lesson 06 must say so"
    outcomes = run.outcomes()
    refused = outcomes.pop("UNAVAILABLE")

    assert audit(run).holds
    assert 200 == refused + sum(outcomes.values())
    assert sum(outcomes.values()) == run.server.answered
    assert outcomes["OK"] == run.operations_ok
    assert run.calls.loc[run.calls["status"] == "UNAVAILABLE", "disk_s"].isna().all()
