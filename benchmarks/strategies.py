"""Every strategy on both servers without a disk: rates as ratios to a bare loop over the stub.

Rounds are interleaved, so that a machine that slows down slows all of them; the median
of each is set against the bare loop's, with the spread of the rounds.
"""

import time
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np

from kvstore.client import run_in_process, strategies, workload
from kvstore.measure import Run
from kvstore.server import Server, serving
from kvstore.v1 import kvstore_pb2, kvstore_pb2_grpc

SMALL: dict[str, Any] = {"key_bytes_mean": 8, "value_bytes_mean": 16, "sizes": "fixed"}
IN_FLIGHT = 100


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """One row for each server and strategy: median rate, spread, ratio, CPU on each side."""
    rounds, duration_s = (1, 0.5) if quick else (5, 2.0)
    for name, stack in (("asyncio", {"use_asyncio": True}), ("threads", {"threads": 16})):
        with serving(read_delay_s=0, write_delay_s=0, locking="per_key", **stack) as server:
            rates: dict[str, list[float]] = {}
            last: dict[str, Run] = {}
            for _ in range(rounds):
                rates.setdefault("bare loop", []).append(_bare_loop(server, duration_s))
                for label, run in _runs(server, duration_s):
                    rates.setdefault(label, []).append(run.throughput_per_s)
                    last[label] = run
            bare = float(np.median(rates["bare loop"]))
            for label, found in rates.items():
                yield _row(name, label, found, bare, last.get(label))


def _runs(server: Server, duration_s: float) -> Iterator[tuple[str, Run]]:
    asked = workload.reads(**SMALL)
    for strategy in strategies.STRATEGIES:
        in_flight = 1 if strategy is strategies.blocking else IN_FLIGHT
        # Without a limit `futures` would measure its own backlog: a count keeps it short.
        limit = {"calls": 5_000} if strategy is strategies.futures else {"duration_s": duration_s}
        run = run_in_process(strategy, server, asked, in_flight=in_flight, **limit)
        yield f"{strategy.__name__} x{run.in_flight}", run
    eight = run_in_process(
        strategies.pipelined, server, asked, in_flight=IN_FLIGHT, duration_s=duration_s, streams=8
    )
    yield f"pipelined x{IN_FLIGHT} on 8 streams", eight


def _bare_loop(server: Server, duration_s: float) -> float:
    """Calls per second of the shortest loop that grpcio allows, with nothing measured."""
    with grpc.insecure_channel(server.address) as channel:
        retrieve = kvstore_pb2_grpc.KeyValueServiceStub(channel).Retrieve
        create = kvstore_pb2_grpc.KeyValueServiceStub(channel).Create
        request = kvstore_pb2.RetrieveRequest(key=b"bare key")
        try:
            create(kvstore_pb2.CreateRequest(key=b"bare key", value=bytes(16)))
        except grpc.RpcError:
            pass  # a second round finds it there
        calls = 0
        start_s = time.perf_counter()
        while time.perf_counter() - start_s < duration_s:
            retrieve(request, timeout=30.0)
            calls += 1
        return calls / (time.perf_counter() - start_s)


def _row(
    server: str, label: str, rates: list[float], bare: float, run: Run | None
) -> dict[str, Any]:
    median = float(np.median(rates))
    cpu = ""
    if run is not None:
        calls = len(run.records)
        cpu = (
            f"{1e6 * run.client_cpu.total_s / calls:.0f}"
            f" / {1e6 * run.server_cpu.total_s / calls:.0f}"
        )
    return {
        "server": server,
        "client": label,
        "calls/s": round(median),
        "spread": f"{min(rates):,.0f} to {max(rates):,.0f}",
        "over bare loop": round(median / bare, 2),
        "CPU us client/server": cpu,
    }
