"""Notebook kernels killed with SIGKILL under load: how long their servers outlived them."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil

# What a notebook does: serve in one process, load it from this one.
KERNEL = """
from kvstore.client import load, strategies, workload
from kvstore.server import serving
with serving(use_asyncio={use_asyncio}, locking="per_key") as server:
    print(server.pid, flush=True)
    load.run(strategies.bounded, server, workload.crud(), in_flight=50, duration_s=60)
"""


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """One row: how many were killed, how many servers were left after 1 s, the longest survival."""
    times = 3 if quick else 20
    outlived_s = [_kill_one(use_asyncio=bool(number % 2)) for number in range(times)]
    yield {
        "kernels killed": times,
        "servers left after 1 s": sum(seconds > 1.0 for seconds in outlived_s),
        "longest, s": round(max(outlived_s), 2),
    }


def _kill_one(*, use_asyncio: bool) -> float:
    """Seconds that the server lived on after its kernel was killed, at most 5."""
    kernel = subprocess.Popen(
        [sys.executable, "-c", KERNEL.format(use_asyncio=use_asyncio)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert kernel.stdout is not None
    server = psutil.Process(int(kernel.stdout.readline()))
    time.sleep(1.0)  # the load is under way
    kernel.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
    start_s = time.perf_counter()
    kernel.wait()
    while _lives(server) and time.perf_counter() - start_s < 5.0:
        time.sleep(0.01)
    return time.perf_counter() - start_s


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
