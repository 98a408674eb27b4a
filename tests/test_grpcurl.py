"""A client that others wrote: grpcurl needs no proto file, and gets what ours get.

`.ci/run` installs it where it can.
"""

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

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


@pytest.fixture
def grpcurl() -> Peer:
    """Runs grpcurl with arguments and returns what it prints; skips where there is none."""
    path = shutil.which("grpcurl", path=PLACES)
    if path is None:
        pytest.skip("grpcurl is not installed; .ci/run installs it where it can")

    def run(*arguments: str, succeeds: bool = True) -> str:
        ended = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        assert succeeds == (ended.returncode == 0), ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    return run


def text(raw: bytes) -> str:
    """Bytes as JSON carries them."""
    return base64.b64encode(raw).decode("ascii")


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
