"""The two stacks of the server, and a server with short delays on each of them."""

from collections.abc import Iterator
from contextlib import contextmanager

from kvstore.server import Server, serving

STACKS = {"threads": False, "asyncio": True}
"""Whether the server uses asyncio, by the word in the names of the tests."""

QUICK = {"read_delay_s": 0.001, "write_delay_s": 0.002, "locking": "per_key"}


@contextmanager
def serving_quickly(stack: str) -> Iterator[Server]:
    """Serve with short delays and station times; check that the server survived the block."""
    with serving(**QUICK, station_times=True, use_asyncio=STACKS[stack]) as server:
        yield server
        assert server.alive(), server.child.error_text()


def impatient(monkeypatch):
    """A connection that cannot be made is given up soon."""
    for module in ("channel", "connections"):
        monkeypatch.setattr(f"kvstore.client.{module}.CONNECT_S", 1.0)
