"""The servers of the tests: ours on its two stacks, and one of any service."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from kvstore.server import Server, serving
from kvstore.v1 import kvstore_pb2_grpc

HANG_S = 15.0
"""What ought to happen at once gets this long on a busy machine."""

STACKS = {"threads": False, "asyncio": True}
"""Whether the server uses asyncio, by the word in the names of the tests."""

QUICK = {"read_delay_s": 0.001, "write_delay_s": 0.002, "locking": "per_key"}


@contextmanager
def serving_quickly(stack: str) -> Iterator[Server]:
    """Serve with short delays and station times; check that the server survived the block."""
    with serving(**QUICK, station_times=True, use_asyncio=STACKS[stack]) as server:
        yield server
        assert server.alive(), server.child.error_text()


@contextmanager
def calling(address: str) -> Iterator[Any]:
    """The stub of the key-value service at this address, once it is connected."""
    with grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result(HANG_S)
        yield kvstore_pb2_grpc.KeyValueServiceStub(channel)


@contextmanager
def listening(
    *services: Callable[[grpc.Server], Any], interceptors: Any = (), threads: int = 4
) -> Iterator[str]:
    """Serve in this process what these functions add to the server; yield its address."""
    server = grpc.server(ThreadPoolExecutor(threads), interceptors=interceptors)
    for add in services:
        add(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def impatient(monkeypatch):
    """A connection that cannot be made is given up soon."""
    for module in ("channel", "connections"):
        monkeypatch.setattr(f"kvstore.client.{module}.CONNECT_S", 1.0)
