"""CPU time and memory of recording a call, and of summarising a run of a million calls."""

import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

from kvstore.measure import Outcome, Run, audit, summary
from kvstore.measure.recorder import PACKED, Recorder, Sampler

A_MILLION = 1_000_000


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield rows: time and bytes of a record; seconds to summarise and audit a run."""
    calls = A_MILLION // 10 if quick else A_MILLION
    recorder = Recorder()
    yield {
        "what": "record a call",
        "figure": f"{1e6 * _cpu_s(recorder.record, calls):.2f} us",
        "wanted": "0.5 us",
    }
    tracemalloc.start()
    _cpu_s(Recorder().record, 1)
    kept = Recorder()
    before_bytes = tracemalloc.get_traced_memory()[0]
    _cpu_s(kept.record, calls)
    bytes_each = (tracemalloc.get_traced_memory()[0] - before_bytes) / calls
    tracemalloc.stop()
    yield {
        "what": f"keep a record of {PACKED.itemsize} bytes, with the spare room of the buffer",
        "figure": f"{bytes_each:.1f} bytes",
        "wanted": "64 bytes",
    }
    records = recorder.array()
    run = Run(
        strategy="made up", in_flight=10, settings={}, server={}, host={}, started_at="",
        window_s=float(records["done_s"].max()), issued=calls, outcome=Outcome.COMPLETE,
        records=records, sample_rows=Sampler(None).rows(),
    )  # fmt: skip
    work: Callable[[Run], object]
    for name, work in (("summarise", summary), ("audit", audit), ("make the table of", _table)):
        start_s = time.perf_counter()
        work(run)
        took_s = time.perf_counter() - start_s
        yield {
            "what": f"{name} {calls:,} calls",
            "figure": f"{took_s:.2f} s",
            "wanted": "1 s" if calls == A_MILLION else "",
        }


def _cpu_s(record: Callable[..., object], calls: int) -> float:
    """Return the CPU seconds for each call, including the loop around it."""
    start_s = time.thread_time()
    for number in range(calls):
        record(0.0, number * 1e-4, number * 1e-4 + 1e-3, 2, 0, 64, 64)
    return (time.thread_time() - start_s) / calls


def _table(run: Run) -> object:
    return run.calls
