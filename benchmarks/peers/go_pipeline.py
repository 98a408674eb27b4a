"""The pipeline of Go's standard library (net/rpc), built and served while a block lasts."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

SOURCE = Path(__file__).parent / "go_net_rpc"
BUILD_S, CALL_S = 180.0, 30.0
"""Seconds for a build on a slow machine, and for calls in addition to the requested duration."""


class Calls(NamedTuple):
    """What one run of the client measured."""

    per_s: float
    client_cpu_s: float
    """CPU seconds for each call."""
    server_cpu_s: float


class GoPipeline:
    """A server in Go, and a client in Go that calls it."""

    def __init__(self, program: Path, server: "subprocess.Popen[str]") -> None:
        assert server.stdout is not None
        self._program = program
        self._server = psutil.Process(server.pid)
        self._address = server.stdout.readline().strip()

    def calls(self, window: int, seconds: float) -> Calls:
        """Keep `window` calls in flight on one connection for `seconds`; return its figures."""
        before = self._server.cpu_times()
        words = subprocess.run(
            [self._program, "call", self._address, str(window), str(seconds)],
            check=True, capture_output=True, text=True, timeout=seconds + CALL_S,
        ).stdout.split()  # fmt: skip
        after = self._server.cpu_times()
        answered, took_s, cpu_s = (float(word) for word in words)
        server_s = after.user + after.system - before.user - before.system
        return Calls(answered / took_s, cpu_s / answered, server_s / answered)


@contextmanager
def go_pipeline() -> Iterator[GoPipeline | None]:
    """Yield Go's pipeline, or None if `go` is not installed."""
    go = shutil.which("go")
    if go is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / ("peer.exe" if os.name == "nt" else "peer")
        settings = {"GOFLAGS": "-mod=mod", "GOPROXY": "off"}
        subprocess.run(
            [go, "build", "-o", program, "."],
            cwd=SOURCE, env={**os.environ, **settings}, check=True, timeout=BUILD_S,
        )  # fmt: skip
        with subprocess.Popen(
            [program, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdin is not None
            try:
                yield GoPipeline(program, server)
            finally:
                server.stdin.close()  # it serves until its input ends
