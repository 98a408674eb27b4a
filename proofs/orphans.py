"""Kernels that are killed, restarted, interrupted or shut down under load leave no process."""

import asyncio
import itertools
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty
from typing import Any

import psutil
from jupyter_client.manager import AsyncKernelManager

from kvstore.server import EtcdNotInstalled
from kvstore.server.etcd_nodes import found_etcd
from proofs.case import Case, Figure, Skipped
from tools.run_notebooks import own_kernel

KERNELS, KERNELS_SHORT = 1_000, 3
AT_ONCE = 4
"""Number of kernels that run side by side, so that the machine has more to do than it can."""
ALIVE_S = 1.0
MACHINE_S = 20.0
"""What a busy machine may add in the short form."""
READY_S = 120.0

CELLS = {
    "a server": """
from kvstore.client import load, strategies, workload
from kvstore.server import serving
with serving(use_asyncio={aio}, locking="per_key") as server:
    print("calling", flush=True)
    load.run(strategies.bounded, server, workload.crud(), in_flight=50, duration_s=300)
""",
    "a fleet": """
from kvstore.client import load, strategies, workload
from kvstore.client.fleet import Local
from kvstore.server import serving_sharded
with serving_sharded(2, use_asyncio={aio}, locking="per_key") as server, Local(2) as fleet:
    print("calling", flush=True)
    load.run(strategies.bounded, server, workload.crud(), fleet=fleet, in_flight=50, duration_s=300)
""",
    "etcd nodes": """
from kvstore.client import load, strategies, workload
from kvstore.server import etcd_cluster, serving
with etcd_cluster(3) as cluster, serving(store=cluster.store, use_asyncio={aio}) as server:
    print("calling", flush=True)
    load.run(strategies.bounded, server, workload.crud(), in_flight=50, duration_s=300)
""",
}
ENDS = ("killed", "restarted", "interrupted", "shut down")


def prove(short: bool) -> Iterator[Case | Figure | Skipped]:
    """Yield one case for each kernel: what it had started is gone within a second."""
    cells = dict(CELLS)
    try:
        found_etcd()
    except EtcdNotInstalled as missing:
        del cells["etcd nodes"]
        yield Skipped(f"etcd nodes: {missing}")
    kernels = KERNELS_SHORT if short else KERNELS
    every = itertools.cycle(itertools.product((False, True), ENDS, cells))
    longest_s = 0.0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name, seconds, wrong in pool.map(_ended, range(kernels), every):
            longest_s = max(longest_s, seconds)
            if not wrong and seconds > (MACHINE_S if short else ALIVE_S):
                wrong = f"processes were left for {seconds:.1f} s"
            yield Case(name, wrong)
    yield Figure("kernels", kernels)
    yield Figure("longest, s", round(longest_s, 2))


def _ended(number: int, how: tuple[bool, str, str]) -> tuple[str, float, str]:
    """End one kernel; return what it was, how long its processes lived, and what went wrong."""
    aio, end, what = how
    name = f"{number}: {end} with {what}"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            return name, asyncio.run(_end_one(Path(folder), CELLS[what].format(aio=aio), end)), ""
        except Exception as error:  # of a thousand kernels, the others still count
            return name, 0.0, f"{type(error).__name__}: {error}"


async def _end_one(folder: Path, cell: str, end: str) -> float:
    """End a kernel that runs this cell; return how long its processes lived, in seconds."""
    manager = own_kernel(folder, AsyncKernelManager)
    await manager.start_kernel(stderr=subprocess.DEVNULL)  # ipykernel's words on being shut down
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=READY_S)
        client.execute(cell)
        await _wait_for_print(client)
        kernel = psutil.Process(manager.provisioner.pid)  # type: ignore[union-attr]
        await asyncio.sleep(0.7)  # until calls are in flight
        started = kernel.children(recursive=True)
        if end == "interrupted":
            started = [each for each in started if not _stays_with_the_kernel(each)]
        assert started, "the cell has started no process"
        if end == "killed":
            await manager.signal_kernel(signal.SIGKILL)
        elif end == "restarted":
            await manager.restart_kernel(now=True)
        elif end == "interrupted":
            await manager.interrupt_kernel()
            await _wait_for_idle(client)  # the run drains: its calls have up to 5 s
        else:
            await manager.shutdown_kernel(now=False)
        began_s = time.perf_counter()
        while any(map(_lives, started)) and time.perf_counter() - began_s <= MACHINE_S:
            await asyncio.sleep(0.01)
        return time.perf_counter() - began_s
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


async def _wait_for_print(client: Any) -> None:
    while True:
        said = await client.get_iopub_msg(timeout=READY_S)
        if said["msg_type"] == "error":
            raise RuntimeError(f"{said['content']['ename']}: {said['content']['evalue']}")
        if said["msg_type"] == "stream" and "calling" in said["content"]["text"]:
            return


async def _wait_for_idle(client: Any) -> None:
    while True:
        try:
            said = await client.get_iopub_msg(timeout=READY_S)
        except Empty:
            raise TimeoutError(f"the cell goes on {READY_S:g} s after the interrupt") from None
        if said["msg_type"] == "status" and said["content"]["execution_state"] == "idle":
            return


def _stays_with_the_kernel(process: psutil.Process) -> bool:
    """Return whether it is the helper of `multiprocessing`, which ends with the kernel."""
    try:
        return "multiprocessing.resource_tracker" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
