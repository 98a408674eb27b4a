"""Redis or Valkey beside our server: a server in memory, and the rate of `redis-benchmark`."""

import csv
import io
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kvstore.subprocesses import private_folder, program

START_S: Final = 10.0
NAMES: Final = ("valkey", "redis")
"""The same program: Valkey is a fork of Redis 7.2. The first one on the PATH is taken."""


def name() -> str | None:
    """Return `redis` or `valkey`, whose programs are on the PATH; None if there is neither."""
    for each in NAMES:
        if all(shutil.which(f"{each}-{part}") for part in ("server", "cli", "benchmark")):
            return each
    return None


class Redis:
    """A running Redis that listens on a socket in its own folder."""

    def __init__(self, name: str, socket: str) -> None:
        self._name, self._socket = name, socket

    def output(self, part: str, *arguments: str) -> str:
        """Return what `redis-cli` or `redis-benchmark` prints. Raises `CalledProcessError`."""
        return subprocess.run(
            [f"{self._name}-{part}", "-s", self._socket, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
            stdin=subprocess.DEVNULL,
        ).stdout

    def per_s(self, command: str, *, clients: int, requests: int, pipeline: int = 1) -> float:
        """Return the throughput of `get` or `set`: 1,000 keys and values of 16 bytes."""
        table = self.output(
            "benchmark",
            "--csv",
            "-t",
            command,
            "-r",
            "1000",
            "-d",
            "16",
            "-P",
            f"{pipeline}",
            "-c",
            f"{clients}",
            "-n",
            f"{requests}",
        )
        return float(list(csv.reader(io.StringIO(table)))[-1][1])


@contextmanager
def redis_server(name: str) -> Iterator[Redis]:
    """Run Redis in memory for the block. Raises `CalledProcessError` if it does not start."""
    with private_folder("redis-") as folder:
        socket = f"{folder}/socket"
        flags = ("--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no")
        with program([f"{name}-server", *flags, "--dir", str(folder)]):
            redis, end_s = Redis(name, socket), time.monotonic() + START_S
            while True:
                try:
                    redis.output("cli", "ping")
                    break
                except subprocess.CalledProcessError:
                    if time.monotonic() > end_s:
                        raise
                    time.sleep(0.02)
            yield redis
