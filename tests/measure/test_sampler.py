"""The sampler in recorder.py: two processes, looked at from outside."""

import math
import os
import subprocess
import sys

import pytest

from kvstore.measure import recorder
from kvstore.measure.recorder import Sampler


@pytest.fixture
def other():
    """Another process that waits, to be looked at and ended."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_look_at_both_processes(other):
    sample = Sampler(other.pid).look(1.5, issued=10, answered=7)

    assert (1.5, 3, 10, 7) == sample[:4]
    assert 1e6 < sample.client_rss_bytes < 1e10
    assert 1e5 < sample.server_rss_bytes < 1e9
    assert sample.client_threads >= 1
    assert 1 == sample.server_threads


def test_a_server_that_cannot_be_seen_is_not_a_number():
    """It runs on another machine, or says nothing of itself."""
    sampler = Sampler(None)
    sample = sampler.look(0.0, 0, 0)

    assert math.isnan(sample.server_rss_bytes)
    assert math.isnan(sample.server_threads)
    assert not sampler.server_gone()
    assert math.isnan(sampler.cpu()[1].total_s)


def test_a_server_that_ends_meanwhile_is_noticed(other):
    sampler = Sampler(other.pid)
    before = sampler.server_gone()
    other.kill()
    if hasattr(os, "waitid"):  # not on Windows: dead, and still a zombie with a process id
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert sampler.server_gone()
    other.wait()
    sample = sampler.look(1.0, 0, 0)

    assert (False, True) == (before, sampler.server_gone())
    assert math.isnan(sample.server_rss_bytes)
    assert sampler.largest_rss_bytes() > 0  # our own, at least
    assert math.isnan(sampler.cpu()[1].user_s) or sampler.cpu()[1].user_s <= 0


def test_a_sample_that_was_begun_before_the_start_is_discarded(monkeypatch):
    """Its time is of another clock, and it would come after the first sample of the run."""
    sampler = Sampler(None)
    look = recorder._memory_and_threads

    def starting(process):
        monkeypatch.setattr(recorder, "_memory_and_threads", look)
        sampler.start_over()
        return look(process)

    monkeypatch.setattr(recorder, "_memory_and_threads", starting)
    sampler.look(7.0, 0, 0)
    sampler.look(0.1, 1, 0)

    assert [0.0, 0.1] == sampler.rows()["elapsed_s"].tolist()
