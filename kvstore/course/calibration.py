"""How far a run on this machine may lie from a model: measured once, in lesson 00.

A model's value is built from parts: the delays that were set, the CPU time of a call, the mix of
calls that was sent. Each varies from run to run, and so the value has an interval.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from kvstore import numbers
from kvstore.course import mode, progress, questions, rendering
from kvstore.measure import Run, cores
from kvstore.model import Station, bounds

DISK_S: Final = 0.010
RUNS: Final = 5
RUN_S: Final = 1.5
WITHIN: Final = 2.132
"""90 % of Student's t with RUNS - 1 degrees of freedom are nearer to 0."""
DEVIATIONS: Final = 1.645
"""The same of a normal distribution."""
DELAYS_ERROR, CPU_ERROR = 0.03, 0.12
"""How far a model itself may be off, relative: where delays decide, and where CPU time does. What
a call costs changes with the number in flight; a delay that was set does not."""
WIDE: Final = 0.5
BUSY: Final = " That is wide: close other programs, and run this cell again."
USUAL_S: Final = (0.003, 0.0006)
"""Time of a call beyond its disk, and `pace_s`, before this machine was calibrated."""
SECONDS: Final = {"s": 1.0, "ms": 1e-3}
UNKNOWN: Final = {False: 0.10, True: 0.20}
"""The half width before this machine was calibrated: where CPU time decides, or not."""


@dataclass(frozen=True)
class Calibration(rendering.Shown):
    """What lesson 00 measured of this machine."""

    round_trip_s: float
    """The shortest call without a disk, in seconds."""
    beyond_disk_s: float
    """What a call takes beyond its disk of 10 ms, on average, when it is alone, in seconds."""
    pace_s: float
    """Seconds from call to call where nothing but the processor limits a client of futures and a
    server of threads, the programs of most lessons."""
    cores: int
    delays_spread: float
    """The half width of 90 % of the runs whose throughput delays decide, relative to their mean."""
    cpu_spread: float
    """The same where CPU time decides."""

    def __repr__(self) -> str:
        delays, cpu = (numbers.percent(self.half_width(cpu=cpu)) for cpu in (False, True))
        return (
            f"This machine: {self.cores} cores, {numbers.seconds(self.round_trip_s)} for the"
            f" shortest call, {1 / self.pace_s:,.0f} calls/s at most with futures and threads. A"
            f" model's value gets a band of ±{delays} where delays decide, and ±{cpu} where a"
            f" processor does."
        ) + (BUSY if self.half_width(cpu=True) > WIDE else "")

    def _forms(self) -> dict[str, Any]:
        return {"text/plain": repr(self), "text/html": f"<p>{rendering.escaped(repr(self))}</p>"}

    def half_width(self, *, cpu: bool, mix: float = 0.0) -> float:
        """Return the relative half width of a model's interval.

        `mix` is that of the mean work of a call, by the calls that were drawn.
        """
        errors = (CPU_ERROR, self.cpu_spread) if cpu else (DELAYS_ERROR, self.delays_spread)
        return math.hypot(*errors, mix)


def calibrate() -> Calibration:
    """Measure this machine in some 15 s, keep the result beside the progress, and show it."""
    from kvstore.client import load, strategies, workload  # they take long, and few cells measure
    from kvstore.course import live
    from kvstore.server import serving

    fast = {"locking": "per_key", "write_delay_s": 0.0}
    duration_s = mode.scaled(RUN_S)
    delayed, busy = [], []
    with (
        serving(**fast, use_asyncio=True, read_delay_s=DISK_S) as disk,
        serving(**fast, read_delay_s=0.0) as no_disk,
    ):
        alone = load.run(strategies.blocking, no_disk, workload.reads(), calls=200)
        for _ in live.each(range(RUNS), "calibration"):
            how: dict[str, Any] = {"duration_s": duration_s}
            delayed.append(load.run(strategies.blocking, disk, workload.reads(), **how))
            busy.append(
                load.run(strategies.bounded, no_disk, workload.reads(), in_flight=64, **how)
            )
    calibration = Calibration(
        round_trip_s=alone.latency_s(0.0),
        beyond_disk_s=float(np.median([1 / run.answered_per_s for run in delayed])) - DISK_S,
        pace_s=float(np.median([1 / run.answered_per_s for run in busy])),
        cores=cores(),
        delays_spread=spread([run.answered_per_s for run in delayed]),
        cpu_spread=spread([run.answered_per_s for run in busy]),
    )
    _path().write_text(json.dumps(asdict(calibration)), encoding="utf-8")
    calibration._show()
    return calibration


def known() -> Calibration | None:
    """Return what was measured of this machine; None before, or if its cores have changed."""
    try:
        kept = Calibration(**json.loads(_path().read_text("utf-8")))
    except (OSError, TypeError, ValueError):
        return None
    return kept if kept.cores == cores() else None


def interval(value: float, run: Run, *, cpu: bool, unit: str) -> tuple[float, float]:
    """Return the interval of a model's value, in its unit, that 90 % of the runs should hit.

    Where delays decide, the models leave out what a call takes beyond them, and the processor that
    all calls share. A rate may be as low as mean value analysis says for this processor and delays
    that are as much longer, at worst at the bottleneck; in a ratio, either rate may. A time of many
    disk times in a row may be longer at each. The last of N calls that were sent at once may have
    N - 1 others before it at the processor. A front with a back end takes both twice.
    """
    calibrated, mix = known(), _mix(run)
    if calibrated is None:
        half, processor = math.hypot(UNKNOWN[cpu], mix), UNKNOWN[True]
    else:
        half = calibrated.half_width(cpu=cpu, mix=mix)
        processor = calibrated.half_width(cpu=True)
    disk_s = _disk_s(run)
    half *= math.sqrt(2) if unit == "times" else 1
    low, high = value / (1 + half), value * (1 + half)
    beyond_s, pace_s = (calibrated.beyond_disk_s, calibrated.pace_s) if calibrated else USUAL_S
    settings = run.server.known_settings
    hops = 1 if settings is None or settings.back_end is None else 2
    beyond_s, pace_s, callers = hops * beyond_s, hops * pace_s * (1 + processor), _at_once(run)

    def at_least(per_s: float) -> float:
        longer = 1 + max(0.0, beyond_s - pace_s) / (disk_s or callers / per_s)
        delays = Station("delays", longer * callers / per_s, math.inf)
        return bounds.exact_closed_loop(callers, [delays, Station("processor", pace_s)]).value

    if unit in SECONDS:
        value_s = value * SECONDS[unit]
        longer_s = beyond_s * max(1.0, value_s / disk_s) if disk_s else beyond_s
        high += (longer_s + (callers - 1) * pace_s) / SECONDS[unit]
    elif unit in questions.RATES and not cpu:
        low = min(low, at_least(value) / (1 + half))
    elif unit == "times" and not cpu and (per_s := run.answered_per_s) > 0:
        low, high = low * at_least(per_s) / per_s, high * per_s / at_least(per_s)
    return low, high


def _at_once(run: Run) -> int:
    """Return the largest number of calls in flight; 1 in an open loop, which sends none at once."""
    if run.settings.get("rate_per_s"):
        return 1
    times_s = np.concatenate([run.calls["done_s"], run.calls["sent_s"]])  # an end comes first
    steps = np.repeat([-1, 1], len(run.calls))
    return max(1, int(np.cumsum(steps[np.argsort(times_s, kind="stable")]).max(initial=0)))


def _disk_s(run: Run) -> float:
    """Return the mean time of a call at the disk, 0 where it is not known."""
    disk_s = run.calls["disk_s"].dropna() if "disk_s" in run.calls else ()
    return float(np.mean(disk_s)) if len(disk_s) else 0.0


def _mix(run: Run) -> float:
    """Return the relative half width of a call's mean time at the disk, by the calls drawn."""
    mean_s = _disk_s(run)
    if not mean_s > 0:
        return 0.0
    disk_s = run.calls["disk_s"].dropna()
    return float(DEVIATIONS * disk_s.std(ddof=0) / mean_s / math.sqrt(len(disk_s)))


def spread(per_s: Sequence[float]) -> float:
    """Return the relative half width that a further of `RUNS` rates is within, by Student's t."""
    logs = np.log(per_s)
    further = math.sqrt(1 + 1 / len(logs))
    return float(WITHIN * logs.std(ddof=1) * further)


def _path() -> Any:
    return progress.path().with_name("calibration.json")
