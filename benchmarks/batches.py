"""Batches on streams without a disk: throughput, CPU time, and the curve X = k / (a + b k).

Keys have 8 bytes and values 16. Half of the operations are reads, whose values are compared with
the written values, and half are updates. The curve is fitted to the smallest and the largest batch.
Rounds are interleaved with those of a pipeline over Go's net/rpc if `go` is installed, and medians
are compared with Go's median.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.cost import cost_of
from benchmarks.peers.go_pipeline import Calls, go_pipeline
from kvstore.client import run_in_process, strategies, workload
from kvstore.measure import Run
from kvstore.model import batching
from kvstore.server import Server, serving

SIZES = (1, 8, 32, 128, 512)
STREAMS = (1, 8)
SMALL = workload.Workload(
    mix={"retrieve": 1, "update": 1}, preload=1_000,
    key_bytes_mean=8, value_bytes_mean=16, sizes="fixed",
)  # fmt: skip
OPERATIONS_IN_FLIGHT = 8 * 1024
"""The maximum number of operations in flight, unless `REQUESTS_IN_FLIGHT` requests have more."""
REQUESTS_IN_FLIGHT = 16
MOST_REQUESTS_IN_FLIGHT = 128
GO_WINDOW = 128

Runs = dict[tuple[int, int], list[Run]]


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield one row for each number of streams and batch size, and one for Go's pipeline."""
    rounds, duration_s = (1, 0.5) if quick else (5, 2.0)
    runs: Runs = {(streams, size): [] for streams in STREAMS for size in SIZES}
    peer: list[Calls] = []
    with (
        serving(read_delay_s=0, write_delay_s=0, locking="per_key", use_asyncio=True) as server,
        go_pipeline() as go,
    ):
        for _ in range(rounds):
            for (streams, size), found in runs.items():
                found.append(run_batches(server, streams, size, duration_s))
            if go is not None:
                peer.append(go.calls(GO_WINDOW, duration_s))
    yield from _rows(runs, peer)


def run_batches(server: Server, streams: int, size: int, duration_s: float) -> Run:
    """Make one run with batches of this size. Raises `RuntimeError` if an operation was not OK."""
    fewest = max(REQUESTS_IN_FLIGHT, streams)
    in_flight = min(MOST_REQUESTS_IN_FLIGHT, max(fewest, OPERATIONS_IN_FLIGHT // size))
    run = run_in_process(
        strategies.pipelined, server, SMALL,
        in_flight=in_flight, duration_s=duration_s, batch=size, streams=streams,
    )  # fmt: skip
    if set(run.outcomes()) != {"OK"}:  # a wrong value would have ended the run
        raise RuntimeError(f"every operation should be answered OK, got {run.outcomes()}")
    return run


def _rows(runs: Runs, peer: list[Calls]) -> Iterator[dict[str, Any]]:
    go_per_s = float(np.median([calls.per_s for calls in peer])) if peer else float("nan")
    for streams in STREAMS:
        per_s = {size: [run.throughput_per_s for run in runs[streams, size]] for size in SIZES}
        median = {size: float(np.median(rates)) for size, rates in per_s.items()}
        # Fitted to two sizes only, so that the three others can contradict the curve.
        a_s, b_s = batching.fit({size: size / median[size] for size in (SIZES[0], SIZES[-1])})
        for size, rates in per_s.items():
            predicted = batching.throughput(
                size, per_message_s=max(a_s, 0), per_operation_s=max(b_s, 0)
            )
            yield {
                "client": "pipelined",
                "streams": streams,
                "batch": size,
                "operations/s": f"{median[size]:,.0f}",
                "spread": f"{min(rates):,.0f} to {max(rates):,.0f}",
                "a + b k, us": f"{1e6 * a_s:.1f} + {1e6 * b_s:.3f} k",
                "over curve": round(predicted.ratio_of(median[size]), 2),
                "CPU us client/server": str(cost_of(*runs[streams, size])),
                "over Go": round(median[size] / go_per_s, 2),
            }
    if peer:
        yield {
            "client": f"Go net/rpc, window {GO_WINDOW}",
            "streams": 1,
            "batch": 1,
            "operations/s": f"{go_per_s:,.0f}",
            "spread": f"{min(peer).per_s:,.0f} to {max(peer).per_s:,.0f}",
            "a + b k, us": "",
            "over curve": "",
            "CPU us client/server": " / ".join(
                f"{1e6 * np.median(side):.2f}" for side in list(zip(*peer, strict=True))[1:]
            ),
            "over Go": 1.0,
        }
