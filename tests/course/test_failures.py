"""Calls that fail, on real servers: a killed server."""

import pytest

from kvstore.course.experiments.failures import (
    killed_at_work,
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
