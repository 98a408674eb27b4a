"""The servers of the tests: ours on its two stacks, and one of any service."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import grpc

from kvstore.client.channel import connected, target_of
from kvstore.server import Server, serving
from kvstore.v1 import kvstore_pb2_grpc
from kvstore.v1.kvstore_pb2 import CreateRequest, RetrieveRequest

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
    *services: Callable[[grpc.Server], Any],
    interceptors: Any = (),
    options: Sequence[tuple[str, int]] = (),
    threads: int = 16,
) -> Iterator[str]:
    """Serve in this process what these functions add to the server; yield its address."""
    server = grpc.server(ThreadPoolExecutor(threads), interceptors=interceptors, options=options)
    for add in services:
        add(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def reads_per_s(
    servers: Sequence[Server], *channels: grpc.Channel, duration_s: float, in_flight: int = 8
) -> list[float]:
    """Read one key over the channels in turn; return the reads per second of each server."""
    for server in servers:
        with calling(server.address) as stub, suppress(grpc.RpcError):  # it may be there already
            stub.Create(CreateRequest(key=b"on every server"))
    request = RetrieveRequest(key=b"on every server")
    methods = [kvstore_pb2_grpc.KeyValueServiceStub(channel).Retrieve for channel in channels]
    for retrieve in methods * 4 * len(servers):  # connections are made one after the other
        retrieve(request, timeout=HANG_S, wait_for_ready=True)
        time.sleep(0.01)
    before, began_s = _reads(servers), time.perf_counter()

    def read(retrieve: Callable[..., Any]) -> None:
        while time.perf_counter() < began_s + duration_s:
            retrieve(request, timeout=HANG_S)

    with ThreadPoolExecutor(in_flight) as pool:
        list(pool.map(read, itertools.islice(itertools.cycle(methods), in_flight)))
    took_s = time.perf_counter() - began_s
    return [(now - then) / took_s for now, then in zip(_reads(servers), before, strict=True)]


def _reads(servers: Sequence[Server]) -> list[int]:
    """The reads that each server has counted."""
    counts = []
    for server in servers:
        with connected(target_of(server)) as (_, status):
            counts.append(status.operations.get("retrieve/OK", 0))
    return counts


def midway(what: Callable[..., object], *arguments: object) -> Callable[[Any], None]:
    """Return what takes samples until some calls were answered; a moment later it does this."""
    happens = threading.Timer(0.03, what, arguments)

    def on_sample(sample: Any) -> None:
        if sample.answered >= 5 and happens.ident is None:
            happens.start()

    return on_sample


def impatient(monkeypatch):
    """A connection that cannot be made is given up soon."""
    for module in ("channel", "connections"):
        monkeypatch.setattr(f"kvstore.client.{module}.CONNECT_S", 1.0)
