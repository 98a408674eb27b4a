"""Servers that other machines can reach: TLS, a token, and the command that makes both."""

import asyncio
import contextlib
import importlib.util
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import grpc
import pytest
from tables import for_each

from kvstore.client import load, measured_channel, run_in_process, strategies, workload
from kvstore.client.__main__ import main as client
from kvstore.client.channel import Target, Tls
from kvstore.client.errors import TlsMismatch
from kvstore.client.fleet import Cluster, Local
from kvstore.credentials import CA, CERTIFICATE, KEY, TOKEN, access_from, read_token
from kvstore.measure import Run
from kvstore.server import ServerDidNotStart, ServerSettings, serving
from kvstore.server.admission import interceptors
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub
from tools import certificate

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="Dask is not installed"
)
QUICK = {"read_delay_s": 0, "write_delay_s": 0}
CALLS = {"in_flight": 4, "calls": 100}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder as the command makes it."""
    made: Path = tmp_path_factory.mktemp("made") / "new" / "certificate"
    assert 0 == certificate.main([str(made), "--host", "example.test", "10.77.0.2"])
    return made


def _other_key() -> bytes:
    return certificate.made(["localhost"], datetime(2030, 1, 1), datetime(2030, 1, 2))[KEY]


@pytest.fixture(scope="module", params=[False, True], ids=["threads", "asyncio"])
def server(request, folder):
    with serving(**QUICK, tls=str(folder), use_asyncio=request.param) as running:
        yield running


def test_the_command_writes_private_files_says_when_they_expire_and_keeps_old_ones(
    tmp_path, capsys
):
    made = tmp_path / "made"

    assert 0 == certificate.main([str(made), "--host", "example.test", "--days", "30"])
    said = capsys.readouterr().out
    assert "example.test, localhost, 127.0.0.1, ::1" in said
    assert "It expires on" in said
    assert {CA, CERTIFICATE, KEY, TOKEN} == {path.name for path in made.iterdir()}
    if os.name == "posix":
        assert {0o600} == {stat.S_IMODE(path.stat().st_mode) for path in made.iterdir()}
        assert 0o700 == stat.S_IMODE(made.stat().st_mode)

    before = {path: path.read_bytes() for path in made.iterdir()}
    (made / CERTIFICATE).unlink()
    del before[made / CERTIFICATE]
    assert 1 == certificate.main([str(made)])
    assert "already" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in made.iterdir()}


@for_each(
    ("says", "arguments"),
    [
        ("without a port", ["--host", "grüße.test"]),
        ("from 1 to 825", ["--days", "0"]),
        ("from 1 to 825", ["--days", "826"]),
    ],
)
def test_a_certificate_that_makes_no_sense_is_refused_before_a_file_is_written(
    says, arguments, tmp_path, capsys
):
    assert 1 == certificate.main([str(tmp_path / "made"), *arguments])
    assert says in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


def test_two_tokens_are_never_the_same(tmp_path):
    for name in "ab":
        certificate.write(tmp_path / name, [])

    assert read_token(tmp_path / "a" / TOKEN) != read_token(tmp_path / "b" / TOKEN)


@for_each("text", ["", "short", "two words that are long enough", "tök" * 20, "x" * 2000])
def test_a_file_without_a_token_is_named_and_not_shown(text, tmp_path):
    file = tmp_path / TOKEN
    file.write_text(text, "utf-8")

    with pytest.raises(ValueError, match="holds no token") as refused:
        read_token(file)
    assert str(file) in str(refused.value)
    assert not text or text not in str(refused.value)


@for_each("address", ["0.0.0.0", "::", "10.0.0.1", "2001:db8::1"])
def test_another_address_needs_tls(address):
    with pytest.raises(ValueError, match=r"needs TLS and a token.*course.py certificate"):
        ServerSettings(listen=address)

    assert address == ServerSettings(listen=address, tls="somewhere").listen


@for_each("address", ["127.0.0.1", "127.0.0.2", "::1"])
def test_the_loopback_needs_nothing_and_gets_no_interceptor(address):
    assert [] == interceptors(ServerSettings(listen=address))


@for_each("address", ["", "localhost", "0.0.0.0:80", "example.test"])
def test_an_address_to_listen_at_is_an_ip_address(address):
    with pytest.raises(ValueError, match="listen must be an IP address"):
        ServerSettings(listen=address)


@for_each(
    ("damage", "says"),
    [
        (lambda folder: (folder / KEY).unlink(), "course.py certificate"),
        (lambda folder: (folder / TOKEN).unlink(), "course.py certificate"),
        (lambda folder: (folder / TOKEN).write_text("\n"), "holds no token"),
        (lambda folder: (folder / KEY).write_text("nothing"), "no certificate and its key"),
        (lambda folder: (folder / KEY).write_bytes(_other_key()), "no certificate and its key"),
    ],
)
def test_a_server_does_not_start_without_what_tls_needs(damage, says, folder, tmp_path):
    copy = shutil.copytree(folder, Path(tempfile.mkdtemp(dir=tmp_path)) / "copy")
    damage(copy)

    with pytest.raises(OSError, match=says) as refused:
        access_from(str(copy))
    assert str(copy) in str(refused.value)


@pytest.mark.slow
def test_a_server_that_cannot_start_says_why(tmp_path):
    with pytest.raises(
        ServerDidNotStart, match=r"server\.pem: No such file.*course.py certificate"
    ):
        serving(tls=str(tmp_path)).__enter__()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", strategies.STRATEGIES, ids=lambda each: each.__name__)
def test_every_strategy_runs_with_tls_and_a_token(strategy, server):
    run = load.run(strategy, server, workload.crud(), **CALLS)

    assert 100 == len(run.records)
    assert {"OK", "NOT_FOUND", "ALREADY_EXISTS"} >= set(run.outcomes())
    assert 100 == sum(run.server["operations"].values())


@pytest.mark.slow
def test_several_connections_each_carry_the_token(server):
    for strategy in (strategies.bounded, strategies.tasks):
        run = load.run(strategy, server, workload.crud(), connections=3, **CALLS)

        assert 3 == run.connections


@pytest.mark.slow
def test_the_token_is_in_no_saved_run(server, folder, tmp_path):
    token = read_token(folder / TOKEN)
    for make in (load.run, run_in_process):
        make(strategies.bounded, server, workload.crud(), **CALLS).save(tmp_path / "run.npz")

        found = Run.load(tmp_path / "run.npz")
        assert token not in repr((found.settings, found.server, found.host))
        assert token.encode() not in (tmp_path / "run.npz").read_bytes()
    assert token not in repr(Target(server.address, tls=Tls.of(folder)))


@pytest.mark.slow
def test_the_token_is_in_no_command_line(server, folder, monkeypatch):
    started: list[list[str]] = []
    popen = subprocess.Popen

    def noting(command, *arguments, **named):
        started.append(command)
        return popen(command, *arguments, **named)

    monkeypatch.setattr(subprocess, "Popen", noting)
    run_in_process(strategies.bounded, server, workload.crud(), **CALLS)

    assert any("--token" in word for command in started for word in command)
    assert read_token(folder / TOKEN) not in repr(started)


@pytest.mark.slow
def test_the_measured_channel_keeps_the_metadata_of_a_call(server):
    with measured_channel(server, metadata={"a": "b"}) as channel:
        stub = KeyValueServiceStub(channel)
        stub.Create(pb.CreateRequest(key=b"k", value=b"v"))
        stub.Retrieve.future(pb.RetrieveRequest(key=b"k"), metadata=(("c", "d"),)).result()
        stub.Delete.with_call(pb.DeleteRequest(key=b"k"), timeout=5)

    assert {"OK": 3} == channel.run().outcomes()


async def _async_calls(server) -> Run:
    async with measured_channel(server) as channel:
        stub = KeyValueServiceStub(channel)
        await stub.Create(pb.CreateRequest(key=b"k2", value=b"v"))
        await stub.Delete(pb.DeleteRequest(key=b"k2"), timeout=5)
    return channel.run()


@pytest.mark.slow
def test_the_measured_channel_of_asyncio_carries_the_token(server):
    assert {"OK": 2} == asyncio.run(_async_calls(server)).outcomes()


@pytest.mark.slow
def test_a_local_fleet_carries_the_token(folder):
    with serving(**QUICK, tls=str(folder)) as server:
        run = load.run(strategies.bounded, server, workload.crud(), fleet=Local(2), **CALLS)

    assert 100 == len(run.records)


@pytest.mark.slow
def test_a_token_does_not_go_to_a_distant_scheduler_in_plain_text(folder):
    from kvstore.client.fleet_driver import refuse_to_publish

    for scheduler in ("tls://10.0.0.1:8786", "tcp://127.0.0.1:8786"):
        refuse_to_publish(Tls.of(folder), scheduler)
    refuse_to_publish(Tls(), "tcp://10.0.0.1:8786")
    with pytest.raises(ValueError, match=r"in plain text over tcp://10.0.0.1:8786.*tls://HOST"):
        refuse_to_publish(Tls.of(folder), "tcp://10.0.0.1:8786")


@pytest.mark.slow
def test_the_command_of_the_client(server, folder, capsys):
    ca, token = f"--ca={folder / CA}", f"--token={folder / TOKEN}"

    assert 0 == client([server.address, ca, token, "--calls=50", "--in-flight=4"])
    assert "50" in capsys.readouterr().out
    assert 0 == client(
        [server.address, "kvstore.v1.ServerStatusService/GetServerStatus", ca, token,
         "--calls=20", "--no-calibration", "--quiet"]
    )  # fmt: skip
    assert 5 == client([server.address, ca, "--calls=50"])
    assert "requires a token" in capsys.readouterr().err
    assert 2 == client([server.address, token, "--calls=50"])
    assert "encrypted connections only" in capsys.readouterr().err


def impatient(monkeypatch):
    """A connection that cannot be made is given up soon."""
    for module in ("channel", "connections"):
        monkeypatch.setattr(f"kvstore.client.{module}.CONNECT_S", 1.0)


@pytest.mark.slow
def test_a_mismatch_is_the_same_clear_error_from_another_process(server):
    stranger = Target(server.address, tls=Tls())
    with pytest.raises(TlsMismatch, match="not accepted"):
        run_in_process(strategies.bounded, stranger, workload.crud(), **CALLS)


@pytest.mark.slow
def test_a_mismatch_of_the_measured_channel_is_a_clear_error(server, folder, monkeypatch):
    impatient(monkeypatch)

    async def opened(target: Target) -> None:
        async with measured_channel(target):
            pass

    for target, says in (
        (Target(server.address, tls=replace(Tls.of(folder), token="x" * 43)), "requires a token"),
        (Target(server.address), "encrypts its connections"),
    ):
        with pytest.raises(TlsMismatch, match=says), measured_channel(target):
            pass
        with pytest.raises(TlsMismatch, match=says):
            asyncio.run(opened(target))


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=10)


@pytest.fixture
def other_machine() -> Iterator[list[str]]:
    """A network namespace with the address 10.77.0.2; what starts a command in it."""
    name, here, there = f"course{os.getpid()}", f"ch{os.getpid()}", f"ct{os.getpid()}"
    with contextlib.ExitStack() as undo:
        try:
            _ip("netns", "add", name)
            undo.callback(_ip, "netns", "del", name)
            _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
            undo.callback(lambda: subprocess.run(["ip", "link", "del", here], capture_output=True))
            _ip("addr", "add", "10.77.0.1/24", "dev", here)
            _ip("link", "set", here, "up")
            _ip("-n", name, "addr", "add", "10.77.0.2/24", "dev", there)
            _ip("-n", name, "link", "set", there, "up")
            _ip("-n", name, "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(
                f"no network namespace can be made here: it needs Linux, ip and root; {error}"
            )
        yield ["ip", "netns", "exec", name]


@contextlib.contextmanager
def serving_there(other_machine: list[str], *arguments: str) -> Iterator[str]:
    """Serve on the other machine; yield the port."""
    command = [*other_machine, sys.executable, "-m", "kvstore.server", "--read-delay-s=0",
               "--write-delay-s=0", *arguments]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip().rpartition(":")[2]
        finally:
            process.terminate()
            process.wait(20)


@pytest.mark.slow
@for_each("stack", [[], ["--use-asyncio"]])
def test_another_machine_needs_the_token(stack, other_machine, folder, monkeypatch):
    known = Tls.of(folder)
    with serving_there(other_machine, "--listen=0.0.0.0", f"--tls={folder}", *stack) as port:
        address = f"10.77.0.2:{port}"
        for strategy in (strategies.bounded, strategies.tasks, strategies.pipelined):
            run = load.run(strategy, Target(address, tls=known), workload.crud(), **CALLS)
            assert 100 == len(run.records)
        impatient(monkeypatch)  # not before: on a busy machine a good connection takes longer
        for tls, says in (
            (None, "encrypts its connections"),
            (replace(known, token=None), "requires a token"),
            (replace(known, token="x" * 43), "requires a token"),
            (Tls(token=known.token), "not accepted"),
            (replace(known, server_name="elsewhere.test"), "not accepted"),
        ):
            with pytest.raises(TlsMismatch, match=says):
                load.run(strategies.tasks, Target(address, tls=tls), workload.crud(), **CALLS)


@pytest.mark.slow
def test_a_server_in_plain_text_is_not_reached_from_another_machine(other_machine):
    with (
        serving_there(other_machine) as port,
        grpc.insecure_channel(f"10.77.0.2:{port}") as channel,
        pytest.raises(grpc.RpcError) as refused,
    ):
        KeyValueServiceStub(channel).Retrieve(pb.RetrieveRequest(key=b"k"), timeout=5)

    assert grpc.StatusCode.UNAVAILABLE is refused.value.code()


@contextlib.contextmanager
def dask_on_two_machines(other_machine: list[str], folder: Path) -> Iterator[str]:
    """Run a scheduler and a worker here and a worker there, with TLS; yield the scheduler.

    Dask authenticates both ends, so it needs other certificates than a server of the course.
    """
    import dask
    from distributed import Security

    made, files = Security.temporary(), {}
    for flag, text in {
        "ca-file": made.tls_ca_file,
        "cert": made.tls_scheduler_cert,
        "key": made.tls_scheduler_key,
    }.items():
        files[flag] = folder / f"{flag}.pem"
        files[flag].write_text(text)
    tls = [f"--tls-{flag}={file}" for flag, file in files.items()]
    known = {
        "distributed.comm.tls.ca-file": str(files["ca-file"]),
        "distributed.comm.tls.client.cert": str(files["cert"]),
        "distributed.comm.tls.client.key": str(files["key"]),
    }
    scheduler = folder / "scheduler.json"

    def program(place: list[str], name: str, *flags: str) -> subprocess.Popen[bytes]:
        command = [*place, sys.executable, "-m", f"distributed.cli.dask_{name}", *tls, *flags]
        flags_of_all = [f"--scheduler-file={scheduler}", "--no-dashboard"]
        return subprocess.Popen([*command, *flags_of_all], stderr=subprocess.DEVNULL)

    with contextlib.ExitStack() as running:
        for place, name, *flags in (
            ([], "scheduler", "--host=10.77.0.1", "--port=0", "--protocol=tls"),
            ([], "worker", "--host=10.77.0.1", "--no-nanny", "--nthreads=1"),
            (other_machine, "worker", "--host=10.77.0.2", "--no-nanny", "--nthreads=1"),
        ):
            process = program(place, name, *flags)
            running.callback(process.wait, 30)
            running.callback(process.terminate)
        end_s = time.monotonic() + 30
        while not (scheduler.is_file() and scheduler.read_text()):
            assert time.monotonic() < end_s, "no scheduler has started"
            time.sleep(0.05)
        with dask.config.set(known):
            yield json.loads(scheduler.read_text())["address"]


@pytest.mark.slow
@needs_dask
def test_a_fleet_of_two_machines_makes_one_run(other_machine, tmp_path, monkeypatch):
    """One worker reaches the server through a network, and the other one does not need it."""
    folder = tmp_path / "certificate"
    assert 0 == certificate.main([str(folder), "--host", "10.77.0.1"])
    with (
        serving(**QUICK, listen="10.77.0.1", tls=str(folder), use_asyncio=True) as server,
        dask_on_two_machines(other_machine, tmp_path) as scheduler,
    ):
        fleet = Cluster(scheduler, workers=2)
        monkeypatch.setattr(fleet, "_within_s", 60.0)  # a worker may start beside other tests
        run = load.run(strategies.tasks, server, workload.crud(), fleet=fleet, **CALLS)

    workers = run.settings["workers"]
    assert ["10.77.0.1", "10.77.0.2"] == sorted(
        worker["worker"].removeprefix("tls://").rpartition(":")[0] for worker in workers
    )
    assert 100 == len(run.records) == sum(run.server["operations"].values())
    assert {"OK", "NOT_FOUND", "ALREADY_EXISTS"} >= set(run.outcomes())
    assert 0 < min(worker["issued"] for worker in workers)
