"""Servers that other machines can reach: TLS, a token, and the command that makes both."""

import asyncio
import importlib.util
import os
import shutil
import stat
import subprocess
import tempfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from stacks import impatient

from kvstore.client import load, measured_channel, run_in_process, strategies, workload
from kvstore.client.__main__ import main as client
from kvstore.client.channel import Target, Tls
from kvstore.client.errors import TlsMismatch
from kvstore.client.fleet import Local
from kvstore.credentials import CA, CERTIFICATE, KEY, TOKEN, access_from, read_token
from kvstore.load_test.__main__ import main as load_test
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
    assert 0 == certificate.main([str(made), "--host", "example.test"])
    return made


def _other_key() -> bytes:
    return certificate.made(["localhost"], datetime(2030, 1, 2))[KEY]


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


@pytest.mark.parametrize(
    ("says", "arguments"),
    [
        ("without a port", ["--host", "example.test:80"]),
        ("without a port", ["--host", "10.0.0.0/8"]),
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


@pytest.mark.parametrize(
    "text", ["", "short", "two words that are long enough", "tök" * 20, "x" * 2000]
)
def test_a_file_without_a_token_is_named_and_not_shown(text, tmp_path):
    file = tmp_path / TOKEN
    file.write_text(text, "utf-8")

    with pytest.raises(ValueError, match="holds no token") as refused:
        read_token(file)
    assert str(file) in str(refused.value)
    assert not text or text not in str(refused.value)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.1", "2001:db8::1"])
def test_another_address_needs_tls(address):
    with pytest.raises(ValueError, match=r"needs TLS and a token.*course.py class certificate"):
        ServerSettings(listen=address)

    assert address == ServerSettings(listen=address, tls="somewhere").listen


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "::1"])
def test_the_loopback_needs_nothing_and_gets_no_interceptor(address):
    assert [] == interceptors(ServerSettings(listen=address))


@pytest.mark.parametrize("address", ["", "localhost", "0.0.0.0:80", "example.test"])
def test_an_address_to_listen_at_is_an_ip_address(address):
    with pytest.raises(ValueError, match="listen must be an IP address"):
        ServerSettings(listen=address)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda folder: (folder / KEY).unlink(), "course.py class certificate"),
        (lambda folder: (folder / TOKEN).unlink(), "course.py class certificate"),
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


@pytest.mark.skipif(os.name != "posix", reason="Windows has other rights")
@pytest.mark.parametrize(
    ("of_folder", "of_key", "refused"),
    [
        (0o700, 0o644, False),  # nobody else gets into the folder
        (0o755, 0o600, False),
        (0o755, 0o644, True),
        (0o710, 0o640, True),
        (0o770, 0o600, True),  # others could put a key of their own there
    ],
)
def test_a_key_that_others_can_read_is_not_used(of_folder, of_key, refused, folder, tmp_path):
    copy = Path(shutil.copytree(folder, Path(tempfile.mkdtemp(dir=tmp_path)) / "copy"))
    (copy / KEY).chmod(of_key)
    copy.chmod(of_folder)
    if not refused:
        access_from(str(copy))
        return
    with pytest.raises(OSError, match=r"other users .*server-key\.pem.*chmod 700"):
        access_from(str(copy))


@pytest.mark.slow
def test_a_server_that_cannot_start_says_why(tmp_path):
    with pytest.raises(
        ServerDidNotStart, match=r"server\.pem: No such file.*course.py class certificate"
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
def test_the_measured_channel_keeps_the_metadata_of_a_call(server, keys):
    key = next(keys)
    with measured_channel(server, metadata={"a": "b"}) as channel:
        stub = KeyValueServiceStub(channel)
        stub.Create(pb.CreateRequest(key=key, value=b"v"))
        stub.Retrieve.future(pb.RetrieveRequest(key=key), metadata=(("c", "d"),)).result()
        stub.Delete.with_call(pb.DeleteRequest(key=key), timeout=5)

    assert {"OK": 3} == channel.run().outcomes()


async def _async_calls(server, key: bytes) -> Run:
    async with measured_channel(server) as channel:
        stub = KeyValueServiceStub(channel)
        await stub.Create(pb.CreateRequest(key=key, value=b"v"))
        await stub.Delete(pb.DeleteRequest(key=key), timeout=5)
    return channel.run()


@pytest.mark.slow
def test_the_measured_channel_of_asyncio_carries_the_token(server, keys):
    assert {"OK": 2} == asyncio.run(_async_calls(server, next(keys))).outcomes()


@pytest.mark.slow
def test_a_local_fleet_carries_the_token(folder):
    with serving(**QUICK, tls=str(folder)) as server:
        run = load.run(strategies.bounded, server, workload.crud(), fleet=Local(2), **CALLS)

    assert 100 == len(run.records)


@pytest.mark.slow
def test_a_token_does_not_go_to_a_distant_scheduler_in_plain_text(folder):
    from kvstore.client.fleet import refuse_to_publish

    for scheduler in ("tls://10.0.0.1:8786", "tcp://127.0.0.1:8786"):
        refuse_to_publish(Tls.of(folder), scheduler)
    refuse_to_publish(Tls(), "tcp://10.0.0.1:8786")
    with pytest.raises(ValueError, match=r"in plain text over tcp://10.0.0.1:8786.*tls://HOST"):
        refuse_to_publish(Tls.of(folder), "tcp://10.0.0.1:8786")


@pytest.mark.slow
def test_the_commands_of_the_client_and_of_the_load_test(server, folder, capsys):
    ca, token = f"--ca={folder / CA}", f"--token={folder / TOKEN}"

    assert 0 == client([server.address, ca, token, "--calls=50", "--in-flight=4"])
    assert "50" in capsys.readouterr().out
    assert 0 == load_test(
        [server.address, "kvstore.v1.ServerStatusService/GetServerStatus", ca, token,
         "--calls=20", "--no-calibration", "--quiet"]
    )  # fmt: skip
    assert 5 == client([server.address, ca, "--calls=50"])
    assert "requires a token" in capsys.readouterr().err
    assert 2 == client([server.address, token, "--calls=50"])
    assert "encrypted connections only" in capsys.readouterr().err


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
