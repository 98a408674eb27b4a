"""Programs of other projects that do the same work: ghz and `rpcload` on our server, and Redis."""

import base64
import csv
import io
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc

from benchmarks.harness import ROOT, Turn
from kvstore.client.channel import connected, target_of
from kvstore.server import Server
from kvstore.subprocesses import private_folder, program
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

PROTO: Final = ROOT / "proto/kvstore/v1/kvstore.proto"
METHOD: Final = "kvstore.v1.KeyValueService/Retrieve"
KEY, VALUE = b"for clients of other makes", bytes(16)
DATA: Final = json.dumps({"key": base64.b64encode(KEY).decode("ascii")})
START_S: Final = 10.0


def ghz_path() -> str | None:
    """Return the path of ghz: on PATH, or in the folder of Go."""
    folders = [os.environ.get("PATH", ""), str(Path.home() / "go" / "bin")]
    return shutil.which("ghz", path=os.pathsep.join(folders))


def ghz(server: Server, in_flight: int, seconds: float) -> Turn:
    """Let ghz read one key. Raises `RuntimeError` if it fails, or if a call was not OK."""
    requests = max(in_flight, round(8_000 * seconds))
    command = [ghz_path() or "ghz", "--insecure", f"--call={METHOD}", f"--proto={PROTO}"]
    command += [f"--total={requests}", f"--concurrency={in_flight}", f"--data={DATA}"]
    report, cpu_s = _run([*command, "--format=json", server.address], server)
    if report["statusCodeDistribution"] != {"OK": requests}:
        raise RuntimeError(f"every call should be OK, got {report['statusCodeDistribution']}")
    return Turn(requests / (report["total"] / 1e9), cpu_s / requests)


def rpcload(server: Server, in_flight: int, seconds: float, *flags: str) -> Turn:
    """Let our load test make the calls of ghz. Raises `RuntimeError` as `ghz` does."""
    run = rpcload_report(server, in_flight, seconds, "--no-calibration", *flags)["run"]
    if set(run["statuses"]) != {"OK"}:
        raise RuntimeError(f"every call should be OK, got {run['statuses']}")
    return Turn(run["throughput_per_s"], run["client_cpu_s"] / run["issued"])


def rpcload_report(server: Server, in_flight: int, seconds: float, *flags: str) -> dict[str, Any]:
    """Return the report of our load test for the calls of ghz."""
    command = [sys.executable, "-m", "kvstore.load_test", server.address, METHOD, *flags]
    command += ["--json", DATA, f"--proto={PROTO}", f"--in-flight={in_flight}"]
    return _run([*command, f"--seconds={seconds}", "--output=json", "--quiet"], server)[0]


def _run(command: list[str], server: Server) -> tuple[dict[str, Any], float]:
    """Create the key, run the command, return its report and its CPU seconds (NaN on Windows)."""
    with connected(target_of(server)) as (channel, _):
        try:
            KeyValueServiceStub(channel).Create(pb.CreateRequest(key=KEY, value=VALUE), timeout=5)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
    before = os.times()
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    after = os.times()  # of the program that has ended; the server runs on
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr}")
    used_s = after.children_user - before.children_user
    used_s += after.children_system - before.children_system
    return json.loads(done.stdout), used_s if os.name == "posix" else math.nan


def redis_name() -> str | None:
    """Return `valkey` or `redis`, whose programs are on PATH; None if there is neither.

    Valkey is a fork of Redis 7.2.
    """
    for each in ("valkey", "redis"):
        if all(shutil.which(f"{each}-{part}") for part in ("server", "cli", "benchmark")):
            return each
    return None


@contextmanager
def redis(name: str) -> Iterator[Callable[[float], Turn]]:
    """Run Redis in memory for the block; yield a client that reads 1,000 keys, 512 in a message.

    Raises `CalledProcessError` if it does not start.
    """
    with private_folder("redis-") as folder:
        socket = f"{folder}/socket"
        flags = ("--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no")
        with program([f"{name}-server", *flags, "--dir", str(folder)]):
            end_s = time.monotonic() + START_S
            while True:
                try:
                    _redis(name, socket, "cli", "ping")
                    break
                except subprocess.CalledProcessError:
                    if time.monotonic() > end_s:
                        raise
                    time.sleep(0.02)
            _redis_per_s(name, socket, "set", requests=20_000)
            yield partial(_redis_turn, name, socket)


def _redis_turn(name: str, socket: str, seconds: float) -> Turn:
    requests = round(2e6 * seconds)
    return Turn(_redis_per_s(name, socket, "get", requests=requests, pipeline=512), math.nan)


def _redis_per_s(
    name: str, socket: str, command: str, *, requests: int, pipeline: int = 1
) -> float:
    keys = ["-r", "1000", "-d", "16", "-P", f"{pipeline}", "-c", "8", "-n", f"{requests}"]
    table = _redis(name, socket, "benchmark", "--csv", "-t", command, *keys)
    return float(list(csv.reader(io.StringIO(table)))[-1][1])


def _redis(name: str, socket: str, part: str, *arguments: str) -> str:
    """Return what `redis-cli` or `redis-benchmark` prints. Raises `CalledProcessError`."""
    return subprocess.run(
        [f"{name}-{part}", "-s", socket, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        stdin=subprocess.DEVNULL,
    ).stdout
