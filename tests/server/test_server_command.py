"""`python -m kvstore.server`: what a person at a terminal, or a script, sees of it."""

import re
import signal
import socket
import subprocess
import sys
import time

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from running import HANG_S, started_by_hand, status_of
from stacks import calling

from kvstore.server.__main__ import main, parser
from kvstore.v1 import kvstore_pb2 as pb

SLOW_DISK = ["--read-delay-s=1.5", "--write-delay-s=1.5", "--locking=per_key"]


def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "kvstore.server", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stack", "signum"), [([], signal.SIGTERM), (["--use-asyncio"], signal.SIGINT)]
)
def test_a_call_in_flight_at_the_signal_is_still_answered(stack, signum):
    """The server drains, prints nothing more, and ends with status 0."""
    with started_by_hand(*SLOW_DISK, *stack) as (address, process):
        assert process.pid == status_of(address).process_id
        with calling(address) as stub:
            sent_s = time.perf_counter()
            calls = [
                stub.Create.future(pb.CreateRequest(key=b"%d" % n, value=b"v"), timeout=HANG_S)
                for n in range(5)
            ]
            time.sleep(0.8)  # all of them are on the disk now, also on a busy machine
            process.send_signal(signum)
            codes = {call.code() for call in calls}
            answered_s = time.perf_counter()
        out, err = process.communicate(timeout=HANG_S)

    assert re.fullmatch(r"127\.0\.0\.1:\d{2,5}", address)
    assert {grpc.StatusCode.OK} == codes
    assert answered_s - sent_s > 1.4
    assert (0, "", "") == (process.returncode, out, err)


@pytest.mark.slow
def test_a_second_signal_does_not_wait():
    with (
        started_by_hand("--use-asyncio") as (address, process),
        grpc.insecure_channel(address) as channel,
    ):
        watched = HealthStub(channel).Watch(HealthCheckRequest(), wait_for_ready=True)
        assert HealthCheckResponse.SERVING == next(watched).status  # this call is in flight
        process.send_signal(signal.SIGTERM)
        assert HealthCheckResponse.NOT_SERVING == next(watched).status
        process.send_signal(signal.SIGTERM)

        assert -signal.SIGTERM == process.wait(HANG_S)


@pytest.mark.parametrize(
    ("says", "arguments"),
    [
        ("read_delay_s must be a number of seconds from 0 to 60, got -1.0", ["--read-delay-s=-1"]),
        ("argument --locking: invalid choice: 'row'", ["--locking=row"]),
        (
            "--threads is the size of a pool, and --use-asyncio has none",
            ["--threads=4", "--use-asyncio"],
        ),
    ],
)
def test_bad_input_is_refused_before_anything_listens(says, arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert 2 == ended.value.code
    assert says in capsys.readouterr().err


@pytest.fixture
def own_port_free():
    """A port that was free a moment ago."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
    return port


@pytest.mark.slow
def test_a_requested_port_is_taken_and_two_servers_never_share_it(own_port_free):
    """By default, gRPC on Linux lets servers share a port, and calls go to either."""
    with started_by_hand(f"--port={own_port_free}") as (address, _):
        ended = command(f"--port={own_port_free}")

    assert f"127.0.0.1:{own_port_free}" == address
    assert (1, "") == (ended.returncode, ended.stdout)
    assert f"error: port {own_port_free} of 127.0.0.1 cannot be used" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_started_by_hand_a_server_does_not_end_with_its_input():
    """`nohup python -m kvstore.server < /dev/null &` must live."""
    with subprocess.Popen(
        [sys.executable, "-m", "kvstore.server"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        report = status_of(process.stdout.readline().strip())
        process.terminate()

    assert (process.pid, 0) == (report.process_id, process.returncode)


def test_help_explains_every_option(capsys):
    with pytest.raises(SystemExit, match="0"):
        parser().parse_args(["--help"])
    shown = " ".join(capsys.readouterr().out.split())

    assert "The first line it prints is its address" in shown
    assert all(option.help for option in parser()._actions)
    assert "(default 0.05)" in shown
