"""The CPU time of a call and the cores busy account for the throughput."""

import math
import subprocess
import sys

import pytest

from kvstore.client import workload
from kvstore.course.lessons.lesson_04 import context_switches


@pytest.mark.slow
def test_cores_busy_over_cpu_time_is_the_throughput(quick_server):
    reads = workload.reads(keys=2, value_bytes_mean=64)
    seen = context_switches.watched(quick_server, reads, in_flight=4, duration_s=0.3)
    row = context_switches.account({"it": seen}).loc["it"]

    assert seen.switches > seen.run.issued  # a call is received by one thread, answered by another
    assert math.isclose(row["X (calls/s)"], seen.busy / seen.price_s)
    assert math.isclose(row["server switches (per call)"], seen.switches / seen.run.issued)


@pytest.mark.slow
def test_the_switches_of_every_thread_count():
    """On Linux psutil sees the first thread only. In a process of its own: threads that other
    tests left behind take their switches with them when they end.
    """
    output = subprocess.run(
        [sys.executable, "-c", SWITCHING], check=True, capture_output=True, text=True
    )

    assert int(output.stdout) > 200


SWITCHING = """
import os, threading, time
from kvstore.course.lessons.lesson_04 import context_switches

asleep = threading.Event()

def wait_often():
    for _ in range(200):
        time.sleep(0.0001)
    asleep.wait()

before = context_switches.context_switches(os.getpid())
workers = [threading.Thread(target=wait_often) for _ in range(3)]
for worker in workers:
    worker.start()
time.sleep(0.5)
print(context_switches.context_switches(os.getpid()) - before)
asleep.set()
"""
