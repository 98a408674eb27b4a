"""One lock against a lock for each key, by every strategy: rates are compared, so it runs alone."""

import pytest

from kvstore.client import load, strategies, workload
from kvstore.client.strategies import STRATEGIES
from kvstore.server import serving

SMALL = workload.crud(value_bytes_mean=100)


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy", [s for s in STRATEGIES if s is not strategies.blocking], ids=lambda s: s.__name__
)
def test_one_lock_serves_one_at_a_time_and_locks_of_keys_do_not(strategy, locked_servers):
    """Twelve in flight: one lock allows 100/s, none 1,200/s. The margin is as wide as that."""
    rate = {
        locking: load.run(strategy, server, SMALL, in_flight=12, calls=24).answered_per_s
        for locking, server in locked_servers.items()
    }

    assert rate["global"] <= 100.0
    assert rate["per_key"] > 2 * rate["global"]


@pytest.fixture(scope="module")
def locked_servers(stack):
    """Two servers of 10 ms an operation, one with one lock and one without."""
    settings = {"read_delay_s": 0.01, "write_delay_s": 0.01, "use_asyncio": stack == "asyncio"}
    with (
        serving(locking="global", **settings) as one_lock,
        serving(locking="per_key", **settings) as many,
    ):
        yield {"global": one_lock, "per_key": many}
