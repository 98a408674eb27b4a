"""A client that others wrote: grpcurl needs no proto file, and gets what ours get.

`go install github.com/fullstorydev/grpcurl/cmd/grpcurl@latest` installs it.
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

pytestmark = pytest.mark.long

PLACES = os.pathsep.join([os.environ.get("PATH", ""), str(Path.home() / "go" / "bin")])

SERVICE = "kvstore.v1.KeyValueService"
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


@pytest.fixture
def call(grpcurl, quick_server):
    """Calls a method with a request as JSON."""

    def made(method: str, *options: str, succeeds: bool = True, **fields: object) -> str:
        return grpcurl(
            "-plaintext",
            *options,
            "-d",
            json.dumps(fields),
            quick_server.address,
            method,
            succeeds=succeeds,
        )

    return made


def test_grpcurl_lists_and_describes_the_services(grpcurl, quick_server):
    listed = grpcurl("-plaintext", quick_server.address, "list").split()
    described = grpcurl("-plaintext", quick_server.address, "describe", SERVICE)

    assert {"grpc.health.v1.Health", SERVICE} <= set(listed)
    assert "rpc Pipeline ( stream .kvstore.v1.PipelineRequest )" in described


def test_grpcurl_gets_what_our_clients_get(call, keys):
    key = text(next(keys))
    assert {} == json.loads(call(f"{SERVICE}/Create", key=key, value=text(b"\x00\xff")))
    assert {"value": text(b"\x00\xff")} == json.loads(call(f"{SERVICE}/Retrieve", key=key))

    refused = call(f"{SERVICE}/Retrieve", "-v", key=text(next(keys)), succeeds=False)
    assert "Code: NotFound" in refused
    assert re.search(r"server-timing: pool;dur=[\d.]+, lock;dur=[\d.]+, disk;dur=", refused)

    reply = json.loads(call(f"{SERVICE}/Pipeline", id=7, kinds=text(b"\x04"), keys=[key]))
    assert ("7", text(b"\x00")) == (reply["id"], reply["statuses"])


@pytest.mark.parametrize("service", ["", SERVICE])
def test_grpcurl_sees_that_the_server_is_healthy(service, call):
    shown = call("grpc.health.v1.Health/Check", service=service)

    assert {"status": "SERVING"} == json.loads(shown)
