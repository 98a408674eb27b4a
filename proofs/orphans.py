"""Kernels that are killed, restarted, interrupted or shut down under load leave no process."""

import signal
import time
from collections.abc import Iterator
from typing import Any

import psutil
from jupyter_client.manager import KernelManager

from proofs.case import Case, Figure
from tools.run_notebooks import OwnKernel

KERNELS, KERNELS_SHORT = 1_000, 2
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
from kvstore.client import run_in_process, strategies, workload
from kvstore.server import serving_sharded
with serving_sharded(2, use_asyncio={aio}, locking="per_key") as server:
    print("calling", flush=True)
    run_in_process(
        strategies.bounded, server, workload.crud(), processes=2, in_flight=50, duration_s=300)
""",
}
ENDS = ("killed", "restarted", "interrupted", "shut down")


def prove(short: bool) -> Iterator[Case | Figure]:
    """Yield one case for each kernel: what it had started is gone within a second."""
    longest_s = 0.0
    kernels = KERNELS_SHORT if short else KERNELS
    for number in range(kernels):
        what = list(CELLS)[number // len(ENDS) % len(CELLS)]
        end = ENDS[number % len(ENDS)]
        seconds, left = _end_one(CELLS[what].format(aio=bool(number % 2)), end)
        longest_s = max(longest_s, seconds)
        limit_s = MACHINE_S if short else ALIVE_S
        wrong = f"{left} processes were left after {seconds:.1f} s" if seconds > limit_s else ""
        yield Case(f"{number}: {end} with {what}", wrong)
    yield Figure("kernels", kernels)
    yield Figure("longest, s", round(longest_s, 2))


def _end_one(cell: str, end: str) -> tuple[float, int]:
    """End a kernel that runs this cell; return until when its processes lived, and how many."""
    manager = KernelManager(kernel_spec_manager=OwnKernel())
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=READY_S)
        client.execute(cell)
        _wait_for_print(client)
        kernel = psutil.Process(manager.provisioner.pid)  # type: ignore[union-attr]
        time.sleep(0.7)  # until calls are in flight
        started = kernel.children(recursive=True)
        assert started, "the cell has started no process"
        if end == "killed":
            manager.signal_kernel(signal.SIGKILL)
        elif end == "restarted":
            manager.restart_kernel(now=True)
        elif end == "interrupted":
            manager.interrupt_kernel()
            _wait_for_idle(client)  # the run drains: its calls have up to 5 s
        else:
            manager.shutdown_kernel(now=False)
        began_s = time.perf_counter()
        while (left := sum(map(_lives, started))) and time.perf_counter() - began_s < MACHINE_S:
            time.sleep(0.01)
        return time.perf_counter() - began_s, left
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _wait_for_print(client: Any) -> None:
    while True:
        said = client.get_iopub_msg(timeout=READY_S)
        if said["msg_type"] == "error":
            raise RuntimeError(said["content"]["evalue"])
        if said["msg_type"] == "stream" and "calling" in said["content"]["text"]:
            return


def _wait_for_idle(client: Any) -> None:
    while True:
        said = client.get_iopub_msg(timeout=READY_S)
        if said["msg_type"] == "status" and said["content"]["execution_state"] == "idle":
            return


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
