"""A run closes what it opened: no connection waits for the garbage collector."""

import asyncio
import gc
import itertools
import time

import psutil
import pytest

from kvstore.client import RunFailed, load
from kvstore.client.strategies import Supports, pipelined
from kvstore.client.workload import reads
from kvstore.server import serving


def open_sockets() -> int:
    return sum(bool(each.raddr) for each in psutil.Process().net_connections("tcp"))


def sockets_left(before: int, within_s: float = 4.0) -> int:
    """Return how many sockets are open beyond those of before, once they had time to close."""
    end_s = time.perf_counter() + within_s
    while open_sockets() > before and time.perf_counter() < end_s:
        time.sleep(0.05)
    return open_sockets() - before


turns = itertools.count()


async def one_of_two_fails(stub, operations, in_flight):
    """Fail on the second stream: the task of the first is cancelled while it reads."""
    if next(turns) % 2 == 0:
        await pipelined(stub, operations, in_flight)
    await asyncio.sleep(0.3)
    raise ZeroDivisionError


one_of_two_fails.supports = Supports(streams=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "read_delay_s", "deadline_s"),
    [(pipelined, 0.001, 30.0), (pipelined, 2.0, 0.4), (one_of_two_fails, 5.0, 30.0)],
)
def test_no_connection_outlives_its_run(strategy, read_delay_s, deadline_s):
    """Whether all is answered or the deadline breaks it, and with no help from the collector."""
    with serving(use_asyncio=True, read_delay_s=read_delay_s, locking="per_key") as slow_disk:
        gc.disable()
        try:
            before = open_sockets()
            options = {"in_flight": 4, "streams": 2, "connections": 2, "deadline_s": deadline_s}
            failed = None
            try:
                load.run(strategy, slow_disk, reads(keys=2), calls=20, **options)
            except RunFailed as broken:
                failed = broken  # held, as a notebook holds its last error

            assert (read_delay_s > 1) == (failed is not None)
            assert sockets_left(before) <= 0
        finally:
            gc.enable()
