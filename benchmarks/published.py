"""The published runs of the Java store: measured rate over the rate predicted from the mix sent.

The client runs in a process of its own, as the server does.
"""

from collections.abc import Iterator
from typing import Any

from kvstore.client import run_in_process, strategies, workload
from kvstore.client.strategies import Strategy
from kvstore.measure import Run, audit
from kvstore.measure.price import price_s
from kvstore.model import Station, bounds, service_time_s
from kvstore.server import serving

DISK = {"read_delay_s": 0.010, "write_delay_s": 0.050}
SETUPS: tuple[tuple[Strategy, int, dict[str, Any]], ...] = (
    (strategies.blocking, 1, {"locking": "global"}),
    (strategies.bounded, 100, {"locking": "global"}),
    (strategies.bounded, 100, {"locking": "per_key", "use_asyncio": True}),
    (strategies.chained, 100, {"locking": "per_key", "use_asyncio": True}),
    (strategies.bounded, 100, {"locking": "per_key", "threads": 128}),
    (strategies.pipelined, 100, {"locking": "per_key", "use_asyncio": True}),
)


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """One row for each published step: predicted, measured, their ratio, who binds."""
    duration_s = 5.0 if quick else 60.0
    for strategy, in_flight, settings in SETUPS:
        with serving(**DISK, **settings) as server:
            run = run_in_process(
                strategy, server, workload.crud(), in_flight=in_flight, duration_s=duration_s
            )
        yield _row(run, in_flight, settings)


def _row(run: Run, in_flight: int, settings: dict[str, Any]) -> dict[str, Any]:
    disk_s = service_time_s(run.mix(), **DISK)
    serial = settings["locking"] == "global"
    station = Station("global lock" if serial else "disk", disk_s, 1 if serial else in_flight)
    predicted = bounds.closed_loop(in_flight, [station])
    cpu = price_s(run)
    return {
        "strategy": f"{run.strategy} x{in_flight}",
        "server": " ".join(f"{name}={value}" for name, value in settings.items()),
        "seconds": round(run.window_s, 1),
        "predicted/s": round(predicted.value, 2),
        "measured/s": round(run.answered_per_s, 2),
        "ratio": round(predicted.ratio_of(run.answered_per_s), 3),
        "binds": predicted.binds,
        "CPU us client/server": f"{1e6 * cpu.client_s:.0f} / {1e6 * cpu.server_s:.0f}",
        "audit": audit(run).holds,
    }
