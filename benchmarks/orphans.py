"""Kill notebook kernels under load with SIGKILL; measure how long their servers live on."""

import signal
import time
from collections.abc import Iterator
from typing import Any

import psutil
from jupyter_client.manager import KernelManager

from tools.run_notebooks import OwnKernel

# As in a notebook: a server in its own process, and a load generator in the kernel.
CELL = """
from kvstore.client import load, strategies, workload
from kvstore.server import serving
with serving(use_asyncio={use_asyncio}, locking="per_key") as server:
    print(server.pid, flush=True)
    load.run(strategies.bounded, server, workload.crud(), in_flight=50, duration_s=60)
"""


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield one row: kernels killed, servers left after 1 s, the longest survival."""
    times = 3 if quick else 20
    outlived_s = [_kill_one(use_asyncio=bool(number % 2)) for number in range(times)]
    yield {
        "kernels killed": times,
        "servers left after 1 s": sum(seconds > 1.0 for seconds in outlived_s),
        "longest, s": round(max(outlived_s), 2),
    }


def _kill_one(*, use_asyncio: bool) -> float:
    """Return the seconds that the server lived on after its kernel was killed, at most 5."""
    manager = KernelManager(kernel_spec_manager=OwnKernel())
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        client.execute(CELL.format(use_asyncio=use_asyncio))
        server = psutil.Process(_first_number(client))
        time.sleep(0.7)  # until calls are in flight
        manager.signal_kernel(getattr(signal, "SIGKILL", signal.SIGTERM))
        start_s = time.perf_counter()
        while _lives(server) and time.perf_counter() - start_s < 5.0:
            time.sleep(0.01)
        return time.perf_counter() - start_s
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _first_number(client: Any) -> int:
    """Return the process id that the cell prints."""
    while True:
        said = client.get_iopub_msg(timeout=30)
        if said["msg_type"] == "error":
            raise RuntimeError(said["content"]["evalue"])
        if said["msg_type"] == "stream" and said["content"]["text"].strip().isdigit():
            return int(said["content"]["text"])


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
