"""process.py and `python -m kvstore.client`: the same run from a process of its own."""

import re
import socket
import subprocess
import sys

import pytest

from kvstore.client import strategies, workload
from kvstore.client.__main__ import main
from kvstore.client.channel import ServerNotReached, Target, WrongServer
from kvstore.client.generators import not_begun
from kvstore.client.process import run_in_process
from kvstore.measure import Run, audit

SMALL = workload.crud(seed=5, value_bytes_mean=100)


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
@pytest.mark.parametrize(
    ("error", "says", "identity", "in_flight"),
    [
        (ValueError, "in_flight must be a whole number of 1 or more, got 0", None, 0),
        (WrongServer, "says it is '.*', but 'another' was started", "another", 1),
    ],
)
def test_its_errors_are_those_of_load(error, says, identity, in_flight, quick_server):
    target = Target(quick_server.address, identity)

    with pytest.raises(error, match=says):
        run_in_process(strategies.bounded, target, SMALL, calls=5, in_flight=in_flight)


def test_a_server_that_is_not_there_is_told_from_a_wrong_setting(monkeypatch, capsys):
    monkeypatch.setattr("kvstore.client.channel.CONNECT_S", 0.1)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        status = main(["bounded", address])

    error = not_begun(capsys.readouterr().err.removeprefix("error: "), status)
    assert isinstance(error, ServerNotReached)
    assert str(error).startswith(f"no server answers at {address}")


def test_a_process_that_ended_without_a_word_is_told_too():
    assert "(exit status -9): it said nothing. If it was ended for its memory" in str(
        not_begun("", -9)
    )


@pytest.mark.slow
def test_the_command_shares_the_load_out_among_processes(quick_server, tmp_path):
    ended = subprocess.run(
        [
            sys.executable, "-m", "kvstore.client", "tasks", quick_server.address,
            "--processes=2", "--in-flight=4", "--calls=51", '--workload={"value_bytes_mean": 100}',
            f"--save={tmp_path / 'run.npz'}",
        ],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip

    assert re.search(r"generator processes +2\n", ended.stdout)
    assert "51 calls sent, 51 ended, 0 of them unknown" in ended.stdout
    assert 2 == Run.load(tmp_path / "run.npz").connections


@pytest.mark.slow
def test_the_command_shows_a_summary_and_an_audit(quick_server, tmp_path):
    ended = subprocess.run(
        [
            sys.executable, "-m", "kvstore.client", "bounded", quick_server.address,
            "--in-flight=4", "--calls=50", '--workload={"value_bytes_mean": 100}',
            f"--save={tmp_path / 'run.npz'}",
        ],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip

    assert "operations/s" in ended.stdout
    # An operation may find its key deleted by the one beside it: the audit then tells of it.
    assert "50 calls sent, 50 ended, 0 of them unknown" in ended.stdout
    assert ended.stdout.endswith(": holds\n")
    assert 50 == Run.load(tmp_path / "run.npz").issued


@pytest.mark.parametrize(
    ("says", "arguments"),
    [
        ("invalid choice: 'fastest'", ["fastest", "127.0.0.1:1"]),
        ("the following arguments are required: address", ["bounded"]),
        ("invalid loads value", ["bounded", "127.0.0.1:1", "--workload={"]),
    ],
)
def test_bad_arguments_are_refused(says, arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)

    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("says", "arguments"),
    [
        ("an address is host:port", ["localhost"]),
        ("in_flight must be", ["127.0.0.1:1", "--in-flight=0"]),
        ("per_s must be above 0", ["127.0.0.1:1", "--rate-per-s=0"]),
        ("mix may name", ["127.0.0.1:1", '--workload={"mix": {"read": 1}}']),
        ("unexpected keyword argument 'colour'", ["127.0.0.1:1", '--workload={"colour": 1}']),
    ],
)
def test_settings_that_make_no_sense_are_named_without_a_traceback(says, arguments, capsys):
    status = main(["bounded", *arguments])
    shown = capsys.readouterr().err

    assert 2 == status
    assert shown.startswith("error: ")
    assert says in shown
