"""`rpcload HOST:PORT METHOD` as its user meets it: good calls and bad input."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from greeter import description, greeter

from kvstore.client.fleet import available
from kvstore.load_test.__main__ import main
from kvstore.load_test.options import Flags
from kvstore.load_test.service import target_of
from kvstore.measure import Run

HELLO = "greeter.v1.Greeter/Hello"
QUICK = ["--no-calibration", "--seconds=0.2", "--in-flight=4"]
ONE = '--json={"name": "a"}'
EACH = "greeter.v1.Greeter/HelloToEach"
MANY_NAMES = f"--json={json.dumps({'name': ','.join('a' * 500)})}"
"""A greeting takes 2 ms: these take a second."""
TWO = '--json=[{"name": "a"}, {"name": "b"}]'


def load_test(address, *arguments):
    return main([address, *arguments])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "request_json", "extra"),
    [
        ("Hello", ONE, []),
        ("Hello", ONE, ["--rate=100"]),
        ("HelloToEach", '--json={"name": "a,b"}', []),
        ("HelloToAll", TWO, ["--strategy=bounded"]),
        ("Chat", TWO, ["--strategy=blocking"]),
    ],
)
def test_every_kind_of_method_is_called_and_each_call_recorded_once(
    a_greeter, tmp_path, capsys, method, request_json, extra
):
    file = tmp_path / "run.npz"
    status = load_test(
        a_greeter.address,
        f"greeter.v1.Greeter/{method}",
        request_json,
        "--no-calibration",
        "--calls=20",
        "--in-flight=4",
        *extra,
        "--output=json",
        f"--save={file}",
    )
    report = json.loads(capsys.readouterr().out)["run"]
    run = Run.load(file)

    assert 0 == status
    assert report["little_holds"]
    assert {"OK": run.issued} == report["statuses"]
    assert 20 == run.issued
    assert {method.lower()} == set(run.mix())
    assert 0 < run.records["reply_bytes"].min()
    work_s = 0.002 * (2 if method in ("HelloToEach", "Chat") else 1)
    assert work_s <= report["latency_s"]["p50"]["value_s"]
    if "--rate=100" in extra:
        assert "from the due time" == report["latency_from"]


def refused(capsys, address, *arguments):
    """The error of a load test that ends with status 2 or 3, on one line."""
    began_s = time.perf_counter()
    status = load_test(address, *arguments)
    shown = capsys.readouterr()

    assert status in (2, 3), (status, shown)
    assert "" == shown.out
    assert shown.err.startswith("error: ")
    assert "Traceback" not in shown.err
    assert time.perf_counter() - began_s < 60  # it does not hang
    return shown.err


@pytest.mark.slow
def test_a_first_call_that_takes_longer_than_its_deadline_is_an_error(a_greeter, capsys):
    message = refused(capsys, a_greeter.address, EACH, MANY_NAMES, "--deadline-s=0.05")

    assert "end within its deadline of 0.05 s" in message


@pytest.mark.slow
def test_a_server_without_reflection_needs_a_descriptor_set(tmp_path, capsys):
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    file = tmp_path / "greeter.binpb"
    file.write_bytes(FileDescriptorSet(file=[description()]).SerializeToString())
    with greeter(reflection=False, token="secret") as server:
        no_reflection = refused(capsys, server.address, HELLO, ONE)
        without_token = refused(capsys, server.address, HELLO, ONE, f"--descriptors={file}", *QUICK)
        status = load_test(
            server.address,
            HELLO,
            ONE,
            f"--descriptors={file}",
            *QUICK,
            '--metadata={"authorization": "secret"}',
        )

    assert "has no reflection" in no_reflection
    assert "--descriptors FILE" in no_reflection
    assert "UNAUTHENTICATED" in without_token
    assert "--metadata" in without_token
    assert 0 == status


@pytest.mark.slow
def test_tls_with_an_authority_and_client_certificates(a_greeter, certificates, capsys):
    files = {name: certificates / name for name in ("ca.pem", "server.pem", "server.key")}
    client = [f"--cert={certificates / 'client.pem'}", f"--key={certificates / 'client.key'}"]
    ca = f"--ca={files['ca.pem']}"
    with greeter(
        cert=files["server.pem"], key=files["server.key"], client_ca=files["ca.pem"]
    ) as server:
        address = server.address.replace("127.0.0.1", "localhost")
        plain = refused(capsys, address, HELLO, ONE)
        of_no_use = refused(capsys, a_greeter.address, HELLO, ONE, "--tls")
        stranger = refused(
            capsys, address, HELLO, ONE, f"--ca={certificates / 'other.pem'}", *client
        )
        unnamed = refused(capsys, address, HELLO, ONE, ca)
        wrong_name = refused(capsys, server.address, HELLO, ONE, ca, *client)
        status = load_test(address, HELLO, ONE, ca, *client, *QUICK)
        named = load_test(
            server.address, HELLO, ONE, ca, *client, "--server-name=localhost", *QUICK
        )

    assert "encrypts its connections: give --tls" in plain
    assert "it does not encrypt its connections: leave out --tls" in of_no_use
    assert "is not accepted" in stranger
    assert "it requires a client certificate" in unnamed
    assert "--server-name" in wrong_name
    assert 0 == status == named


@pytest.mark.slow
def test_the_certificate_of_the_start_is_trusted_on_request_and_no_other(certificates, capsys):
    server, key = certificates / "server.pem", certificates / "server.key"
    with greeter(cert=server, key=key) as running:
        alone = refused(capsys, running.address, HELLO, ONE, "--tls")
        trusted = load_test(running.address, HELLO, ONE, *QUICK, "--insecure-skip-verify")
        capsys.readouterr()
        both = refused(
            capsys, running.address, HELLO, ONE, "--insecure-skip-verify", f"--ca={server}"
        )

    assert "is not accepted" in alone
    assert 0 == trusted
    assert "--ca verifies the server and --insecure-skip-verify does not" in both


def test_where_nothing_listens_the_error_comes_at_once(capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"

        assert "nothing listens at" in refused(capsys, address, HELLO)


@contextmanager
def started(*arguments, until=r"run: .* [1-9][\d,]* answered") -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, once its progress has such a line."""
    with subprocess.Popen(
        [sys.executable, "-m", "kvstore.load_test", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        while not re.search(until, process.stderr.readline()):
            assert process.poll() is None
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_server_that_goes_in_mid_run_ends_the_run_with_what_was_measured():
    with (
        greeter(work_s=0.01) as server,
        started(server.address, HELLO, "-d", '{"name": "a"}', *QUICK[:1], "-s", 60) as command,
    ):
        os.kill(server.pid, signal.SIGKILL)
        out, err = command.communicate(timeout=60)

    assert 1 == command.returncode
    assert "measured " in out
    assert "server gone" in out
    assert f"no server answers at {server.address} any more" in err


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_measured(a_greeter, tmp_path):
    file = tmp_path / "run.npz"
    with started(
        a_greeter.address, HELLO, ONE, "--in-flight=2", "--seconds=60", QUICK[0], f"--save={file}"
    ) as command:
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=60)

    assert 130 == command.returncode
    assert "ended by    interrupted" in out
    assert 1 == err.count("interrupted")
    assert Run.load(file).issued > 0


@pytest.mark.slow
def test_ctrl_c_ends_the_wait_for_a_first_call():
    waiting = "waiting for the first call"
    with (
        greeter(work_s=5.0) as server,
        started(server.address, HELLO, ONE, QUICK[0], until=waiting) as command,
    ):
        command.send_signal(signal.SIGINT)
        _, err = command.communicate(timeout=60)

    assert 130 == command.returncode
    assert "interrupted before the run began" in err


@pytest.mark.slow
@pytest.mark.skipif(not available(), reason="Dask is not installed")
def test_several_workers_make_one_run(a_greeter, capsys):
    status = load_test(
        a_greeter.address,
        HELLO,
        ONE,
        "--workers=2",
        "--no-calibration",
        "--calls=40",
        "--in-flight=4",
        "--output=json",
    )
    report = json.loads(capsys.readouterr().out)["run"]

    assert 0 == status
    assert {"OK": 40} == report["statuses"]
    assert 2 == report["settings"]["processes"]
    assert report["little_holds"]


@pytest.mark.slow
def test_flags_that_change_how_a_run_begins_and_goes_on_reach_it(a_greeter, tmp_path, capfd):
    file = tmp_path / "run.npz"
    asked = ["--warm-up=0.2s", "--join-over=0.4s", "--keep-going", "--gzip", "--keepalive=10s"]
    config = '--service-config={"loadBalancingPolicy": "pick_first"}'
    load = ["--in-flight=4", "--seconds=0.8", "--no-calibration", f"--save={file}"]

    assert 0 == load_test(a_greeter.address, HELLO, ONE, *asked, "--authority=shop", config, *load)
    run = Run.load(file)
    early = run.records["sent_s"] < run.records["sent_s"].min() + 0.05

    assert "warm-up" in capfd.readouterr().err
    assert 1 <= early.sum() < 40, "one caller at first, with 2 ms for each greeting"
    assert run.settings["keep_going"]
    assert run.settings["service_config"] == {"loadBalancingPolicy": "pick_first"}


def test_the_options_of_a_channel_are_those_of_grpc(a_greeter):
    flags = Flags(address=a_greeter.address, gzip=True, keepalive=10.0, authority="shop")
    options = dict(target_of(flags).options)

    assert options["grpc.default_compression_algorithm"] == grpc.Compression.Gzip.value
    assert options["grpc.keepalive_time_ms"] == 10_000
    assert options["grpc.default_authority"] == "shop"
