"""A second witness of group commit: a real Redis with an fsync before each answer (further 11).

`redis-benchmark`, which comes with Redis, keeps N clients busy: each sends a SET and waits for its
answer. `appendfsync always` writes the log and waits for an fsync before it answers; `no` leaves
the log to the kernel, and gives the time of a SET outside the log.
"""

import csv
import io
import math
import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import pandas as pd
import psutil

from kvstore.course import progress
from kvstore.course.views.style import rounded
from kvstore.model import Prediction, batching
from kvstore.server import ServerDidNotStart
from kvstore.subprocesses import Program, private_folder, program

START_S: Final = 10.0
BENCHMARK_S: Final = 120.0
VALUE_BYTES: Final = 64
FIRST: Final = 50
"""SETs of each client in a first run, whose rate gives the length of the second one."""
ROUNDS: Final = 3
MOST_PER_S: Final = 50_000.0
"""A first run may be too short for the clock of `redis-benchmark`, which then says infinity."""
NAMES: Final = ("valkey", "redis")
"""The same program: Valkey is a fork of Redis 7.2. The first one on the PATH is taken."""


class RedisNotInstalled(RuntimeError):
    """There is no Redis and no Valkey on this machine."""


def found_redis() -> str:
    """Return `redis` or `valkey`, whose three programs are on the PATH.

    Raises `RedisNotInstalled`, which says how to install it.
    """
    for name in NAMES:
        if all(shutil.which(f"{name}-{part}") for part in ("server", "cli", "benchmark")):
            return name
    raise RedisNotInstalled(
        "neither redis-server nor valkey-server is on the PATH. Install one and try again:"
        " `sudo apt install redis-server` (Debian, Ubuntu), `brew install redis` (macOS) or"
        " `conda install -c conda-forge redis-server`; or leave this lesson out"
    )


class Redis:
    """A running Redis that listens on a socket in its own folder, or on a port of loopback."""

    def __init__(self, name: str, place: Sequence[str], running: Program) -> None:
        self._name, self._place = name, place
        self.pid = running.pid

    def set_fsync(self, when: str) -> None:
        """Set `appendfsync`: `always` or `no`."""
        self._output("cli", "config", "set", "appendfsync", when)

    def sets_per_s(self, clients: int, requests: int) -> float:
        """Return the throughput of so many SETs, in calls/s, with `clients` of them in flight."""
        return self.per_s("set", clients=clients, requests=requests)

    def per_s(
        self, command: str, *, clients: int, requests: int, pipeline: int = 1,
        keys: int = 100_000, value_bytes: int = VALUE_BYTES,
    ) -> float:  # fmt: skip
        """Return the throughput of `get` or `set` in operations/s, by `redis-benchmark`.

        Each client has `pipeline` operations in flight.
        """
        table = self._output(
            "benchmark", "--csv", "-t", command, "-r", f"{keys}", "-d", f"{value_bytes}",
            "-P", f"{pipeline}", "-c", f"{clients}", "-n", f"{requests}",
        )  # fmt: skip
        last = list(csv.reader(io.StringIO(table)))[-1]
        return float(last[1])

    def writes(self) -> int:
        """Return how often it has written: each answer, and each group to the log. 0: unknown."""
        process = psutil.Process(self.pid)
        return process.io_counters().write_count if hasattr(process, "io_counters") else 0

    def _output(self, part: str, *arguments: str) -> str:
        done = subprocess.run(
            [f"{self._name}-{part}", *self._place, *arguments],
            capture_output=True, text=True, timeout=BENCHMARK_S, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode or "ERR" in done.stdout:
            raise RuntimeError(
                f"{self._name}-{part} {' '.join(arguments)} failed: {done.stderr or done.stdout}"
            )
        return done.stdout


@contextmanager
def redis_server(*, port: int = 0, log: bool = True) -> Iterator[Redis]:
    """Run a Redis for the block; its data are in a private folder, which is deleted at the end.

    With a `port`, clients connect to loopback rather than to a socket in the folder. Without a
    `log`, it keeps its data in memory only.

    Raises `RedisNotInstalled`, and `ServerDidNotStart` with what it wrote.
    """
    name = found_redis()
    with private_folder("redis-") as folder:
        path, wrote_to = folder / "socket", folder / "log"
        settings = {
            "port": f"{port}", "bind": "127.0.0.1", "unixsocket": str(path),
            "unixsocketperm": "700", "dir": f"{folder}", "logfile": str(wrote_to), "save": "",
            "appendonly": "yes" if log else "no", "appendfsync": "always",
            "auto-aof-rewrite-percentage": "0",  # a rewrite in a run would be measured too
        }  # fmt: skip
        flags = [part for key, value in settings.items() for part in (f"--{key}", value)]
        with program([f"{name}-server", *flags]) as running:
            end_s = time.monotonic() + START_S
            while not _listens(path):
                if not running.alive() or time.monotonic() > end_s:
                    wrote = wrote_to.read_text("utf-8", "replace") if wrote_to.exists() else ""
                    raise ServerDidNotStart(f"{name}-server does not listen: {wrote[-300:]}")
                time.sleep(0.02)
            yield Redis(name, ("-p", f"{port}") if port else ("-s", str(path)), running)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


# ---- runs, and the model of group commit ---------------------------------------------------------


class Sets(NamedTuple):
    """SETs per second by the number of clients, with an fsync before each answer and without."""

    durable: dict[int, float]
    volatile: dict[int, float]
    per_commit: dict[int, float]
    """SETs with one write to the log and its fsync, counted; NaN where the system has no count."""

    def sets_per_fsync(self, clients: int) -> float:
        """Return how many SETs share an fsync: counted, or what X and f make at least."""
        counted = self.per_commit[clients]
        at_least = self.durable[clients] * self.log()["fsync_s"]
        return at_least if math.isnan(counted) else counted

    @property
    def most(self) -> int:
        """Return the largest number of clients."""
        return max(self.durable)

    def log(self) -> dict[str, float]:
        """Return the parts for the model, in seconds: Z and f of one SET, and its CPU time b.

        Alone and without fsync, a SET takes Z + b; with it, Z + b + f. With many clients and
        without fsync it takes b, because Redis executes all SETs in one thread. The same thread
        waits for the fsync, so a group of k takes f + b k.
        """
        alone_s, per_write_s = 1 / self.volatile[1], 1 / max(self.volatile.values())
        return {
            "way_s": max(0.0, alone_s - per_write_s),
            "fsync_s": max(1e-6, 1 / self.durable[1] - alone_s),
            "per_write_s": per_write_s,
        }

    def predicted(self, clients: int) -> Prediction:
        """Return the SETs per second of Redis if all SETs that wait share one fsync."""
        return batching.in_groups(clients, **self.log())

    def table(self) -> pd.DataFrame:
        """Return one row for each number of clients."""
        rows = [
            {
                "clients": clients,
                "without fsync (calls/s)": round(self.volatile[clients]),
                "predicted (calls/s)": round(self.predicted(clients).value),
                "with fsync (calls/s)": round(rate),
                "SETs per fsync": round(self.sets_per_fsync(clients), 1),
            }
            for clients, rate in self.durable.items()
        ]
        return rounded(pd.DataFrame(rows).set_index("clients"))


def sets(clients: Sequence[int], *, duration_s: float, closes: Sequence[str]) -> Sets:
    """Measure SETs with and without fsync, each for about `duration_s`; the first is one client.

    Each rate is the median of three rounds, and the rounds of all settings are interleaved. No
    prediction is accepted for the questions `closes` from now on.
    """
    for question in closes:
        progress.close(question)
    settings = [(when, count) for when in ("no", "always") for count in clients]
    rates: dict[tuple[str, int], list[float]] = {setting: [] for setting in settings}
    calls, commits = Counter[int](), Counter[int]()
    with redis_server() as redis:
        length = {}
        for when, count in settings:
            redis.set_fsync(when)
            tried = min(MOST_PER_S, redis.sets_per_s(count, FIRST * count))
            length[when, count] = max(FIRST * count, int(tried * duration_s / ROUNDS))
        for _ in range(ROUNDS):
            for when, count in settings:
                redis.set_fsync(when)
                before = redis.writes()
                rates[when, count].append(redis.sets_per_s(count, length[when, count]))
                if when == "always":
                    calls[count] += length[when, count]
                    commits[count] += redis.writes() - before - length[when, count]
    return Sets(
        durable={count: median(rates["always", count]) for count in clients},
        volatile={count: median(rates["no", count]) for count in clients},
        per_commit={
            count: calls[count] / commits[count] if commits[count] > 0 else math.nan
            for count in clients
        },
    )
