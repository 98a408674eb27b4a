"""`python -m kvstore.server` as a person starts it, and messages of another program's make."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from kvstore.v1 import server_status_pb2, server_status_pb2_grpc

HANG_S = 15.0
"""What ought to happen at once gets this long on a busy machine."""


@contextmanager
def started_by_hand(*arguments: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """The command, running; its address, which it prints first, and its process."""
    with subprocess.Popen(
        [sys.executable, "-m", "kvstore.server", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().rstrip("\n"), process
        finally:
            process.kill()


def status_of(address: str) -> Any:
    """What the server at this address says of itself."""
    with grpc.insecure_channel(address) as channel:
        return server_status_pb2_grpc.ServerStatusServiceStub(channel).GetServerStatus(
            server_status_pb2.GetServerStatusRequest(), timeout=HANG_S, wait_for_ready=True
        )
