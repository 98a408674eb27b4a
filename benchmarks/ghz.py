"""ghz, a load generator of another project, against our server: reads of one key."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import grpc

from kvstore.client.channel import connected, target_of
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

METHOD: Final = "kvstore.v1.KeyValueService/Retrieve"
KEY, VALUE = b"for clients of other makes", bytes(16)
BUILT: Final = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    / "rpc-throughput-course"
    / "bin"
)
"""The folder in which `.ci/run` puts the program."""


def path() -> str | None:
    """Return the path of ghz: on PATH, in the folder of `.ci/run`, or in that of Go."""
    folders = [os.environ.get("PATH", ""), str(BUILT), str(Path.home() / "go" / "bin")]
    return shutil.which("ghz", path=os.pathsep.join(folders))


@contextmanager
def with_key(server: object) -> Iterator[None]:
    """Create the key that the calls read. Raise the errors of `channel.connected`."""
    with connected(target_of(server)) as (channel, _):
        try:
            kvstore_pb2_grpc.KeyValueServiceStub(channel).Create(
                pb.CreateRequest(key=KEY, value=VALUE), timeout=5.0
            )
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
        yield


def calls_per_s(server: object, *, in_flight: int, requests: int, proto: Path) -> float:
    """Let ghz make so many reads on one connection, and return its calls per second.

    Raises `RuntimeError` if ghz fails, or if a call was not answered OK.
    """
    data = json.dumps({"key": base64.b64encode(KEY).decode("ascii")})
    command = [path() or "ghz", "--insecure", f"--call={METHOD}", f"--proto={proto}"]
    command += [f"--total={requests}", f"--concurrency={in_flight}", f"--data={data}"]
    command += ["--format=json", target_of(server).address]
    with with_key(server):
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if ended.returncode:
        raise RuntimeError(f"ghz ended with {ended.returncode}: {ended.stderr or ended.stdout}")
    report = json.loads(ended.stdout)
    statuses = report["statusCodeDistribution"]
    if statuses != {"OK": requests}:
        raise RuntimeError(f"every call should be answered OK, got {statuses}")
    return float(requests / (report["total"] / 1e9))
