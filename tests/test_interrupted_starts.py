"""An interrupt while something is being started: nothing is left, no call is lost.

The errors are kept, as a notebook keeps the last one. Without that, what they hold would be
collected, and so stopped.
"""

import _thread
import importlib.util
import itertools
import signal
import threading
import time

import psutil
import pytest

from kvstore.client import RunInterrupted, load, strategies, workload
from kvstore.client.fleet import Local
from kvstore.course.lessons.lesson_15 import capstone
from kvstore.course.lessons.lesson_15 import questions as lesson_15
from kvstore.course.lessons.lesson_15.judge.sitting import Refused
from kvstore.measure import audit
from kvstore.server import serving

HANG_S = 30.0


def after_start_of(name, monkeypatch, number=1):
    """Interrupt the main thread in its start of this thread, when that runs already."""
    usual, times = threading.Thread.start, itertools.count(1)

    def start(thread):
        usual(thread)
        if thread.name.startswith(name) and next(times) == number:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(threading.Thread, "start", start)


@pytest.mark.slow
def test_in_the_start_of_a_strategy_the_run_ends_in_order(monkeypatch):
    after_start_of("strategy", monkeypatch)
    with serving(use_asyncio=True, read_delay_s=0.002, write_delay_s=0) as server:
        with pytest.raises((RunInterrupted, KeyboardInterrupt)) as interrupted:
            load.run(strategies.tasks, server, workload.reads(keys=1), duration_s=HANG_S)
        assert interrupted.type is RunInterrupted
        run = interrupted.value.run

        assert audit(run).holds
        assert "interrupted" == run.outcome
    assert [] == [each for each in threading.enumerate() if each.name == "strategy"]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs Dask")
def test_while_a_fleet_starts_it_leaves_no_worker_and_no_thread():
    def workers():
        return [
            each
            for each in psutil.Process().children(recursive=True)
            if "spawn_main" in " ".join(each.cmdline())
        ]

    def interrupt():
        end_s = time.monotonic() + HANG_S
        while not workers() and time.monotonic() < end_s:
            time.sleep(0.01)
        _thread.interrupt_main()

    assert [] == workers()
    threads = set(threading.enumerate())
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt) as kept, Local(1):
        pytest.fail("the block must not begin")

    _, left = psutil.wait_procs(workers(), timeout=10)
    assert [] == left, kept
    made = set(threading.enumerate()) - threads  # other tests may have left some
    assert not [each for each in made if each.name.startswith("IO loop")]


def interrupted_after(ask, monkeypatch):
    """Interrupt the kernel when the service has done this, and before it says so."""
    usual, times = capstone.Service._ask, itertools.count(1)

    def interrupted(service, requested, **request):
        reply = usual(service, requested, **request)
        if requested == ask and next(times) == 1:
            raise KeyboardInterrupt
        return reply

    monkeypatch.setattr(capstone.Service, "_ask", interrupted)


@pytest.fixture
def fast(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_MODE", "fast")
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.sqlite"))
    monkeypatch.delenv(capstone.PRACTICE, raising=False)


@pytest.mark.slow
def test_while_a_service_opens_its_process_ends(fast, monkeypatch, tmp_path):
    before = psutil.Process().children()
    interrupted_after("brief", monkeypatch)
    with pytest.raises(KeyboardInterrupt) as kept:
        capstone.open_service("ada", practice=lesson_15.EXAMPLE, folder=tmp_path)

    assert before == psutil.Process().children(), kept


@pytest.mark.slow
def test_while_a_run_of_a_service_begins_the_run_is_broken_off(fast, monkeypatch, tmp_path):
    with capstone.open_service("ada", practice=lesson_15.EXAMPLE, folder=tmp_path) as service:
        interrupted_after("begin", monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            service.measure(in_flight=2)
        try:
            service.name("pool")
        except Refused as refused:
            pytest.fail(str(refused))
        events = [each["event"] for each in service.record()["history"]]

    assert ["opened", "measure", "name"] == events
