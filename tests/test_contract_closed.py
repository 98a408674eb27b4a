"""A run closes what it opened: no connection waits for the garbage collector."""

import gc
import time

import psutil
import pytest
from tables import for_each

from kvstore.client import RunFailed, load
from kvstore.client.strategies import pipelined
from kvstore.client.workload import reads
from kvstore.server import serving


@pytest.mark.slow
@for_each("read_delay_s", [0.001, 2.0])
def test_no_connection_outlives_its_run(read_delay_s):
    """Whether all is answered or the deadline breaks it, and with no help from the collector."""

    def open_sockets() -> int:
        return sum(bool(each.raddr) for each in psutil.Process().net_connections("tcp"))

    with serving(use_asyncio=True, read_delay_s=read_delay_s, locking="per_key") as slow_disk:
        gc.disable()
        try:
            before = open_sockets()
            options = {"in_flight": 4, "streams": 2, "connections": 2, "deadline_s": 0.4}
            failed = None
            try:
                load.run(pipelined, slow_disk, reads(keys=2), calls=20, **options)
            except RunFailed as broken:
                failed = broken  # held, as a notebook holds its last error
            end_s = time.perf_counter() + 30
            while open_sockets() > before and time.perf_counter() < end_s:
                time.sleep(0.05)

            assert (read_delay_s > 1) == (failed is not None)
            assert open_sockets() <= before
        finally:
            gc.enable()
