"""Several generator processes make one run; whatever becomes of one, every call has an account."""

import os
import signal
import subprocess
import sys
import threading
import time
from itertools import islice

import psutil
import pytest
from tables import for_each

from kvstore.client import (
    RunFailed,
    RunInterrupted,
    ServerGone,
    load,
    run_in_process,
    strategies,
)
from kvstore.client.channel import Target
from kvstore.client.errors import WrongServer
from kvstore.client.pacing import constant_rate
from kvstore.client.workload import Workload, crud, reads
from kvstore.course import live
from kvstore.measure import audit
from kvstore.server import serving

SMALL = crud(seed=5, key_bytes_mean=8, value_bytes_mean=100, sizes="fixed")
DELAYS = {"read_delay_s": 0.002, "write_delay_s": 0.004, "locking": "per_key"}
LONG_S = 30.0
"""A run of this length was ended by what the test did to it."""


@pytest.fixture(scope="module")
def server():
    with serving(use_asyncio=True, **DELAYS) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_left():
    """No test here may leave a process behind that was not there before."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    left = {child.pid for child in psutil.Process().children(recursive=True)} - before
    kept = {pid for pid in left if "kvstore.server" in psutil.Process(pid).cmdline()}
    assert kept == left, [psutil.Process(pid).cmdline() for pid in left - kept]


def midway(what):
    """Do `what` once, when a good number of calls have been answered."""
    done = []

    def on_sample(sample):
        if sample.answered >= 50 and not done:
            done.append(time.perf_counter())
            what()

    return on_sample


def kill(part):
    for process in psutil.Process().children():
        if f"--part={part}" in process.cmdline():
            process.kill()


@pytest.mark.slow
def test_two_make_one_run(server):
    seen = []
    run = run_in_process(
        strategies.pipelined, server, SMALL, processes=2, in_flight=5, calls=301, deadline_s=9,
        rate_per_s=900, batch=3, on_sample=seen.append, sample_interval_s=0.02,
    )  # fmt: skip

    assert ("pipelined", 5, "complete") == (run.strategy, run.in_flight, run.outcome)
    assert 301 == run.records["operations"].sum() == sum(run.server["operations"].values())
    assert SMALL == Workload(**run.settings["workload"])
    assert (2, 301, 3) == tuple(run.settings[name] for name in ("processes", "calls", "batch"))
    assert audit(run).holds
    assert {0, 1} == set(run.records["connection"])
    # 151 operations in threes are 51 requests, 150 are 50; each has the due time of its first
    assert [51, 50] == [each["recorded"] for each in run.settings["generators"]]
    due_s = [*islice(constant_rate(900), 301)]
    assert sorted(due_s[0::6] + due_s[1::6]) == pytest.approx(sorted(run.records["due_s"]))
    assert seen
    assert seen[-1].issued <= run.issued == 101
    assert run.client_cpu.total_s > 0 < run.server_cpu.total_s


@pytest.mark.slow
def test_they_begin_together_and_ask_for_keys_of_their_own(server):
    """Each generator preloads its keys before the clock starts, and no key exists already."""
    run = live.run_apart(
        strategies.tasks, server, reads(keys=9, value_bytes_mean=16), processes=2,
        in_flight=6, duration_s=0.5,
    )  # fmt: skip
    first_s = [run.records["sent_s"][run.records["connection"] == n].min() for n in range(2)]

    assert {"retrieve/OK": run.issued} == run.server["operations"]
    assert min(first_s) >= 0
    assert max(first_s) < 0.5
    assert audit(run).holds


@pytest.mark.slow
def test_a_generator_that_is_killed_ends_the_run_and_is_named(server):
    with pytest.raises(RunFailed, match="generator 2 of 2 ended with exit status -9") as failed:
        run_in_process(
            strategies.tasks, server, SMALL, processes=2, in_flight=4, duration_s=LONG_S,
            on_sample=midway(lambda: kill("1/2")), sample_interval_s=0.02,
        )  # fmt: skip
    run = failed.value.run
    there, lost = run.settings["generators"]

    assert "failed" == run.outcome
    assert run.window_s < LONG_S / 2
    assert audit(run).holds
    assert ("interrupted", there["recorded"]) == (there["outcome"], there["issued"])
    assert "lost" == lost["outcome"]
    assert 0 < lost["recorded"] <= lost["issued"]
    assert run.issued == there["recorded"] + lost["recorded"]
    assert 2 == len(set(run.records["connection"])), "one number for each generator"
    assert sum(run.server["operations"].values()) >= run.issued
    assert f"{run.records['operations'].sum():,} are recorded" in str(failed.value)
    assert f"it had sent {lost['issued']:,} calls" in str(failed.value)


@pytest.mark.slow
def test_a_server_that_is_killed_ends_every_generator():
    with (
        serving(use_asyncio=True, **DELAYS) as server,
        pytest.raises(ServerGone, match="of all 2 generators together") as failed,
    ):
        run_in_process(
            strategies.pipelined, server, SMALL, processes=2, in_flight=8, duration_s=LONG_S,
            on_sample=midway(lambda: os.kill(server.pid, signal.SIGKILL)),
            sample_interval_s=0.02,
        )  # fmt: skip
    run = failed.value.run

    assert "server gone" == run.outcome
    assert run.window_s < LONG_S / 2
    assert audit(run).holds
    assert run.issued == sum(each["recorded"] for each in run.settings["generators"])
    assert run.server["operations"] is None


@pytest.mark.slow
@for_each("processes", [1, 2])
def test_ctrl_c_ends_all_with_every_call_accounted_for(processes, server):
    with pytest.raises(RunInterrupted) as interrupted:
        run_in_process(
            strategies.bounded, server, SMALL, processes=processes, in_flight=4,
            duration_s=LONG_S, sample_interval_s=0.02,
            on_sample=midway(lambda: signal.raise_signal(signal.SIGINT)),
        )  # fmt: skip
    run = interrupted.value.run

    assert "interrupted" == run.outcome
    assert audit(run).holds
    assert run.issued == sum(run.server["operations"].values()) >= 50


@pytest.mark.slow
def test_ctrl_c_before_they_are_ready_leaves_nothing_behind(server):
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_in_process(
            strategies.tasks, server, reads(keys=100), processes=2, in_flight=4, duration_s=LONG_S
        )
    timer.join()


PARENT = """
from kvstore.client import run_in_process, strategies, workload
run_in_process(
    strategies.tasks, {address!r}, workload.crud(value_bytes_mean=9), processes=2, in_flight=4,
    duration_s=60, on_sample=lambda sample: print(sample.answered, flush=True),
)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_when_the_parent_is_killed_no_generator_is_left(server):
    with subprocess.Popen(
        [sys.executable, "-c", PARENT.format(address=server.address)],
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        generators = psutil.Process(parent.pid).children()
        parent.kill()
        _, alive = psutil.wait_procs(generators, timeout=10)

    assert 2 == len(generators)
    assert not alive


@pytest.mark.slow
def test_an_error_of_who_looks_on_leaves_nothing_behind(server):
    def wrong():
        raise ZeroDivisionError("drawn wrongly")

    with pytest.raises(ZeroDivisionError, match="drawn wrongly"):
        run_in_process(
            strategies.bounded, server, SMALL, processes=2, in_flight=4, duration_s=LONG_S,
            on_sample=midway(wrong), sample_interval_s=0.02,
        )  # fmt: skip


@pytest.mark.slow
def test_a_setting_that_only_a_generator_can_check_has_the_same_error_as_with_one(server):
    with pytest.raises(ValueError, match="4 streams need at least as many requests in flight"):
        run_in_process(
            strategies.pipelined, server, SMALL, processes=2, in_flight=5, calls=10, streams=4
        )


@pytest.mark.slow
def test_another_server_is_not_taken_for_ours(server):
    with pytest.raises(WrongServer, match="'another' was started"):
        run_in_process(
            strategies.bounded, Target(server.address, "another"), SMALL, processes=2,
            in_flight=2, calls=2,
        )  # fmt: skip


def test_every_client_may_grow_to_the_ceiling(monkeypatch):
    monkeypatch.setattr(
        "kvstore.client.fleet.local_processes.available_memory_bytes", lambda: 900e6
    )
    monkeypatch.delattr("kvstore.client.fleet.local_processes.child", raising=False)

    with pytest.raises(MemoryError, match=r"in each of 2 clients .* 300e6 or less"):
        run_in_process(
            strategies.futures, "127.0.0.1:1", SMALL, processes=2, calls=9,
            memory_ceiling_bytes=301e6,
        )  # fmt: skip


def test_a_run_made_from_here_is_made_by_one_process():
    with pytest.raises(ValueError, match="run_in_process has `processes`"):
        load.run(strategies.bounded, "127.0.0.1:1", SMALL, calls=9, processes=2)


@for_each(
    ("says", "settings"),
    [
        ("2 processes share in_flight, so it must be 2 or more, got 1", {"processes": 2}),
        (
            "3 processes share calls, so it must be 3 or more, got 2",
            {"processes": 3, "in_flight": 3, "calls": 2},
        ),
        ("processes must be a whole number from 1 to 32, got 0", {"processes": 0}),
        ("processes must be a whole number from 1 to 32, got 33", {"processes": 33}),
        ("processes must be a whole number from 1 to 32, got 2.0", {"processes": 2.0}),
    ],
)
def test_what_cannot_be_shared_out_starts_no_process(says, settings, monkeypatch):
    monkeypatch.delattr("kvstore.client.fleet.local_processes.child", raising=False)

    with pytest.raises(ValueError, match=says):
        run_in_process(strategies.bounded, "127.0.0.1:1", SMALL, **{"calls": 9, **settings})
