"""Two machines in one: a server, and a worker of a fleet, in a network namespace of their own.

These tests give this machine another network interface. A browser notices that and breaks off what
it is loading, so they do not run beside others: they are marked `alone`.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from stacks import impatient

from kvstore.client import load, strategies, workload
from kvstore.client.channel import Target, Tls
from kvstore.client.errors import TlsMismatch
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub
from tools import certificate

CALLS = {"in_flight": 4, "calls": 100}

pytestmark = [pytest.mark.slow, pytest.mark.alone]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder as the command makes it, for both machines."""
    made: Path = tmp_path_factory.mktemp("made") / "certificate"
    assert 0 == certificate.main([str(made), "--host", "10.77.0.1", "10.77.0.2"])
    return made


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
    command = [
        *other_machine,
        sys.executable,
        "-m",
        "kvstore.server",
        "--read-delay-s=0",
        "--write-delay-s=0",
        *arguments,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip().rpartition(":")[2]
        finally:
            process.terminate()
            process.wait(20)


@pytest.mark.parametrize(
    "stack",
    [
        pytest.param([], id="threads"),
        pytest.param(["--use-asyncio"], id="asyncio", marks=pytest.mark.long),
    ],
)
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


def test_a_server_in_plain_text_is_not_reached_from_another_machine(other_machine):
    with (
        serving_there(other_machine) as port,
        grpc.insecure_channel(f"10.77.0.2:{port}") as channel,
        pytest.raises(grpc.RpcError) as refused,
    ):
        KeyValueServiceStub(channel).Retrieve(pb.RetrieveRequest(key=b"k"), timeout=5)

    assert grpc.StatusCode.UNAVAILABLE is refused.value.code()
