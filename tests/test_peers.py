"""Clients that others wrote: h2load, grpcurl and ghz need no proto file and lose no call.

`.ci/run` installs them where it can.
"""

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import server_status_pb2, server_status_pb2_grpc

pytestmark = pytest.mark.slow

INSTALLED_BY_CI = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    / "rpc-throughput-course"
    / "bin"
)
PLACES = os.pathsep.join(
    [os.environ.get("PATH", ""), str(INSTALLED_BY_CI), str(Path.home() / "go" / "bin")]
)

Peer = Callable[..., str]


def peer(name: str) -> Peer:
    """Runs a program with arguments and returns what it prints; skips where there is none."""
    path = shutil.which(name, path=PLACES)
    if path is None:
        pytest.skip(f"{name} is not installed; .ci/run installs it where it can")

    def run(*arguments: str, succeeds: bool = True) -> str:
        ended = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        assert succeeds == (ended.returncode == 0), ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    return run


@pytest.fixture
def h2load() -> Peer:
    return peer("h2load")


@pytest.fixture
def grpcurl() -> Peer:
    return peer("grpcurl")


@pytest.fixture
def ghz() -> Peer:
    return peer("ghz")


@pytest.fixture
def counted(quick_server) -> Callable[[], dict[str, int]]:
    """What the server itself has counted since the test began."""
    with grpc.insecure_channel(quick_server.address) as channel:
        status = server_status_pb2_grpc.ServerStatusServiceStub(channel)

        def now() -> dict[str, int]:
            requested = server_status_pb2.GetServerStatusRequest()
            return dict(status.GetServerStatus(requested, timeout=10).operations)

        before = now()
        yield lambda: {
            name: count - before.get(name, 0)
            for name, count in now().items()
            if count > before.get(name, 0)
        }


def text(raw: bytes) -> str:
    """Bytes as JSON carries them."""
    return base64.b64encode(raw).decode("ascii")


# ---- h2load --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "requests", "clients", "streams"),
    [("Retrieve", 200, 1, 1), ("Delete", 1_000, 4, 10), ("Retrieve", 2_000, 10, 20)],
)
def test_h2load_gets_an_answer_to_every_request(
    method, requests, clients, streams, h2load, quick_server, stub, counted, keys, tmp_path
):
    """HTTP 200 alone says little: the server's count says that each was OK to gRPC as well."""
    key = next(keys)
    if method == "Retrieve":
        stub.Create(pb.CreateRequest(key=key, value=b"v"))
    message = pb.RetrieveRequest(key=key).SerializeToString()  # a delete looks the same
    body = tmp_path / "body"
    body.write_bytes(b"\x00" + len(message).to_bytes(4, "big") + message)
    shown = h2load(
        f"--requests={requests}", f"--clients={clients}", f"--max-concurrent-streams={streams}",
        "--header=te: trailers", "--header=content-type: application/grpc", f"--data={body}",
        f"http://{quick_server.address}/kvstore.v1.KeyValueService/{method}",
    )  # fmt: skip

    assert f"{requests} succeeded, 0 failed, 0 errored, 0 timeout" in shown
    assert f"status codes: {requests} 2xx, 0 3xx, 0 4xx, 0 5xx" in shown
    assert requests == counted()[f"{method.lower()}/OK"]


def test_h2load_takes_a_refusal_for_a_success_and_the_server_knows_better(
    h2load, quick_server, counted, tmp_path
):
    """An empty key: INVALID_ARGUMENT inside HTTP 200."""
    body = tmp_path / "body"
    body.write_bytes(bytes(5))
    shown = h2load(
        "--requests=50", "--clients=1", "--header=te: trailers",
        "--header=content-type: application/grpc", f"--data={body}",
        f"http://{quick_server.address}/kvstore.v1.KeyValueService/Retrieve",
    )  # fmt: skip

    assert "status codes: 50 2xx" in shown
    assert {"retrieve/INVALID_ARGUMENT": 50} == counted()


# ---- grpcurl -------------------------------------------------------------------------------


def test_grpcurl_lists_and_describes_the_services(grpcurl, quick_server):
    listed = grpcurl("-plaintext", quick_server.address, "list").split()
    described = grpcurl(
        "-plaintext", quick_server.address, "describe", "kvstore.v1.KeyValueService"
    )

    assert {"grpc.health.v1.Health", "kvstore.v1.KeyValueService"} <= set(listed)
    assert "rpc Pipeline ( stream .kvstore.v1.PipelineRequest )" in described


def test_grpcurl_creates_and_retrieves_by_reflection(grpcurl, quick_server, keys):
    key = text(next(keys))

    def call(method: str, **fields: str) -> str:
        return grpcurl(
            "-plaintext", "-d", json.dumps(fields), quick_server.address,
            f"kvstore.v1.KeyValueService/{method}",
        )  # fmt: skip

    assert {} == json.loads(call("Create", key=key, value=text(b"\x00\xff")))
    assert {"value": text(b"\x00\xff")} == json.loads(call("Retrieve", key=key))


def test_grpcurl_shows_a_refusal_and_where_the_time_went(grpcurl, quick_server, keys):
    shown = grpcurl(
        "-v", "-plaintext", "-d", json.dumps({"key": text(next(keys))}), quick_server.address,
        "kvstore.v1.KeyValueService/Retrieve", succeeds=False,
    )  # fmt: skip

    assert "Code: NotFound" in shown
    assert "Message: the key is not known: create it first" in shown
    assert re.search(r"server-timing: pool;dur=[\d.]+, lock;dur=[\d.]+, disk;dur=", shown)


def test_grpcurl_talks_on_the_stream(grpcurl, quick_server):
    replies = grpcurl(
        "-plaintext", "-d", json.dumps({"id": 7, "kinds": text(b"\x04"), "keys": [text(b"k")]}),
        quick_server.address, "kvstore.v1.KeyValueService/Pipeline",
    )  # fmt: skip

    assert ("7", text(b"\x00")) == (json.loads(replies)["id"], json.loads(replies)["statuses"])


@pytest.mark.parametrize("service", ["", "kvstore.v1.KeyValueService"])
def test_grpcurl_sees_that_the_server_is_healthy(service, grpcurl, quick_server):
    shown = grpcurl(
        "-plaintext", "-d", json.dumps({"service": service}), quick_server.address,
        "grpc.health.v1.Health/Check",
    )  # fmt: skip

    assert {"status": "SERVING"} == json.loads(shown)


# ---- ghz -----------------------------------------------------------------------------------


def test_ghz_deletes_a_thousand_keys_by_reflection(ghz, quick_server, counted):
    shown = ghz(
        "--insecure", "--call=kvstore.v1.KeyValueService/Delete", "--total=1000",
        "--concurrency=20", "--data", json.dumps({"key": text(b"k")}), "--format=json",
        quick_server.address,
    )  # fmt: skip
    report = json.loads(shown)

    assert (1000, {"OK": 1000}) == (report["count"], report["statusCodeDistribution"])
    assert {"delete/OK": 1000} == counted()
