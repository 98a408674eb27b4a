"""What a student does to a cell under load: interrupt it, kill its kernel. In a real kernel."""

import re
import signal
import sys
import time

import psutil
import pytest
from kernels import Kernel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows kernels have no SIGKILL"),
]

SERVE = """
from kvstore.client import load, strategies, workload
from kvstore.measure import audit
from kvstore.server import serving
block = serving(use_asyncio=True, locking="per_key")
server = block.__enter__()
print("server", server.pid)
"""
LOAD = """
def seen(sample):
    if sample.answered:
        print("under way", flush=True)
try:
    load.run(
        strategies.{strategy}, server, workload.crud(), in_flight=20, duration_s=60, on_sample=seen
    )
except KeyboardInterrupt as stopped:
    checked = audit(stopped.run)
    print("audit", checked.holds, checked.issued, checked.unknown)
    raise
"""


@pytest.fixture(scope="module")
def kernel():
    """One kernel for all: the last test kills it."""
    running = Kernel()
    yield running
    running.close()


def served(kernel):
    """Start a server in the kernel; return its process."""
    text, errors = kernel.run(SERVE)
    assert not errors
    return psutil.Process(int(re.search(r"server (\d+)", text)[1]))


@pytest.mark.parametrize("strategy", ["bounded", "pipelined"])
def test_an_interrupted_cell_accounts_for_its_calls_and_leaves_the_server(kernel, strategy):
    server = served(kernel)
    kernel.start(LOAD.format(strategy=strategy))
    kernel.printed(until="under way")

    kernel.manager.interrupt_kernel()
    text, errors = kernel.printed()

    _, holds, issued, unknown = re.search(r"(audit) (\w+) (\d+) (\d+)", text).groups()
    assert ["RunInterrupted"] == errors
    assert ("True", "0") == (holds, unknown)
    assert int(issued) > 0
    assert server.is_running()
    text, errors = kernel.run(
        "run = load.run(strategies.tasks, server, workload.crud(), in_flight=5, calls=20)\n"
        "print(run.outcome, audit(run).holds, len(run.records))"
    )
    assert ("complete True 20\n", []) == (text, errors)


def test_an_interrupted_run_with_a_server_of_its_own_leaves_nothing_and_runs_again(kernel):
    """As the cells of the lessons have it: the run serves the class, and ends its process."""
    cell = (
        "from kvstore.client import strategies\nfrom kvstore.course import run\n"
        "made = run(strategies.bounded, {{'locking': 'global'}}, in_flight=20, seconds={})"
    )
    before = kernel.process.children(recursive=True)
    kernel.start(cell.format(60))
    while len(kernel.process.children(recursive=True)) == len(before):
        time.sleep(0.05)
    time.sleep(0.3)
    kernel.manager.interrupt_kernel()
    _, errors = kernel.printed()

    assert errors in (["KeyboardInterrupt"], ["RunInterrupted"])
    started = set(kernel.process.children(recursive=True)) - set(before)
    assert psutil.wait_procs(started, timeout=10)[1] == []
    assert kernel.run(cell.format(0.5))[1] == []


def test_a_restarted_kernel_leaves_no_server_behind(kernel):
    """Restarting is what a student does when a cell seems stuck."""
    server = served(kernel)

    kernel.manager.restart_kernel(now=True)

    assert psutil.wait_procs([server], timeout=5)[0] == [server]
    kernel.client.wait_for_ready(timeout=60)


def test_a_killed_kernel_takes_its_server_along(kernel):
    server = served(kernel)
    kernel.start(LOAD.format(strategy="bounded"))
    kernel.printed(until="under way")

    kernel.process.send_signal(signal.SIGKILL)

    assert psutil.wait_procs([server], timeout=5)[0] == [server]
