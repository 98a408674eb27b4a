"""One lock against a lock for each key, by every strategy, seen in where the calls waited."""

import pytest

from kvstore.client import load, strategies, workload
from kvstore.client.strategies import STRATEGIES
from kvstore.server import serving

SMALL = workload.crud(value_bytes_mean=100)
DISK_S = 0.010


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [s for s in STRATEGIES if s is not strategies.blocking])
def test_one_lock_serves_one_at_a_time_and_locks_of_keys_do_not(strategy, locked_servers):
    """Twelve in flight: behind one lock the middle call waits for many others, else for none.

    Medians, because a machine that stalls delays some calls, but not the median.
    """
    runs = {
        locking: load.run(strategy, server, SMALL, in_flight=12, calls=24)
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
