"""What it costs to record a call, and to summarise a run of a million of them."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from kvstore.measure import Run, audit, summary
from kvstore.measure.recorder import CALL, Recorder
from kvstore.measure.sampler import Sampler


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Rows: seconds and bytes to record a call; seconds to summarise and audit the run."""
    calls = 100_000 if quick else 1_000_000
    recorder = Recorder()
    record = recorder.record
    start_s = time.perf_counter()
    for number in range(calls):
        record(0.0, number * 1e-4, number * 1e-4 + 1e-3, 2, 0, 64, 64)
    each_s = (time.perf_counter() - start_s) / calls
    yield {"what": "record a call", "figure": f"{1e6 * each_s:.2f} us, {CALL.itemsize} bytes"}
    records = recorder.array()
    run = Run(
        strategy="made up", in_flight=10, settings={}, server={}, host={}, started_at="",
        window_s=float(records["done_s"].max()), issued=calls, outcome="complete",
        records=records, samples=Sampler(None).frame(),
    )  # fmt: skip
    work: Callable[[Run], object]
    for name, work in (("summarise", summary), ("audit", audit), ("make the table of", _table)):
        start_s = time.perf_counter()
        work(run)
        took_s = time.perf_counter() - start_s
        yield {"what": f"{name} {calls:,} calls", "figure": f"{took_s:.2f} s"}


def _table(run: Run) -> object:
    return run.calls
