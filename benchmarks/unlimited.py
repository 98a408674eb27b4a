"""A client without a concurrency limit under a memory ceiling of 512 MB: forecast and fact."""

from collections.abc import Iterator
from typing import Any

import psutil

from kvstore.course import memory_experiment
from kvstore.measure import audit


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield one row for each run: outcome, overshoot, forecast / fact, processes left running."""
    for number in range(1, 3 if quick else 21):
        done = memory_experiment.unlimited(200e6 if quick else 512e6)
        checked = audit(done.run)
        left = psutil.Process().children(recursive=True)
        yield {
            "time": number,
            "ended by": done.outcome,
            "MB": f"{memory_experiment.most_bytes(done.run) / 1e6:.0f}",
            "overshoot %": round(100 * done.overshoot, 1),
            "forecast s": round(done.forecast_s, 2),
            "fact s": round(done.fact_s, 2),
            "forecast over fact": round(done.forecast_s / done.fact_s, 2),
            "calls": checked.recorded,
            "audit": checked.holds,
            "left running": len(left),
        }
