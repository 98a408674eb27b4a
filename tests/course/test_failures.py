"""Calls that fail, on real servers: a client that miscounts, retries, a killed server."""

import pytest

from kvstore.client.messages import create, update
from kvstore.course.experiments.failures import (
    killed_at_work,
    retried,
    still_there,
)
from kvstore.server import serving

pytestmark = pytest.mark.slow
KEPT = {"read_delay_s": 0, "write_delay_s": 0, "locking": "per_key", "use_asyncio": True}


def test_after_a_kill_the_disk_has_all_that_was_acknowledged_and_memory_nothing(tmp_path):
    for store, share in ((f"sqlite:{tmp_path}", 1), ("memory", 0)):
        settings = {**KEPT, "store": store, "group_commit": True}
        with serving(**settings) as server:
            acknowledged = killed_at_work(server, answers=50)
            killed = not server.alive()
        with serving(**settings) as again:
            found = still_there(again, acknowledged)

        assert killed
        assert len(acknowledged) >= 50
        assert share * len(acknowledged) == found


@pytest.fixture(scope="module")
def server():
    with serving(write_delay_s=1.5, read_delay_s=0, locking="per_key", threads=8) as server:
        yield server


def test_a_retry_after_a_lost_reply_finds_its_own_write(server):
    """A create finds its own key; an update is done twice."""
    calls = retried(server, create(b"mine", b"value"), too_short_s=0.8)
    assert ["DEADLINE_EXCEEDED", "ALREADY_EXISTS", "OK"] == list(calls["answer"])
    assert calls["reads the new value"].iloc[-1] is True

    calls = retried(server, update(b"mine", b"new"), too_short_s=0.8)
    assert ["DEADLINE_EXCEEDED", "OK", "OK"] == list(calls["answer"])
    assert calls["reads the new value"].iloc[-1] is True
