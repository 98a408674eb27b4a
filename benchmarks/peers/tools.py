"""ghz and h2load against our server, where they are installed: calls that others' clients make.

What was answered OK is taken from the server's own count: h2load takes any HTTP 200 for a success.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import psutil

from benchmarks.results import Round
from kvstore.client.channel import CONNECT_S, Target, server_status
from kvstore.server import Server
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

END_S = 60.0
"""Seconds beyond the run that a tool gets to come up and to end."""
KEY = b"8 bytes!"
METHOD = "kvstore.v1.KeyValueService/Retrieve"
PLACES = os.pathsep.join(
    [
        os.environ.get("PATH", os.defpath),
        str(
            Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            / "rpc-throughput-course"
            / "bin"
        ),
        str(Path.home() / "go" / "bin"),
    ]
)
"""Where `.ci/run` and `go install` put them, besides the usual."""

Tool = Callable[[Server, int, float], Round]
"""One run of a tool: server, calls in flight on one connection, seconds."""


def installed() -> dict[str, Tool]:
    """The tools there are here, by name."""
    return {name: tool for name, tool in TOOLS.items() if shutil.which(name, path=PLACES)}


def ghz(server: Server, in_flight: int, seconds: float) -> Round:
    """Retrieve one small value over and over with ghz, which finds the method by reflection."""
    arguments = [
        "ghz", "--insecure", f"--call={METHOD}", f"--duration={seconds}s",
        "--duration-stop=wait", f"--concurrency={in_flight}", "--connections=1",
        "--data", json.dumps({"key": base64.b64encode(KEY).decode("ascii")}),
        "--format=json", server.address,
    ]  # fmt: skip
    return _measured(server, arguments, seconds, lambda said: json.loads(said)["total"] / 1e9)


def h2load(server: Server, in_flight: int, seconds: float) -> Round:
    """The same with h2load, which knows HTTP/2 and nothing of gRPC."""
    message = pb.RetrieveRequest(key=KEY).SerializeToString()
    with tempfile.TemporaryDirectory() as folder:
        body = Path(folder) / "body"
        body.write_bytes(b"\x00" + len(message).to_bytes(4, "big") + message)
        arguments = [
            "h2load", f"--duration={max(1, round(1_000 * seconds))}ms", "--clients=1",
            f"--max-concurrent-streams={in_flight}", "--header=te: trailers",
            "--header=content-type: application/grpc", f"--data={body}",
            f"http://{server.address}/{METHOD}",
        ]  # fmt: skip
        return _measured(server, arguments, seconds, _h2load_s)


TOOLS: dict[str, Tool] = {"ghz": ghz, "h2load": h2load}


def _measured(
    server: Server, arguments: list[str], seconds: float, took_s: Callable[[str], float]
) -> Round:
    program = shutil.which(arguments[0], path=PLACES)
    assert program is not None, arguments[0]
    with grpc.insecure_channel(server.address) as channel:
        _create(channel)
        counted = _counted(channel, server)
        own, others = psutil.Process().cpu_times(), psutil.Process(server.pid).cpu_times()
        said = subprocess.run(
            [program, *arguments[1:]],
            check=True, capture_output=True, text=True, timeout=seconds + END_S,
        ).stdout  # fmt: skip
        own_now, others_now = psutil.Process().cpu_times(), psutil.Process(server.pid).cpu_times()
        time.sleep(0.05)  # calls that h2load gave up at its end are still being answered
        answered = _counted(channel, server) - counted
    if answered < 1:
        raise RuntimeError(f"{arguments[0]} got no answer that was OK: {said}")
    client_s = (
        own_now.children_user + own_now.children_system - own.children_user - own.children_system
    )
    server_s = others_now.user + others_now.system - others.user - others.system
    return Round(answered / took_s(said), client_s / answered, server_s / answered)


def _h2load_s(said: str) -> float:
    found = re.search(r"^finished in ([\d.]+)(ms|s),", said, flags=re.M)
    assert found is not None, said
    return float(found[1]) / (1_000 if found[2] == "ms" else 1)


def _create(channel: grpc.Channel) -> None:
    """The key that is asked for; a second round finds it there."""
    try:
        kvstore_pb2_grpc.KeyValueServiceStub(channel).Create(
            pb.CreateRequest(key=KEY, value=bytes(16))
        )
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
            raise


def _counted(channel: grpc.Channel, server: Server) -> int:
    """Retrieves that the server has answered OK since it began."""
    status = server_status(channel, Target(server.address), CONNECT_S)
    return int(status.operations.get("retrieve/OK", 0))
