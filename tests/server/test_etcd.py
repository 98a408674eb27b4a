"""etcd.py and etcd_nodes.py: a cluster that is started, disturbed and ended; refusals by name.

What the service does with it is tested in `test_contract_stores.py`.
"""

import os
import signal
import subprocess
import sys
import time
from typing import Any

import grpc
import psutil
import pytest
from stacks import calling

from kvstore.protocol import RESOURCE_EXHAUSTED, UNAVAILABLE
from kvstore.server import EtcdNotInstalled, ServerDidNotStart, etcd_cluster, serving
from kvstore.server import etcd as etcd_store
from kvstore.server import etcd_cluster as start
from kvstore.server.etcd_nodes import found_etcd
from kvstore.v1 import kvstore_pb2 as pb

HANG_S = 30.0


@pytest.fixture
def installed() -> None:
    try:
        found_etcd()
    except EtcdNotInstalled as missing:
        pytest.skip(str(missing))


def test_without_etcd_a_message_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("kvstore.server.etcd_nodes.find_spec", lambda name: None)

    with (
        pytest.raises(EtcdNotInstalled, match=r"apt install.*brew install.*conda install"),
        start(),
    ):
        pass


@pytest.mark.parametrize(
    ("says", "wrong"),
    [
        ("nodes must be a whole number from 1 to 7, got 0", {"nodes": 0}),
        ("from 0.05 to 50 s", {"election_timeout_s": 60.0}),
    ],
)
def test_a_cluster_that_makes_no_sense_is_refused(says, wrong):
    with pytest.raises(ValueError, match=says), start(**wrong):
        pass


class Failed:
    """An error of gRPC, as far as it is looked at."""

    def __init__(self, code: grpc.StatusCode, details: str = "") -> None:
        self.code, self.details = lambda: code, lambda: details


DROPPED = Failed(grpc.StatusCode.UNKNOWN, "raft proposal dropped")


@pytest.mark.parametrize(
    ("error", "reads", "again", "status"),
    [
        (DROPPED, False, True, UNAVAILABLE),
        (Failed(grpc.StatusCode.UNAVAILABLE, "leader changed"), True, True, UNAVAILABLE),
        (Failed(grpc.StatusCode.UNAVAILABLE, "Socket closed"), False, False, UNAVAILABLE),
        (Failed(grpc.StatusCode.RESOURCE_EXHAUSTED), False, False, RESOURCE_EXHAUSTED),
        (
            Failed(grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: request is too large"),
            False,
            False,
            RESOURCE_EXHAUSTED,
        ),
    ],
)
def test_only_what_was_certainly_not_executed_is_sent_again(error, reads, again, status):
    """A write that may have been executed would find its own effect: ALREADY_EXISTS."""
    assert again is etcd_store.not_executed(error, reads)
    assert status == etcd_store.status_of(error)


@pytest.mark.slow
def test_a_server_without_its_cluster_says_how_to_start_one():
    with (
        pytest.raises(ServerDidNotStart, match=r"no etcd cluster.*127\.0\.0\.1:1: start one with"),
        serving(store="etcd:127.0.0.1:1", use_asyncio=True),
    ):
        pass


@pytest.mark.slow
def test_a_cluster_goes_on_without_one_node_and_not_without_two(installed):
    """And a node that was killed or paused comes back. Nothing here waits for a clock."""
    with etcd_cluster(election_timeout_s=0.5) as cluster:
        first = cluster.leader()
        settings: dict[str, Any] = {"store": cluster.store, "use_asyncio": True}
        with (
            serving(**settings) as server,
            calling(server.address) as stub,
        ):
            stub.Create(pb.CreateRequest(key=b"k", value=b"1"), timeout=HANG_S)
            first.kill()
            until_ok(stub.Update, pb.UpdateRequest(key=b"k", value=b"2"))
            second = cluster.leader()
            (last,) = {*cluster.nodes} - {first, second}
            os.kill(last.pid, signal.SIGSTOP)
            wanted = pb.RetrieveRequest(key=b"k")
            with pytest.raises(grpc.RpcError) as refused:
                stub.Update(pb.UpdateRequest(key=b"k", value=b"3"), timeout=1.0)
            os.kill(last.pid, signal.SIGCONT)
            first.start()
            cluster.wait_until_healthy()
            until_ok(stub.Update, pb.UpdateRequest(key=b"k", value=b"4"))
            after = stub.Retrieve(wanted, timeout=HANG_S).value

    assert second is not first
    assert refused.value.code() in (
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNAVAILABLE,
    )
    assert b"4" == after
    assert not any(node.alive() for node in cluster.nodes)


def until_ok(method: Any, request: Any) -> Any:
    end_s = time.monotonic() + HANG_S
    while True:
        try:
            return method(request, timeout=1.5)
        except grpc.RpcError:
            if time.monotonic() > end_s:
                raise


PARENT = """
import os, time
from kvstore.server import etcd_cluster

with etcd_cluster(1) as cluster:
    print(cluster.nodes[0].pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
@pytest.mark.parametrize("whom", ["parent", "keeper"])
def test_a_node_ends_with_its_parent_and_with_its_keeper(whom, installed, tmp_path):
    """On Linux the kernel ends it with the process that started it; elsewhere, this one has to."""
    if whom == "keeper" and sys.platform != "linux":
        return
    place = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=place
    ) as parent:
        assert parent.stdout is not None
        node = psutil.Process(int(parent.stdout.readline()))
        assert "etcd" in node.name()
        os.kill(parent.pid if whom == "parent" else node.ppid(), signal.SIGKILL)
        _, alive = psutil.wait_procs([node], HANG_S)
        parent.kill()

    assert [] == alive
    end_s = time.monotonic() + HANG_S
    while left := list(tmp_path.iterdir()):
        assert time.monotonic() < end_s, f"{left} are still there after the parent was killed"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_the_command_says_what_runs_and_leaves_nothing_behind(installed):
    """As `course.py class etcd` does: until Ctrl-C."""
    command = "import sys; from kvstore.server.etcd_nodes import main; sys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-c", command, "--nodes=1"], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        lines = [running.stdout.readline() for _ in range(4)]
        node = psutil.Process(int(lines[1].split("process")[1].split()[0]))
        named = node.name()
        running.send_signal(signal.SIGINT)
        status = running.wait(HANG_S)
        _, alive = psutil.wait_procs([node], HANG_S)

    assert (0, []) == (status, alive)
    assert "etcd" in named
    assert "leader" in lines[1]
    assert "--store=etcd:127.0.0.1:" in lines[2]
