"""The processes that keep cores awake come, give way to all others, and go."""

import time
from pathlib import Path

import psutil
import pytest

from kvstore.cpu_idle import AUTOGROUP, KEPT, keeping_awake
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
    """Each keeps to a core of its own, works, and comes after the processes of other sessions."""
    mine = sorted(getattr(psutil.Process(), "cpu_affinity", list)())
    with keeping_awake(len(mine) or 1):
        processes = turning()
        before_s = processes[0].cpu_times().user
        end_s = time.perf_counter() + 60.0  # all others come first
        while processes[0].cpu_times().user == before_s and time.perf_counter() < end_s:
            time.sleep(0.05)

        assert processes[0].cpu_times().user > before_s
        if mine:  # not on macOS
            assert [[core] for core in mine] == sorted(each.cpu_affinity() for each in processes)
        if AUTOGROUP.exists():
            group = Path(f"/proc/{processes[0].pid}/autogroup").read_text("ascii")
            assert "19" == group.split()[-1]

    assert [] == turning()


def test_a_run_of_that_time_has_it_among_its_conditions(monkeypatch):
    monkeypatch.delenv(KEPT, raising=False)  # the whole test may run on cores that are kept awake
    with keeping_awake(2):
        assert 2 == describe_host()["cores_kept_awake"]
        with keeping_awake(1):
            assert 1 == describe_host()["cores_kept_awake"]
        assert 2 == describe_host()["cores_kept_awake"]

    assert 0 == describe_host()["cores_kept_awake"]


def test_none_turns_longer_than_it_was_asked_to():
    with keeping_awake(1, longest_s=0.2):
        (process,) = turning()
        assert 0 == process.wait(timeout=60.0)  # all others come first
