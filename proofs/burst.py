"""10,000 calls in flight at once: every call has an end, and the accounts are exact."""

from collections.abc import Iterator

from benchmarks import burst
from kvstore.client import load, strategies, workload
from kvstore.measure import audit
from kvstore.server import serving
from proofs.case import Case, Figure

TIMES = 50
"""Bursts on each stack in the long form."""
SHORT_IN_FLIGHT = 3_000
SHORT_CALLS = 6_000


def prove(short: bool) -> Iterator[Case | Figure]:
    """Yield one case for each burst."""
    calls = 0
    if short:
        reads = workload.reads(value_bytes_mean=16, sizes="fixed")
        with serving(use_asyncio=True, read_delay_s=1.0, locking="per_key") as server:
            run = load.run(
                strategies.bounded, server, reads,
                in_flight=SHORT_IN_FLIGHT, calls=SHORT_CALLS, deadline_s=60,
            )  # fmt: skip
        counted = sum(run.server["operations"].values()) if run.server["operations"] else 0
        calls = run.issued
        holds = audit(run).holds and counted == calls and run.outcomes() == {"OK": calls}
        wrong = "" if holds else f"{audit(run)!r}; {run.outcomes()}; the server: {counted}"
        yield Case("a burst", wrong)
    for number in range(0 if short else TIMES):
        for row in burst.measure(quick=True):
            calls += row["ended"]
            wrong = "" if row["audit"] and row["sent"] == row["ended"] else str(row)
            yield Case(f"burst {number}, {row['server']}", wrong)
    yield Figure("calls", calls)
