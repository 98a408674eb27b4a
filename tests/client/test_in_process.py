"""Runs in processes of their own, with a memory ceiling."""

import contextlib
import os
import pickle
import signal
import sys
import threading

import psutil
import pytest

from kvstore.client import strategies, workload
from kvstore.client.channel import Target
from kvstore.client.errors import WrongServer
from kvstore.client.plan import Plan
from kvstore.client.separate_process import PLAN, monitor, run_in_process
from kvstore.client.strategies import futures
from kvstore.load_test.__main__ import main as load_test
from kvstore.measure import audit
from kvstore.server import Server, serving
from kvstore.subprocesses import child

SMALL = workload.crud(seed=5, value_bytes_mean=100)


@pytest.mark.slow
@pytest.mark.parametrize("side", ["client", "server"])
def test_a_client_is_ended_when_it_or_the_server_outgrows_the_ceiling(quick_server, side, tmp_path):
    """It knows of no ceiling itself."""
    plan = Plan.of(strategies.blocking, quick_server, SMALL, settings={"duration_s": 20})
    (tmp_path / PLAN).write_bytes(pickle.dumps(plan))
    with child("kvstore.client", [str(tmp_path)]) as client:
        monitor(client, {"client": [], "server": [quick_server.pid]}[side], 1e6)

    assert client.popen.returncode not in (0, None)
    assert [PLAN] == [each.name for each in tmp_path.iterdir()]
    assert quick_server.alive()


@pytest.mark.slow
def test_a_run_in_a_process_of_its_own_is_the_same_run(quick_server):
    seen, lists = [], []

    def look(sample):
        seen.append(sample)
        for each in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it has ended meanwhile
                lists.append(" ".join(each.cmdline()))

    run = run_in_process(
        strategies.pipelined,
        quick_server,
        SMALL,
        in_flight=8,
        calls=200,
        rate_per_s=400,
        deadline_s=9,
        on_sample=look,
        sample_interval_s=0.05,
        batch=2,
    )

    assert ("pipelined", 8, "complete") == (run.strategy, run.in_flight, run.outcome)
    assert 200 == run.records["operations"].sum()
    assert SMALL == workload.Workload(**run.settings["workload"])
    assert (9, True, 2) == (
        run.settings["deadline_s"],
        run.settings["paced"],
        run.settings["batch"],
    )
    assert audit(run).holds
    assert quick_server.identity == run.server.identity
    assert len(seen) >= 2
    assert any("kvstore.client" in each for each in lists)


def test_its_errors_are_those_of_load_and_it_has_no_strategy_of_a_notebook(quick_server):
    with pytest.raises(WrongServer, match="'another' was started: another program"):
        run_in_process(strategies.bounded, Target(quick_server.address, "another"), SMALL, calls=5)
    with pytest.raises(ValueError, match=r"make the run of <lambda> with load\.run"):
        run_in_process(lambda *_: None, quick_server, SMALL, calls=5)


@pytest.mark.slow
def test_an_unlimited_client_stops_at_its_ceiling_and_leaves_nothing_behind():
    """Values of 256 KiB that get no reply: 200 MB are full in a second or two."""
    large = workload.crud(mix={"create": 1}, value_bytes_mean=262_144, sizes="fixed")
    with serving(write_delay_s=1.0) as server:
        before = psutil.Process().children()
        ceiling_bytes = 250e6
        run = run_in_process(
            futures, server, large, duration_s=60, memory_ceiling_bytes=ceiling_bytes
        )
        after = psutil.Process().children()

    most_bytes = max(run.samples["client_rss_bytes"].max(), run.samples["server_rss_bytes"].max())
    assert "memory ceiling" == run.outcome
    assert run.window_s < 30
    assert ceiling_bytes <= most_bytes < 1.3 * ceiling_bytes
    assert audit(run).holds, repr(audit(run))
    assert run.issued == sum(run.outcomes().values()) > 3
    assert before == after


def test_without_room_for_it_nothing_is_started(quick_server: Server, monkeypatch):
    monkeypatch.setattr("kvstore.client.separate_process.available_memory_bytes", lambda: 1e9)

    with pytest.raises(MemoryError, match="only 1,000 MB are free: close other programs, or set"):
        run_in_process(
            futures, quick_server, workload.crud(), duration_s=1, memory_ceiling_bytes=512e6
        )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_a_server_that_falls_silent_gives_the_command_a_status(monkeypatch, capsys):
    arguments = ["kvstore.v1.KeyValueService/Create", "--deadline=0.3s", "--quiet"]
    arguments += ['--json={"key": "YQ==", "value": "YQ=="}', "--no-calibration"]
    monkeypatch.setattr("kvstore.client.monitor.ANSWER_S", 0.2)
    with serving(read_delay_s=0.01, write_delay_s=0.01) as silent:
        stop = threading.Timer(0.8, os.kill, (silent.pid, signal.SIGSTOP))
        stop.start()
        try:
            status = load_test([silent.address, *arguments, "--seconds=2"])
        finally:
            stop.join()
            os.kill(silent.pid, signal.SIGCONT)

    assert 1 == status
    assert "stopped answering" in capsys.readouterr().err
