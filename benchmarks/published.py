"""The published runs of the Java store: measured throughput over the throughput predicted.

The prediction uses the mix that was sent. Client and server run in their own processes.
"""

from collections.abc import Iterator
from typing import Any

from kvstore.client import run_in_process, strategies, workload
from kvstore.client.strategies import Strategy
from kvstore.measure import Run, audit
from kvstore.measure.cpu_cost import price_s
from kvstore.model import Station, bounds, service_time_s
from kvstore.server import serving

DISK = {"read_delay_s": 0.010, "write_delay_s": 0.050}
EVENT_LOOP = {"locking": "per_key", "use_asyncio": True}
SETUPS: tuple[tuple[Strategy, int, int, dict[str, Any]], ...] = (
    (strategies.blocking, 1, 0, {"locking": "global"}),
    (strategies.bounded, 100, 0, {"locking": "global"}),
    (strategies.bounded, 100, 0, EVENT_LOOP),
    (strategies.chained, 100, 0, EVENT_LOOP),
    (strategies.bounded, 100, 0, {"locking": "per_key", "threads": 128}),
    (strategies.pipelined, 100, 1, EVENT_LOOP),
    (strategies.pipelined, 100, 8, EVENT_LOOP),
)
"""Strategy, calls in flight, streams (0 for unary calls), and the settings of the server."""


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield one row for each published step: predicted, measured, their ratio, the bottleneck."""
    duration_s = 5.0 if quick else 60.0
    for strategy, in_flight, streams, settings in SETUPS:
        how: dict[str, Any] = {"in_flight": in_flight, "duration_s": duration_s}
        how |= {"streams": streams} if streams else {}
        with serving(**DISK, **settings) as server:
            run = run_in_process(strategy, server, workload.crud(), **how)
        yield _row(run, in_flight, settings)


def _row(run: Run, in_flight: int, settings: dict[str, Any]) -> dict[str, Any]:
    disk_s = service_time_s(run.mix(), **DISK)
    serial = settings["locking"] == "global"
    station = Station("global lock" if serial else "disk", disk_s, 1 if serial else in_flight)
    predicted = bounds.closed_loop(in_flight, [station])
    cpu = price_s(run)
    return {
        "strategy": f"{run.strategy} x{in_flight}",
        "streams": run.settings.get("streams", ""),
        "server": " ".join(f"{name}={value}" for name, value in settings.items()),
        "seconds": round(run.window_s, 1),
        "predicted/s": round(predicted.value, 2),
        "measured/s": round(float(run.answered_per_s), 2),
        "ratio": round(float(predicted.ratio_of(run.answered_per_s)), 3),
        "binds": predicted.binds,
        "CPU us client/server": f"{1e6 * cpu.client_s:.0f} / {1e6 * cpu.server_s:.0f}",
        "cores stolen": round(run.stolen_cores, 2),
        "audit": audit(run).holds,
    }
