"""Throughput of an echo server by the size of gRPC's read buffer: grpcxx's 1 KiB, repeated."""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc

SIZES: Final = (1024, 64 * 1024)
"""Bytes: the buffer after and before the change in the log of grpcxx."""
IN_FLIGHT: Final = 50
"""Calls in flight."""


def options(read_bytes: int) -> list[tuple[str, int]]:
    """Return the server's options for reads of so many bytes from a connection."""
    return [
        ("grpc.experimental.tcp_read_chunk_size", read_bytes),
        ("grpc.experimental.tcp_min_read_chunk_size", read_bytes),
        ("grpc.experimental.tcp_max_read_chunk_size", read_bytes),
    ]


class _Echo(grpc.GenericRpcHandler):  # type: ignore[misc]
    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)


def echo_rate(read_bytes: int, duration_s: float) -> float:
    """Return calls/s of small calls to an echo server in this process, over one connection."""
    server = grpc.server(ThreadPoolExecutor(2), handlers=[_Echo()], options=options(read_bytes))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    own = [("grpc.use_local_subchannel_pool", 1)]
    free, calls = threading.Semaphore(IN_FLIGHT), 0
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=own) as channel:
            echo = channel.unary_unary("/echo/Echo")
            echo(b"connects", timeout=5.0, wait_for_ready=True)
            began_s = time.perf_counter()
            while time.perf_counter() < began_s + duration_s:
                free.acquire()
                echo.future(b"0123456789", timeout=5.0).add_done_callback(lambda _: free.release())
                calls += 1
            for _ in range(IN_FLIGHT):
                free.acquire()
            return calls / (time.perf_counter() - began_s)
    finally:
        server.stop(0).wait()


def best_rates(duration_s: float, rounds: int = 3) -> dict[int, float]:
    """Return the highest rate for each size, from rounds that alternate between the sizes."""
    rates: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(rounds):
        for size, found in rates.items():
            found.append(echo_rate(size, duration_s))
    return {size: max(found) for size, found in rates.items()}


def are_alike(rates: Mapping[int, float] | Sequence[float]) -> bool:
    """Whether the highest and the lowest rate differ by less than 1.5 times."""
    values = list(rates.values()) if isinstance(rates, Mapping) else list(rates)
    return max(values) < 1.5 * min(values)
