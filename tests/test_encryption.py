"""Servers that other machines can reach: TLS, a token, and the command that makes both."""

import asyncio
import os
import shutil
import socket
import stat
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from stacks import impatient

from kvstore.client import load, measured_channel, run_in_process, strategies, workload
from kvstore.client.channel import Target, Tls
from kvstore.client.errors import TlsMismatch
from kvstore.credentials import CA, CERTIFICATE, KEY, TOKEN, access_from, read_token
from kvstore.load_test.__main__ import main as load_test
from kvstore.measure import Run
from kvstore.server import Server, serving
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub
from tools import certificate

QUICK = {"read_delay_s": 0, "write_delay_s": 0}
CALLS = {"in_flight": 4, "calls": 100}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder as the command makes it."""
    made: Path = tmp_path_factory.mktemp("made") / "new" / "certificate"
    assert 0 == certificate.main([str(made), "--host", "example.test"])
    return made


def _other_key() -> bytes:
    return certificate.contents(["localhost"], datetime(2030, 1, 2))[KEY]


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
        ("from 1 to 825", ["--days", "826"]),
    ],
)
def test_a_certificate_that_makes_no_sense_is_refused_before_a_file_is_written(
    says, arguments, tmp_path, capsys
):
    assert 1 == certificate.main([str(tmp_path / "made"), *arguments])
    assert says in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "two words that are long enough",
    ],
)
def test_a_file_without_a_token_is_named_and_not_shown(text, tmp_path):
    file = tmp_path / TOKEN
    file.write_text(text, "utf-8")

    with pytest.raises(ValueError, match="holds no token") as refused:
        read_token(file)
    assert str(file) in str(refused.value)
    assert not text or text not in str(refused.value)


def opened(of_folder, of_key):
    """Set the rights of the folder and of its key."""

    def damage(folder):
        (folder / KEY).chmod(of_key)
        folder.chmod(of_folder)

    return damage


OTHERS = r"other users .*server-key\.pem.*chmod 700"


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda folder: (folder / KEY).unlink(), "course.py class certificate"),
        (lambda folder: (folder / TOKEN).write_text("\n"), "holds no token"),
        (lambda folder: (folder / KEY).write_bytes(_other_key()), "no certificate and its key"),
        (opened(0o700, 0o644), None),  # nobody else gets into the folder
        (opened(0o755, 0o644), OTHERS),
        (opened(0o770, 0o600), OTHERS),  # others could put a key of their own there
    ],
)
def test_a_server_does_not_start_without_what_tls_needs(damage, says, folder, tmp_path):
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    damage(copy)
    if says is None:
        access_from(str(copy))
        return
    if says == OTHERS and os.name != "posix":
        pytest.skip("Windows has other rights")
    with pytest.raises(OSError, match=says) as refused:
        access_from(str(copy))
    assert str(copy) in str(refused.value)


@pytest.mark.slow
def test_the_token_is_in_no_saved_run_and_in_no_command_line(server, folder, tmp_path, monkeypatch):
    token = read_token(folder / TOKEN)
    started: list[list[str]] = []
    popen = subprocess.Popen

    def noting(command, *arguments, **named):
        started.append(command)
        return popen(command, *arguments, **named)

    monkeypatch.setattr(subprocess, "Popen", noting)
    for make in (load.run, run_in_process):
        make(strategies.bounded, server, workload.crud(), **CALLS).save(tmp_path / "run.npz")

        found = Run.load(tmp_path / "run.npz")
        assert token not in repr((found.settings, found.server, found.host))
        assert token.encode() not in (tmp_path / "run.npz").read_bytes()
    assert any("kvstore.client" in command for command in started)
    assert token not in repr((started, Target(server.address, tls=Tls.of(folder))))


@pytest.mark.slow
def test_the_measured_channel_carries_the_token_beside_metadata_of_a_call(server, keys):
    with measured_channel(server) as channel:
        stub, key = KeyValueServiceStub(channel), next(keys)
        stub.Create(pb.CreateRequest(key=key, value=b"v"))
        stub.Retrieve.future(pb.RetrieveRequest(key=key), metadata=(("c", "d"),)).result()
        stub.Delete.with_call(pb.DeleteRequest(key=key), timeout=5)

    async def awaited() -> Run:
        async with measured_channel(server) as channel:
            stub, key = KeyValueServiceStub(channel), next(keys)
            await stub.Create(pb.CreateRequest(key=key, value=b"v"))
            await stub.Delete(pb.DeleteRequest(key=key), timeout=5)
        return channel.run()

    assert {"OK": 3} == channel.run().outcomes()
    assert {"OK": 2} == asyncio.run(awaited()).outcomes()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [strategies.bounded, strategies.tasks, strategies.pipelined])
def test_calls_and_a_stream_run_with_tls_and_a_token(strategy, server):
    run = load.run(strategy, server, workload.crud(), **CALLS)

    assert 100 == len(run.records)
    assert {"OK", "NOT_FOUND", "ALREADY_EXISTS"} >= set(run.outcomes())
    assert 100 == run.server.answered


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have 127.0.0.1 alone")
def test_only_a_server_that_listens_elsewhere_is_reached_at_another_address(server, folder):
    """As from another machine: 127.0.0.2 is not the address at which a server listens."""

    def reaches(served: Server) -> bool:
        host, _, port = served.address.rpartition(":")
        assert "127.0.0.1" == host
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.2", int(port))) == 0

    with serving(**QUICK, tls=str(folder), listen="0.0.0.0") as elsewhere:
        assert (True, False) == (reaches(elsewhere), reaches(server))


@pytest.mark.slow
def test_a_token_does_not_go_to_a_distant_scheduler_in_plain_text(folder):
    from kvstore.client.fleet import refuse_to_publish

    for scheduler in ("tls://10.0.0.1:8786", "tcp://127.0.0.1:8786"):
        refuse_to_publish(Tls.of(folder), scheduler)
    refuse_to_publish(Tls(), "tcp://10.0.0.1:8786")
    with pytest.raises(ValueError, match=r"in plain text over tcp://10.0.0.1:8786.*tls://HOST"):
        refuse_to_publish(Tls.of(folder), "tcp://10.0.0.1:8786")


@pytest.mark.slow
def test_the_command_of_the_load_test(server, folder, capsys):
    ca, token = f"--ca={folder / CA}", f"--token={folder / TOKEN}"

    method = "kvstore.v1.ServerStatusService/GetServerStatus"
    arguments = [server.address, method, "--calls=20", "--no-calibration", "--quiet"]

    assert 0 == load_test([*arguments, ca, token])
    assert load_test([*arguments, ca])
    assert "requires a token" in capsys.readouterr().err
    assert 2 == load_test([*arguments, token])
    assert "encrypted connections only" in capsys.readouterr().err


@pytest.mark.slow
def test_a_mismatch_is_a_clear_error_of_a_channel_and_from_another_process(
    server, folder, monkeypatch
):
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
    with pytest.raises(TlsMismatch, match="not accepted"):
        run_in_process(
            strategies.bounded, Target(server.address, tls=Tls()), workload.crud(), **CALLS
        )
