"""The watchdog outside: it ends a client that does not stop at the ceiling by itself."""

import math
import sys
import time

import psutil
import pytest

from kvstore.client.generators import Generators, most_bytes
from kvstore.lifeline import child
from kvstore.server import serving

pytestmark = pytest.mark.slow


@pytest.fixture
def server():
    with serving(use_asyncio=True, locking="per_key") as running:
        yield running


def look_on(server, watched, ceiling_bytes, seconds=20):
    """Look on while a client that knows of no ceiling makes calls; return how long it ran."""
    arguments = ["blocking", server.address, f"--duration-s={seconds}", "--sample-interval-s=0.1"]
    with child("kvstore.client", arguments) as client:
        began_s = time.perf_counter()
        Generators([client], watched(client), ceiling_bytes=ceiling_bytes).look_on()
        return client.popen.wait(5), time.perf_counter() - began_s


@pytest.mark.parametrize("side", ["client", "server"])
def test_a_client_is_ended_when_it_or_the_server_outgrows_the_ceiling(server, side):
    pids = {"client": lambda _: [], "server": lambda _: [server.pid]}

    status, ran_s = look_on(server, pids[side], ceiling_bytes=1e6)

    assert status != 0
    assert ran_s < 15
    assert server.alive()


def test_without_a_ceiling_nobody_is_ended(server):
    status, _ = look_on(server, lambda client: [client.pid, server.pid], math.inf, seconds=0.3)

    assert status == 0


def test_processes_that_are_gone_use_no_memory(server):
    gone = psutil.Popen([sys.executable, "-c", ""])
    gone.wait()

    assert most_bytes([gone.pid]) == 0
    assert most_bytes([gone.pid, server.pid]) > 1e6
