"""10,000 calls in flight at once with `bounded`: how the calls ended."""

from collections.abc import Iterator
from typing import Any

from kvstore.client import run_in_process, strategies, workload
from kvstore.measure import audit
from kvstore.server import serving

IN_FLIGHT = 10_000
# The disk is so slow that the limit is reached before the first replies.
STACKS: tuple[dict[str, Any], ...] = (
    {"use_asyncio": True, "read_delay_s": 4.0},
    {"threads": 128, "read_delay_s": 0.040},
)


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield one row for each server: calls sent, calls by status, memory per call in flight."""
    calls = 20_000 if quick else 100_000
    for stack in STACKS:
        with serving(locking="per_key", **stack) as server:
            run = run_in_process(
                strategies.bounded,
                server,
                workload.reads(value_bytes_mean=16, sizes="fixed"),
                in_flight=IN_FLIGHT,
                calls=calls,
                deadline_s=120,
            )
        checked = audit(run)
        samples = run.samples
        yield {
            "server": " ".join(f"{name}={value}" for name, value in stack.items()),
            "most in flight": int(samples["in_flight"].max()),
            "sent": checked.issued,
            "ended": checked.recorded,
            "how": " ".join(f"{status}={n}" for status, n in run.outcomes().items()),
            "unknown": checked.unknown,
            "calls/s": round(run.throughput_per_s),
            "client KiB/call": _growth_kib(samples["client_rss_bytes"]),
            "server KiB/call": _growth_kib(samples["server_rss_bytes"]),
            "audit": checked.holds,
        }


def _growth_kib(rss_bytes: Any) -> float:
    return round(float(rss_bytes.max() - rss_bytes.iloc[0]) / IN_FLIGHT / 1024, 1)
