"""Further lesson 14: a Redis for a block, what is counted of it, and the claims."""

import math
import os
import shutil
import subprocess
import sys
import time

import psutil
import pytest

from kvstore.course import progress
from kvstore.course.lessons.lesson_14 import redis_runs
from kvstore.course.lessons.lesson_14.redis_runs import Sets
from kvstore.course.questions import registered

INSTALLED = shutil.which("redis-server") or shutil.which("valkey-server")
needs_redis = pytest.mark.skipif(not INSTALLED, reason="neither Redis nor Valkey is installed")
MADE = Sets(
    durable={1: 100.0, 32: 1_500.0},
    volatile={1: 1_000.0, 32: 20_000.0},
    per_commit={1: 1.0, 32: 16.5},
)


@needs_redis
@pytest.mark.slow
def test_groups_form_with_many_clients_and_none_with_one():
    sets = redis_runs.sets((1, 16), duration_s=0.1, closes=["14.redis_group"])

    assert progress.ask("14.redis_group").closed
    assert 0.9 < sets.sets_per_fsync(1) < 1.2
    assert 2 < sets.sets_per_fsync(16) <= 16
    assert all(rate > 0 for rates in sets[:2] for rate in rates.values())


@needs_redis
@pytest.mark.slow
def test_a_redis_listens_on_no_port_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with redis_runs.redis_server() as redis:
        process = psutil.Process(redis.pid)
        assert [] == process.net_connections("inet")
        (folder,) = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o077 == 0
        with pytest.raises(RuntimeError, match="config set appendfsync sometimes failed"):
            redis.set_fsync("sometimes")

    assert not psutil.pid_exists(redis.pid)
    assert [] == list(tmp_path.iterdir())


@needs_redis
@pytest.mark.slow
def test_a_redis_and_its_folder_end_with_their_parent_even_if_that_one_is_killed(
    repo_root, tmp_path
):
    code = (
        "from kvstore.course.lessons.lesson_14.redis_runs import redis_server\n"
        "import time\n"
        "with redis_server() as redis:\n"
        "    print(redis.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=repo_root,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    pid = int(parent.stdout.readline())
    assert psutil.pid_exists(pid)
    assert [] != list(tmp_path.iterdir())
    parent.kill()
    parent.wait()
    parent.stdout.close()

    end_s = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end_s, "Redis still runs after its parent was killed"
        time.sleep(0.05)
    while left := list(tmp_path.iterdir()):
        assert time.monotonic() < end_s, f"{left} are still there after the parent was killed"
        time.sleep(0.05)


def test_without_redis_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(
        redis_runs.RedisNotInstalled, match=r"apt install redis-server.* leave this"
    ):
        redis_runs.found_redis()


def test_the_parts_of_the_model_worked_out_by_hand():
    log = MADE.log()

    assert log["per_write_s"] == pytest.approx(50e-6)
    assert log["way_s"] == pytest.approx(0.001 - 50e-6)
    assert log["fsync_s"] == pytest.approx(0.009)
    assert MADE.predicted(1).value == pytest.approx(100.0)
    assert MADE.predicted(32).value == pytest.approx(32 / (2 * 0.009 + 32 * 50e-6))
    assert list(MADE.table().loc[32]) == [20_000, 1_633, 1_500, 16.5]


def test_where_nothing_is_counted_the_rate_gives_the_least_group():
    uncounted = MADE._replace(per_commit={1: math.nan, 32: math.nan})

    assert uncounted.sets_per_fsync(32) == pytest.approx(1_500 * 0.009)


def test_the_predictions_are_of_the_largest_group():
    assert registered("14.redis_group").model(MADE).value == 16.0
    assert registered("14.redis_group").measured(MADE) == 16.5
    assert registered("14.redis_rate").measured(MADE) == 1_500.0
    assert registered("14.redis_rate").model(MADE).value == MADE.predicted(32).value
