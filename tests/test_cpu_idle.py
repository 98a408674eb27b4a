"""The processes that keep cores awake come, and go."""

import time
from pathlib import Path

import psutil
import pytest

from kvstore.cpu_idle import AUTOGROUP, KEPT, keeping_awake, kept_awake
from kvstore.measure import describe_host

pytestmark = pytest.mark.slow


def turning():
    """The processes of this test that keep a core awake."""
    return [
        each
        for each in psutil.Process().children(recursive=True)
        if each.is_running() and "kvstore.cpu_idle" in " ".join(each.cmdline())
    ]


def test_each_core_gets_a_process_for_as_long_as_the_block_lasts():
    with keeping_awake(2):
        assert len(turning()) == 2

    assert [] == turning()


@pytest.mark.skipif(not hasattr(psutil.Process, "cpu_affinity"), reason="not on this system")
def test_each_keeps_to_a_core_of_its_own():
    mine = sorted(psutil.Process().cpu_affinity())
    with keeping_awake(len(mine)):
        assert [[core] for core in mine] == sorted(each.cpu_affinity() for each in turning())


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="sessions have no groups of their own here")
def test_it_gives_way_to_other_sessions_too():
    with keeping_awake(1):
        (process,) = turning()

        assert Path(f"/proc/{process.pid}/autogroup").read_text("ascii").split()[-1] == "19"


def test_a_run_of_that_time_says_so_among_its_conditions(monkeypatch):
    monkeypatch.delenv(KEPT, raising=False)  # the whole test may run on cores that are kept awake
    with keeping_awake(2):
        assert describe_host()["cores_kept_awake"] == 2
        with keeping_awake(1):
            assert kept_awake() == 1
        assert kept_awake() == 2

    assert describe_host()["cores_kept_awake"] == 0


def test_none_turns_longer_than_it_was_asked_to():
    with keeping_awake(1, longest_s=0.2):
        (process,) = turning()
        assert process.wait(timeout=60.0) == 0  # all others come first


def test_they_work_and_give_way_to_everybody_else():
    with keeping_awake(1):
        (process,) = turning()
        before_s = process.cpu_times().user
        end_s = time.perf_counter() + 60.0  # all others come first
        while process.cpu_times().user == before_s and time.perf_counter() < end_s:
            time.sleep(0.05)

        assert process.cpu_times().user > before_s
