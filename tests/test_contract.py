"""Every strategy against a real server, on both stacks: each call is sent once and ends once."""

from collections import Counter
from itertools import cycle

import numpy as np
import pytest
from stacks import STACKS

from kvstore.client import load, pacing, strategies, workload
from kvstore.client.strategies import STRATEGIES, bounded, chained, futures, pipelined, tasks
from kvstore.measure import audit
from kvstore.protocol import StationTimes
from kvstore.server import serving

SMALL = workload.crud(value_bytes_mean=100)

EACH = list(zip(STRATEGIES, cycle(STACKS), strict=False))
"""Each strategy on one stack; what the stacks share is made of one source."""
every_strategy = pytest.mark.parametrize(
    ("strategy", "stack"),
    [*EACH, *zip((pipelined, tasks), STACKS, strict=True)],
    indirect=["stack"],
)


def counted(run) -> dict[str, int]:
    """The run's operations by kind and status, in the words of the server's own count."""
    return dict(Counter(run.calls["operation"].astype(str) + "/" + run.calls["status"].astype(str)))


@every_strategy
@pytest.mark.parametrize(("calls", "in_flight"), [(80, 5), (3, 50)])
def test_every_call_is_sent_once_and_ends_once(strategy, calls, in_flight, quick_server):
    """By the client's own count, by Little's law, and by the server's count."""
    run = load.run(strategy, quick_server, SMALL, in_flight=in_flight, calls=calls)
    checked = audit(run)

    assert (calls, calls, 0) == (checked.issued, checked.recorded, checked.unknown)
    assert checked.relative_error <= 1e-9
    assert checked.holds
    assert run.server.operations == counted(run)
    assert "complete" == run.outcome
    assert set(run.outcomes()) <= {"OK", "NOT_FOUND", "ALREADY_EXISTS"}
    assert run.outcomes()["OK"] >= calls // 3  # two may ask for one key at once, and one be late


@every_strategy
def test_a_limit_on_calls_in_flight_is_kept(strategy, quick_server):
    """The server's own times fit into those calls: its stations are durations of another clock."""
    run = load.run(strategy, quick_server, SMALL, in_flight=5, calls=60)
    sent_s, done_s = run.records["sent_s"], run.records["done_s"]
    most = max(np.count_nonzero((sent_s <= at_s) & (done_s > at_s)) for at_s in sent_s)
    reported_s = run.calls[list(StationTimes._fields)].sum(axis=1, skipna=False)

    if strategy is futures:
        assert 0 == run.in_flight
        assert most > 5
    else:
        assert most <= (1 if strategy is strategies.blocking else 5)
    assert not reported_s.isna().any()
    assert (reported_s <= run.calls["residence_s"]).all()
    assert (run.calls["disk_s"] > 0).all()


@pytest.mark.parametrize(
    ("strategy", "stack"), [each for each in EACH if each[0] is not chained], indirect=["stack"]
)
@pytest.mark.slow
def test_a_run_of_some_seconds_ends_with_them(strategy, quick_server):
    """What was sent before the end is still answered; nothing is sent after it."""
    due_times = pacing.constant_rate(200)  # `futures` would otherwise send thousands
    run = load.run(strategy, quick_server, SMALL, in_flight=4, duration_s=0.2, due_times=due_times)

    assert run.records["due_s"].max() < 0.2
    assert run.records["sent_s"].min() >= 0
    assert audit(run).holds
    if strategy is not strategies.blocking:  # one at a time may be too slow for 200/s
        assert 40 == run.issued


@every_strategy
def test_reads_ask_for_keys_that_were_created_before(strategy, quick_server):
    reads = workload.reads(keys=3, value_bytes_mean=200, sizes="fixed")
    run = load.run(strategy, quick_server, reads, in_flight=4, calls=20)

    assert {"OK": 20} == run.outcomes()
    assert {"retrieve": 1.0} == run.mix()
    assert run.calls["reply_bytes"].between(200, 250).all()  # the message around the value
    assert {"retrieve/OK": 20} == run.server.operations  # the creates are not part of it


@pytest.mark.parametrize("batch", [1, 4, 32])
@pytest.mark.parametrize("streams", [1, 3])
def test_batches_and_streams_lose_nothing(batch, streams, quick_server):
    run = load.run(
        pipelined, quick_server, SMALL, in_flight=6, calls=100, batch=batch, streams=streams
    )

    assert 100 == run.records["operations"].sum()
    assert run.operations_ok == sum(
        count for name, count in run.server.operations.items() if name.endswith("/OK")
    )
    assert 100 == run.server.answered
    assert audit(run).holds
    assert {"batch": batch, "streams": streams}.items() <= run.settings.items()


@pytest.mark.slow
def test_ten_thousand_through_bounded_lose_nothing(own_server, stack):
    """Sent without a pause; on asyncio the first is answered when most have been sent."""
    server = own_server(write_delay_s=2.0 if stack == "asyncio" else 0.02)
    creates = workload.crud(mix={"create": 1}, sizes="fixed", key_bytes_mean=16, value_bytes_mean=8)
    run = load.run(bounded, server, creates, in_flight=10_000, calls=10_000, deadline_s=100)

    assert {"OK": 10_000} == run.outcomes()
    assert {"create/OK": 10_000} == run.server.operations
    assert audit(run).holds
    if stack == "asyncio":  # a pool answers while the others are still being sent
        assert run.samples["in_flight"].max() > 1_000


DISK_S = 0.010


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [bounded, pipelined])
def test_one_lock_serves_one_at_a_time_and_locks_of_keys_do_not(strategy, locked_servers):
    """Twelve in flight: behind one lock the middle call waits for many others, else for none.

    Medians, because a machine that stalls delays some calls, but not the median; and five rounds of
    calls, because the first one waits for threads that start.
    """
    runs = {
        locking: load.run(strategy, server, SMALL, in_flight=12, calls=60)
        for locking, server in locked_servers.items()
    }
    waited_s = {locking: run.calls["lock_s"].median() for locking, run in runs.items()}

    assert runs["global"].answered_per_s <= 1 / DISK_S
    assert waited_s["global"] > 3 * DISK_S
    assert waited_s["per_key"] < DISK_S / 2


@pytest.fixture(scope="module")
def locked_servers(stack):
    """Two servers of 10 ms an operation, one with one lock and one without."""
    settings = {"read_delay_s": DISK_S, "write_delay_s": DISK_S, "station_times": True}
    settings["use_asyncio"] = stack == "asyncio"
    with (
        serving(locking="global", **settings) as one_lock,
        serving(locking="per_key", **settings) as many,
    ):
        yield {"global": one_lock, "per_key": many}
