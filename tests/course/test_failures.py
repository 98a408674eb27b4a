"""Calls that fail, on real servers: a client that miscounts, retries, a killed server."""

import pytest

from kvstore.client import load, workload
from kvstore.client.messages import create, update
from kvstore.course.experiments.failures import (
    killed_at_work,
    retried,
    still_there,
)
from kvstore.course.experiments.published_benchmarks import JavaClient
from kvstore.server import serving

pytestmark = pytest.mark.slow
KEPT = {"read_delay_s": 0, "write_delay_s": 0, "locking": "per_key", "use_asyncio": True}


def test_the_java_client_reports_all_but_its_creates():
    java = JavaClient()
    with serving(read_delay_s=0, write_delay_s=0.001) as server:
        run = load.run(java.do_client_work, server, workload.crud(value_bytes_mean=1), calls=60)

    made = run.server["operations"]
    assert 60 == sum(made.values())
    assert made["create/OK"] > 0
    assert 60 - made["create/OK"] == java.rpc_count
    assert java.rpc_count / 2 == java.reported_per_s(2.0)


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
