"""Two machines in one: a server, and a worker of a fleet, in a network namespace of their own.

These tests give this machine another network interface. A browser notices that and breaks off what
it is loading, so they do not run beside others: they are marked `alone`.
"""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from stacks import impatient
from tables import for_each

from kvstore.client import load, strategies, workload
from kvstore.client.channel import Target, Tls
from kvstore.client.errors import TlsMismatch
from kvstore.client.fleet import Cluster
from kvstore.server import serving
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub
from tools import certificate

CALLS = {"in_flight": 4, "calls": 100}

pytestmark = pytest.mark.slow


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
    command = [*other_machine, sys.executable, "-m", "kvstore.server", "--read-delay-s=0",
               "--write-delay-s=0", *arguments]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip().rpartition(":")[2]
        finally:
            process.terminate()
            process.wait(20)


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


@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="Dask is not installed")
def test_a_fleet_of_two_machines_makes_one_run(other_machine, folder, tmp_path, monkeypatch):
    """One worker reaches the server through a network, and the other one does not need it."""
    with (
        serving(
            read_delay_s=0, write_delay_s=0, listen="10.77.0.1", tls=str(folder), use_asyncio=True
        ) as server,
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
