"""Redis and its own load generator, `redis-benchmark`, if both are installed."""

import csv
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

START_S, CALL_S = 10.0, 60.0
"""Seconds for the server to start, and for a run of the load generator."""
KEY_BYTES = 16
"""`redis-benchmark` writes keys as `key:` and twelve digits."""


class Redis:
    """A Redis server on loopback that keeps its data in memory only."""

    def __init__(self, port: int) -> None:
        self._port = port

    def gets_per_s(
        self, *, keys: int, value_bytes: int, pipeline: int, connections: int, requests: int
    ) -> float:
        """Return GETs/s with `pipeline` commands in each write on each connection."""
        self._benchmark("set", keys, value_bytes, 1_000, 8, 20 * keys)
        return self._benchmark("get", keys, value_bytes, pipeline, connections, requests)

    def _benchmark(
        self, command: str, keys: int, value_bytes: int, pipeline: int, connections: int, count: int
    ) -> float:
        output = subprocess.run(
            [
                "redis-benchmark", "-p", str(self._port), "-t", command, "-r", str(keys),
                "-d", str(value_bytes), "-P", str(pipeline), "-c", str(connections),
                "-n", str(count), "--csv",
            ],
            check=True, capture_output=True, text=True, timeout=CALL_S,
        ).stdout  # fmt: skip
        rows = list(csv.reader(output.splitlines()))
        return float(dict(zip(rows[0], rows[-1], strict=True))["rps"])


def installed() -> bool:
    """Return whether Redis and its load generator are installed."""
    return bool(shutil.which("redis-server") and shutil.which("redis-benchmark"))


@contextmanager
def redis() -> Iterator[Redis | None]:
    """Yield a Redis server, or None if Redis or its load generator is not installed."""
    if not installed():
        yield None
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", folder,
            "--save", "", "--appendonly", "no",
        ]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
            try:
                _wait_until_it_listens(server, port)
                yield Redis(port)
            finally:
                server.terminate()


def _wait_until_it_listens(server: "subprocess.Popen[bytes]", port: int) -> None:
    end_s = time.perf_counter() + START_S
    while server.poll() is None and time.perf_counter() < end_s:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
            return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"redis-server did not listen on port {port} within {START_S:g} s")
