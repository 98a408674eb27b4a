"""A fleet makes one run; whatever becomes of one worker, every call has an account."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import islice

import psutil
import pytest

from kvstore.client import RunFailed, RunInterrupted, ServerGone, load, strategies
from kvstore.client import fleet as cluster
from kvstore.client.errors import FleetNotReached
from kvstore.client.fleet import Cluster, Local
from kvstore.client.pacing import constant_rate
from kvstore.client.plan import Plan, parts
from kvstore.client.workload import Operations, Workload, crud, reads
from kvstore.measure import Run, audit
from kvstore.server import serving

SMALL = crud(seed=5, key_bytes_mean=8, value_bytes_mean=100, sizes="fixed")
DELAYS = {"read_delay_s": 0.002, "write_delay_s": 0.004, "locking": "per_key"}
LONG_S = 120.0
"""A run of this length was ended by what the test did to it."""


@pytest.fixture(scope="module")
def server():
    with serving(use_asyncio=True, **DELAYS) as running:
        yield running


@pytest.fixture(scope="module")
def fleet():
    """Two local workers, which take seconds to start."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with Local(2) as running:
        yield running
    left = {child.pid for child in psutil.Process().children(recursive=True)} - before
    dask = [pid for pid in left if "spawn_main" in " ".join(psutil.Process(pid).cmdline())]
    assert not dask


def with_dask(test):
    """Mark a test that starts workers."""
    lacks = importlib.util.find_spec("distributed") is None
    return pytest.mark.slow(pytest.mark.skipif(lacks, reason="Dask is not installed")(test))


def midway(what):
    """Do `what` once, when a good number of calls have been answered."""
    done = []

    def on_sample(sample):
        if sample.answered >= 50 and not done:
            done.append(time.perf_counter())
            what()

    return on_sample


def pids_of(fleet):
    return fleet._client.run(os.getpid)


def long_run(fleet, server, what, strategy=strategies.tasks):
    """A run that would last long, in the middle of which `what` is done."""
    return load.run(
        strategy,
        server,
        SMALL,
        fleet=fleet,
        in_flight=4,
        duration_s=LONG_S,
        on_sample=midway(what),
        sample_interval_s=0.02,
    )


@with_dask
def test_two_make_one_run(server, fleet, tmp_path):
    seen = []
    run = load.run(
        strategies.pipelined,
        server,
        SMALL,
        fleet=fleet,
        in_flight=5,
        calls=301,
        deadline_s=9,
        rate_per_s=300,
        batch=3,
        on_sample=seen.append,
        sample_interval_s=0.02,
    )
    workers = run.settings["workers"]

    assert ("pipelined", 5, "complete") == (run.strategy, run.in_flight, run.outcome)
    assert 301 == run.records["operations"].sum() == run.server.answered
    assert SMALL == Workload(**run.settings["workload"])
    assert (2, 301, 300) == tuple(
        run.settings[name] for name in ("processes", "calls", "rate_per_s")
    )
    assert audit(run).holds
    assert {0, 1} == set(run.records["connection"])
    # 151 operations in threes are 51 requests, 150 are 50; each has the due time of its first
    assert [51, 50] == [each["recorded"] for each in workers]
    assert 2 == len({each["worker"] for each in workers})
    assert run.records["sent_s"].min() >= 0
    assert workers == Run.load(run.save(tmp_path / "run.npz")).settings["workers"]
    due_s = [*islice(constant_rate(300), 301)]
    assert sorted(due_s[0::6] + due_s[1::6]) == pytest.approx(sorted(run.records["due_s"]))
    assert seen
    assert seen[-1].issued <= run.issued == 101
    assert run.client_cpu.total_s > 0 < run.server_cpu.total_s


@with_dask
def test_strangers_cannot_reach_the_workers_and_their_files_are_in_a_folder_that_goes(fleet):
    def folder_of(dask_worker):
        return dask_worker.local_directory

    assert fleet._client.scheduler.address.startswith("tls://127.0.0.1:")
    assert all(each.startswith("tls://127.0.0.1:") for each in fleet._client.nthreads())
    with (
        pytest.raises(FleetNotReached, match="no Dask scheduler answers"),
        Cluster(fleet._client.scheduler.address.replace("tls", "tcp")).connected(),
    ):
        pytest.fail("a stranger is connected")
    folders = fleet._client.run(folder_of).values()
    assert all("kvstore-fleet-" in each for each in folders)


STARTS = """
from kvstore.client.fleet import Local

if __name__ == "__main__":
    with Local(2):
        print("never", flush=True)
        input()
"""


@with_dask
@pytest.mark.skipif(sys.platform == "win32", reason="reads the environment of processes")
def test_a_fleet_that_is_killed_while_it_starts_leaves_no_process(tmp_path):
    def those_of(mark):
        for each in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if each.environ().get("TEST_OF_FLEET") == mark and each.status() != "zombie":
                    yield each

    script, mark = tmp_path / "starts.py", str(tmp_path)
    script.write_text(STARTS)
    environment = {**os.environ, "TEST_OF_FLEET": mark, "TMPDIR": mark}
    starting = subprocess.Popen([sys.executable, script], env=environment, cwd=tmp_path)
    try:
        end_s, workers = time.monotonic() + LONG_S, []
        while len(workers) < 2:
            assert time.monotonic() < end_s, "no worker was started"
            workers = [each for each in those_of(mark) if "spawn_main" in " ".join(each.cmdline())]
        for each in workers:
            each.suspend()  # as on a busy machine, it does not see the end of its parent in 3 s
    finally:
        starting.kill()
        starting.wait()
    end_s = time.monotonic() + 3
    while (left := [*those_of(mark)]) and time.monotonic() < end_s:
        time.sleep(0.1)
    for each in left:
        each.kill()

    assert [] == left
    assert [script] == [*tmp_path.iterdir()]


@with_dask
def test_a_worker_that_is_killed_ends_the_run_and_is_named(server, fleet):
    address, pid = sorted(pids_of(fleet).items())[1]
    with pytest.raises(RunFailed, match=f"worker 2 of 2 .{address}. was lost") as failed:
        long_run(fleet, server, lambda: os.kill(pid, signal.SIGKILL))
    run = failed.value.run
    there, lost = run.settings["workers"]

    assert "failed" == run.outcome
    assert run.window_s < LONG_S
    assert ("interrupted", there["recorded"]) == (there["outcome"], there["issued"])
    assert ("lost", 0) == (lost["outcome"], lost["recorded"])
    assert 0 < lost["issued"] == lost["unknown"] == run.unrecorded
    assert run.issued == there["recorded"] + run.unrecorded
    assert audit(run).holds
    assert "at least" in repr(audit(run))
    assert "holds" not in repr(audit(run))
    assert run.unrecorded <= audit(run).operations.unknown
    assert f"{run.records['operations'].sum():,} are recorded" in str(failed.value)
    assert f"it had sent {lost['issued']:,} calls or more" in str(failed.value)
    # The next run of the same fleet has a new worker in its place.
    again = load.run(strategies.tasks, server, SMALL, fleet=fleet, in_flight=2, calls=10)
    assert (10, 2) == (again.issued, len(again.settings["workers"]))


@with_dask
def test_a_server_that_is_killed_ends_every_worker(fleet):
    with (
        serving(use_asyncio=True, **DELAYS) as server,
        pytest.raises(ServerGone, match="of all workers together") as failed,
    ):
        long_run(fleet, server, lambda: os.kill(server.pid, signal.SIGKILL), strategies.pipelined)
    run = failed.value.run

    assert "server gone" == run.outcome
    assert audit(run).holds
    assert run.issued == sum(each["recorded"] for each in run.settings["workers"])
    assert run.server.operations is None


@with_dask
def test_ctrl_c_ends_all_with_every_call_accounted_for(server, fleet):
    with pytest.raises(RunInterrupted) as interrupted:
        long_run(fleet, server, lambda: signal.raise_signal(signal.SIGINT), strategies.bounded)
    run = interrupted.value.run

    assert "interrupted" == run.outcome
    assert audit(run).holds
    assert run.issued == run.server.answered >= 50


def test_without_dask_the_error_has_the_next_step(monkeypatch):
    monkeypatch.setattr(cluster, "available", lambda: False)

    with pytest.raises(FleetNotReached, match="pip install distributed"):
        load.run(strategies.bounded, "127.0.0.1:1", SMALL, calls=9, fleet=Local(2), in_flight=2)


@with_dask
def test_without_a_scheduler_or_enough_workers_the_error_has_the_next_step(monkeypatch):
    from distributed import LocalCluster

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "CONNECT_S", 0.5)
        with pytest.raises(FleetNotReached, match="no Dask scheduler answers at tcp:"):
            Cluster("tcp://127.0.0.1:1").__enter__()
    with LocalCluster(
        n_workers=2, processes=False, protocol="tcp://", host="127.0.0.1", dashboard_address=":0"
    ) as others:
        address = others.scheduler_address
        with monkeypatch.context() as patched:
            patched.setattr(Cluster, "_within_s", 0.5)
            with (
                pytest.raises(FleetNotReached, match=r"5 workers are needed, and .* knows 2"),
                Cluster(address, 5).connected(),
            ):
                pass
        with Cluster(address, 1).connected() as addresses:
            assert 1 == len(addresses)


def test_no_two_generators_ask_for_one_key():
    """Not even with the same seed and salt, and not with keys of a single byte."""
    requested = [
        {Operations(crud(key_bytes_mean=1, sizes="fixed"), owns=part.owns).draw().key}
        | {
            operation.key
            for operation in Operations(
                reads(keys=500, key_bytes_mean=1, sizes="fixed"), owns=part.owns
            ).preloads()
        }
        for part in parts(4)
    ]

    assert sum(map(len, requested)) == len(set.union(*requested)) > 200


@pytest.mark.parametrize("processes", [1, 2, 3, 32])
@pytest.mark.parametrize("whole", [32, 100, 3001])
def test_parts_add_up_to_the_whole_run(processes, whole):
    settings = {"calls": whole, "in_flight": 32, "rate_per_s": 10}
    plan = Plan.of(strategies.bounded, "127.0.0.1:1", SMALL, settings=settings)
    shares = plan.divided(processes)
    counts = [each.options.calls for each in shares]
    due_s = [at_s for each in shares for at_s in islice(each.pace(), 5)]

    assert whole == sum(counts)
    assert 32 == sum(each.options.in_flight for each in shares)
    assert max(counts) - min(counts) <= 1
    assert [*islice(constant_rate(10), 5 * processes)] == sorted(due_s)


@pytest.mark.parametrize(
    ("says", "make"),
    [
        ("2 workers share in_flight, so it must be 2 or more, got 1", lambda: shared(calls=9)),
        ("due times cannot be sent to a fleet", lambda: shared(calls=9, due_times=iter([0.0]))),
        (
            "callers join one by one in one process only",
            lambda: shared(strategies.tasks, in_flight=2, calls=9, joins=[0, 1]),
        ),
        ("a whole number of workers from 1 to 32, got 33", lambda: Local(33)),
        ("like tcp://10.0.0.1:8786, got '10.0.0.1'", lambda: Cluster("10.0.0.1")),
        ("fleet=Local", lambda: load.run(strategies.bounded, "h:1", SMALL, calls=9, processes=2)),
    ],
)
def test_a_fleet_that_makes_no_sense_is_refused_before_a_worker_starts(says, make):
    with pytest.raises(ValueError, match=says):
        make()


def shared(strategy=strategies.bounded, due_times=None, **settings):
    plan = Plan.of(
        strategy, "127.0.0.1:1", SMALL, settings=settings, due_times=due_times, for_fleet=True
    )
    plan.divided(2)


@with_dask
def test_a_strategy_that_a_learner_wrote_is_sent_to_the_workers(server, fleet):
    """It is defined in a notebook, so no worker can import it."""
    mine = {"__name__": "__main__"}
    exec(
        "def mine(stub, operations, in_flight):\n"
        "    for operation in operations:\n"
        "        try:\n"
        "            operation.rpc(stub)(operation.request)\n"
        "        except Exception:\n"
        "            pass\n",
        mine,
    )
    run = load.run(mine["mine"], server, SMALL, fleet=fleet, in_flight=2, calls=20)

    assert ("mine", 20) == (run.strategy, run.issued)
    assert audit(run).holds


@with_dask
@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_a_worker_that_stands_still_is_lost_too(server, monkeypatch):
    monkeypatch.setitem(cluster.LOCAL_SETTINGS, "distributed.scheduler.worker-ttl", "5s")
    with Local(2) as fleet:
        address, pid = min(pids_of(fleet).items())
        with pytest.raises(RunFailed, match=f"worker 1 of 2 .{address}. was lost"):
            long_run(fleet, server, lambda: os.kill(pid, signal.SIGSTOP))
