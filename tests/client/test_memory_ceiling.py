"""A client that may take so much memory: it stops by itself, or is not started at all."""

import psutil
import pytest

from kvstore.client import run_in_process, workload
from kvstore.client.strategies import futures
from kvstore.measure import audit
from kvstore.server import Server, serving


@pytest.mark.slow
def test_an_unlimited_client_stops_at_its_ceiling_and_leaves_nothing_behind():
    """Values of 256 KiB that nobody answers: 200 MB are full in a second or two."""
    large = workload.crud(mix={"create": 1}, value_bytes_mean=262_144, sizes="fixed")
    with serving(write_delay_s=1.0) as server:
        before = psutil.Process().children()
        ceiling_bytes = 250e6
        run = run_in_process(
            futures, server, large, duration_s=60, memory_ceiling_bytes=ceiling_bytes
        )
        after = psutil.Process().children()

    most_bytes = max(run.samples["client_rss_bytes"].max(), run.samples["server_rss_bytes"].max())
    assert "memory ceiling" == run.outcome
    assert run.window_s < 30
    assert ceiling_bytes <= most_bytes < 1.3 * ceiling_bytes
    assert audit(run).holds, repr(audit(run))
    assert run.issued == sum(run.outcomes().values()) > 3
    assert before == after


def test_without_room_for_it_nothing_is_started(quick_server: Server, monkeypatch):
    monkeypatch.setattr("kvstore.client.process.available_memory_bytes", lambda: 1e9)

    with pytest.raises(MemoryError, match="only 1,000 MB are free: close other programs, or set"):
        run_in_process(
            futures, quick_server, workload.crud(), duration_s=1, memory_ceiling_bytes=512e6
        )
