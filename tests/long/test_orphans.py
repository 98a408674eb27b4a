"""Kernels that are killed, restarted, interrupted or shut down under load leave no process."""

import asyncio
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty
from typing import Any

import psutil
import pytest
from jupyter_client.manager import AsyncKernelManager

from kvstore.server import EtcdNotInstalled
from kvstore.server.etcd_nodes import found_etcd
from tools.run_notebooks import own_kernel

EACH = 4
"""Kernels for each cell and each end."""
AT_ONCE = 4
"""Number of kernels that run side by side, so that the machine has more to do than it can."""
MACHINE_S = 30.0
"""What a busy machine may take to end the processes; a second where it has nothing else to do."""
READY_S = 120.0

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

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
from kvstore.server import serving_replicas
several = [dict(use_asyncio={aio}, locking="per_key")] * 2
with serving_replicas(several) as server, Local(2) as fleet:
    print("calling", flush=True)
    load.run(strategies.bounded, server, workload.crud(), fleet=fleet, in_flight=50, duration_s=300)
""",
    "etcd nodes": """
from kvstore.client import load, strategies, workload
from kvstore.server import etcd_cluster, serving
with etcd_cluster(3) as cluster, serving(store=cluster.store, use_asyncio=True) as server:
    print("calling", flush=True)
    load.run(strategies.bounded, server, workload.crud(), in_flight=50, duration_s=300)
""",
}
ENDS = ("killed", "restarted", "interrupted", "shut down")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("what", CELLS)
def test_a_kernel_leaves_no_process(what, end, record_property):
    if what == "etcd nodes":
        try:
            found_etcd()
        except EtcdNotInstalled as missing:
            pytest.skip(f"etcd: {missing}")
    cells = [CELLS[what].format(aio=bool(number % 2)) for number in range(EACH)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        lasted_s = list(pool.map(lambda cell: _ended(cell, end), cells))
    record_property("judged", f"{EACH} kernels; their processes lived for {max(lasted_s):.2f} s")

    assert max(lasted_s) < MACHINE_S


def _ended(cell: str, end: str) -> float:
    """End one kernel that runs this cell; return how long its processes lived, in seconds."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return asyncio.run(_end_one(Path(folder), cell, end))


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
