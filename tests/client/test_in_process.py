"""Runs in other processes, with a memory ceiling."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import grpc
import psutil
import pytest

from kvstore.client import strategies, workload
from kvstore.client.__main__ import main
from kvstore.client.apart import monitor, run_in_process, start_error
from kvstore.client.channel import Target
from kvstore.client.errors import ServerNotReached, WrongServer
from kvstore.client.strategies import futures
from kvstore.measure import Run, audit
from kvstore.server import Server, serving
from kvstore.subprocesses import child
from kvstore.v1 import server_status_pb2 as pb
from kvstore.v1 import server_status_pb2_grpc


def watch(server, watched, ceiling_bytes, seconds=20):
    """Look on while a client that knows of no ceiling makes calls; return how long it ran."""
    arguments = [
        server.address,
        "--strategy=blocking",
        f"--duration-s={seconds}",
        "--sample-interval-s=0.1",
    ]
    with child("kvstore.client", arguments) as client:
        began_s = time.perf_counter()
        monitor(client, watched(client), ceiling_bytes=ceiling_bytes)
        return client.popen.wait(5), time.perf_counter() - began_s


@pytest.mark.slow
@pytest.mark.parametrize("side", ["client", "server"])
def test_a_client_is_ended_when_it_or_the_server_outgrows_the_ceiling(quick_server, side):
    pids = {"client": lambda _: [], "server": lambda _: [quick_server.pid]}

    status, ran_s = watch(quick_server, pids[side], ceiling_bytes=1e6)

    assert status != 0
    assert ran_s < 15
    assert quick_server.alive()


SMALL = workload.crud(seed=5, value_bytes_mean=100)


@pytest.mark.slow
def test_secrets_of_metadata_stand_in_no_process_list_and_in_no_saved_run(quick_server, tmp_path):
    lists = []

    def look(sample):
        for each in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it has ended meanwhile
                lists.append(" ".join(each.cmdline()))

    run = run_in_process(
        strategies.tasks, quick_server, SMALL, calls=200, rate_per_s=400, on_sample=look,
        metadata={"api-key": "hunter2"}, sample_interval_s=0.05,
    )  # fmt: skip
    saved = Run.load(run.save(tmp_path / "run.npz"))

    assert any("kvstore.client" in each for each in lists)
    assert not [each for each in lists if "hunter2" in each]
    assert ["api-key"] == [*saved.settings["metadata"]]
    assert "hunter2" not in repr(saved.settings)


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_a_server_that_falls_silent_gives_the_command_a_status_as_a_killed_one():
    """Both commands: that of the course, and the load test of any service."""
    ours = "-m", "kvstore.client", "--seconds=4", "--deadline-s=0.5"
    any_service = (
        "-m", "kvstore.load_test", "--no-calibration", "--seconds=4s", "--deadline=0.5s",
        "--json", '{"key": "YQ==", "value": "YQ=="}',
        "--quiet",
    )  # fmt: skip
    with contextlib.ExitStack() as open_now:
        both = [
            (*_at_work(open_now, ours), ours),
            (*_at_work(open_now, any_service, "kvstore.v1.KeyValueService/Create"), any_service),
        ]
        for silent, _, _ in both:
            os.kill(silent.pid, signal.SIGSTOP)
            open_now.callback(os.kill, silent.pid, signal.SIGCONT)
        for _, running, command in both:
            said = running.communicate(timeout=60)[1]

            assert 1 == running.returncode, (command, said)
            assert "stopped answering" in said


def _at_work(open_now, command, *method):
    """A server of its own, and the command that loads it, which has been answered."""
    server = open_now.enter_context(serving(read_delay_s=0.01, write_delay_s=0.01))
    running = open_now.enter_context(
        subprocess.Popen(
            [sys.executable, *command, server.address, *method],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    )
    open_now.callback(running.kill)
    channel = open_now.enter_context(grpc.insecure_channel(server.address))
    stub = server_status_pb2_grpc.ServerStatusServiceStub(channel)
    end_s = time.monotonic() + 60
    while sum(stub.GetServerStatus(pb.GetServerStatusRequest()).operations.values()) < 20:
        assert running.poll() is None, running.stderr.read()
        assert time.monotonic() < end_s
    return server, running


@pytest.mark.slow
def test_a_run_in_a_process_of_its_own_is_the_same_run(quick_server):
    seen = []
    run = run_in_process(
        strategies.pipelined, quick_server, SMALL, in_flight=8, calls=200, rate_per_s=400,
        deadline_s=9, on_sample=seen.append, sample_interval_s=0.05, batch=2,
    )  # fmt: skip

    assert ("pipelined", 8, "complete") == (run.strategy, run.in_flight, run.outcome)
    assert 200 == run.records["operations"].sum()
    assert SMALL == workload.Workload(**run.settings["workload"])
    assert (9, True, 2) == (
        run.settings["deadline_s"], run.settings["paced"], run.settings["batch"]
    )  # fmt: skip
    assert audit(run).holds
    assert quick_server.identity == run.server["identity"]
    assert len(seen) >= 2


@pytest.mark.slow
def test_its_errors_are_those_of_load(quick_server):
    target = Target(quick_server.address, "another")

    with pytest.raises(WrongServer, match="'another' was started: another program"):
        run_in_process(strategies.bounded, target, SMALL, calls=5)


@pytest.mark.parametrize(
    ("says", "arguments"),
    [
        ("an address is host:port", ["localhost"]),
        ("in_flight must be", ["127.0.0.1:1", "--in-flight=0"]),
        ("per_s must be above 0", ["127.0.0.1:1", "--rate-per-s=0"]),
        ("no server answers at 127.0.0.1:1", ["127.0.0.1:1"]),
        ("mix may name", ["127.0.0.1:1", '--workload={"mix": {"read": 1}}']),
        ("unexpected keyword argument 'colour'", ["127.0.0.1:1", '--workload={"colour": 1}']),
    ],
)
def test_settings_that_make_no_sense_are_named_without_a_traceback(
    says, arguments, capsys, monkeypatch
):
    """The exit status tells another process which error it was."""
    monkeypatch.setattr("kvstore.client.channel.CONNECT_S", 0.1)
    status = main([*arguments, "--strategy=bounded"])
    shown = capsys.readouterr().err
    error = start_error(shown.removeprefix("error: "), status)

    assert shown.startswith("error: ")
    assert says in shown
    assert says in str(error)
    assert isinstance(error, ServerNotReached if "no server" in says else ValueError)


def test_the_command_shows_a_summary_and_an_audit_and_where_it_cannot_be_saved(
    quick_server, tmp_path, capsys
):
    arguments = [quick_server.address, "--strategy=blocking", "--calls=50"]
    statuses = [
        main([*arguments, f"--save={tmp_path / folder / 'run.npz'}"]) for folder in ("", "none")
    ]
    shown = capsys.readouterr()

    assert [0, 2] == statuses
    assert 2 == shown.out.count("operations/s")
    assert 2 == shown.out.count("50 calls sent, 50 ended, 0 of them unknown")
    assert shown.out.endswith(": holds\n")
    assert str(tmp_path / "none") in shown.err
    assert 50 == Run.load(tmp_path / "run.npz").issued


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
    monkeypatch.setattr("kvstore.client.apart.available_memory_bytes", lambda: 1e9)

    with pytest.raises(MemoryError, match="only 1,000 MB are free: close other programs, or set"):
        run_in_process(
            futures, quick_server, workload.crud(), duration_s=1, memory_ceiling_bytes=512e6
        )
