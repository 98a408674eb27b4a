"""stories/handovers.py: the price of a call and the cores busy account for the throughput."""

import math
import os
import threading
import time

import pytest

from kvstore.client import workload
from kvstore.course.stories import handovers


@pytest.mark.slow
def test_cores_busy_over_price_is_the_throughput(quick_server):
    reads = workload.reads(keys=2, value_bytes_mean=64)
    seen = handovers.watched(quick_server, reads, in_flight=4, duration_s=0.3)
    row = handovers.account({"it": seen}).loc["it"]

    assert seen.switches > seen.run.issued  # a call is received by one thread, answered by another
    assert math.isclose(row["X (calls/s)"], seen.busy / seen.price_s)
    assert math.isclose(row["server switches (a call)"], seen.switches / seen.run.issued)


@pytest.mark.slow
def test_the_switches_of_every_thread_count():
    """On Linux psutil sees the first thread only."""
    before = handovers.context_switches(os.getpid())

    def wait_often():
        for _ in range(200):
            time.sleep(0.0001)

    asleep = threading.Event()
    workers = [threading.Thread(target=lambda: (wait_often(), asleep.wait())) for _ in range(3)]
    for worker in workers:
        worker.start()
    time.sleep(0.3)
    counted = handovers.context_switches(os.getpid()) - before
    asleep.set()
    for worker in workers:
        worker.join()

    assert counted > 200
