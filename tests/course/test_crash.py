"""crash.py: what was answered by a server that is killed, and what one on its folder knows."""

import pytest
from made_runs import staircase

from kvstore.course import tables
from kvstore.course.stories import crash
from kvstore.model import commits
from kvstore.server import serving

KEPT = {"read_delay_s": 0, "write_delay_s": 0, "locking": "per_key", "use_asyncio": True}


@pytest.mark.slow
def test_a_disk_knows_all_that_was_answered_and_memory_nothing(tmp_path):
    for folder, share in ((str(tmp_path), 1), (None, 0)):
        settings = {**KEPT, "data_dir": folder, "group_commit": True}
        with serving(**settings) as server:
            acknowledged = crash.killed_at_work(server, answers=50)
            killed = not server.alive()
        with serving(**settings) as again:
            found = crash.still_there(again, acknowledged)

        assert killed
        assert len(acknowledged) >= 50
        assert share * len(acknowledged) == found


def test_a_way_to_commit_is_told_with_what_binds():
    runs = {"one by one": {2: staircase(20, in_flight=2)}}
    data = tables.throughput_by_commit(
        runs, {"one by one": lambda n: commits.one_by_one(n, fsync_s=0.02)}
    )

    assert [50.0, "log"] == list(data.loc["one by one", ["predicted (calls/s)", "binds"]])


def test_the_time_for_a_share_stands_beside_its_prediction():
    data = tables.answered_within({"1 of 1": staircase(20)}, {"1 of 1": lambda share: share})

    assert [500.0, 900.0, 990.0] == list(data.filter(like="predicted").loc["1 of 1"])
