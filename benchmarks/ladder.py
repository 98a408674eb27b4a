"""From one blocking call at a time to batches on streams: every rung predicted before its run.

A prediction is built from parts: the disk times of the operations that the seed will draw, the
processor time of a call in a short calibration, the round trip of a bare loop, and for batches
a + b k through two sizes. A process has one core for what its event loop does; what gRPC's own
threads do beside the loop only the machine's cores limit. Each rung is taken in rounds, its parts
measured anew before each: a shared machine that slows down then slows both. The figure and its
table go to docs/ (with --quick to executed/).
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.batches import SIZES, SMALL, run_batches
from benchmarks.cost import between, cost_of
from benchmarks.ladder_page import Rung, write_page
from benchmarks.peers.bare import bare
from kvstore.client import run_in_process, strategies, workload
from kvstore.client.workload import Operations, Workload
from kvstore.codes import CREATE, RETRIEVE
from kvstore.measure import Run, describe_host
from kvstore.model import Prediction, Station, bounds, mva
from kvstore.server import serving

ROOT = Path(__file__).parent.parent
READ_S, WRITE_S = 0.010, 0.050
PRELOADED = {"global": 60, "per_key": 500}
"""Keys from the start: enough for the deletes, and few where one lock lets them in one by one."""
STREAMS = 64
"""On few, messages go to and fro in waves, and each loop waits for the other's."""
CALLERS, CALIBRATED_AT = 100, 16
MEAN_DISK_S = 0.040
"""What an operation of the mix needs in the long run."""
ENDS = {"OK", "NOT_FOUND", "ALREADY_EXISTS"}
"""How calls of the mix end: an update may overtake a delete, and keys of one byte are few."""


class Pace(NamedTuple):
    """How long each part of a rung takes."""

    rounds: int
    run_s: float
    calibration_s: float

    def __str__(self) -> str:
        return f"{self.rounds} rounds of {self.run_s:g} s for each step"


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """One row for each rung: predicted, measured, their ratio, what binds; then the page."""
    pace = Pace(1, 1.0, 0.5) if quick else Pace(5, 2.5, 1.0)
    folder = ROOT / ("executed" if quick else "docs")
    rungs = []
    for rung in itertools.chain(_with_disk(pace), _without_disk(pace)):
        rungs.append(rung)
        yield rung.row()
    folder.mkdir(exist_ok=True)
    for path in write_page(folder, rungs, describe_host(), str(pace)):
        print(f"  wrote {path.relative_to(ROOT)}", flush=True)


def _with_disk(pace: Pace) -> Iterator[Rung]:
    conditions = "10 ms reads, 50 ms writes, 64 KiB values"
    for name, locking, in_flight, strategy in (
        ("blocking, one lock", "global", 1, strategies.blocking),
        (f"{CALLERS} in flight, one lock", "global", CALLERS, strategies.bounded),
        (f"{CALLERS} in flight, a lock per key", "per_key", CALLERS, strategies.bounded),
        ("the same, answers send the next", "per_key", CALLERS, strategies.chained),
    ):
        serial, asked = locking == "global", workload.crud(preload=PRELOADED[locking])
        at_once = 1 if serial else in_flight
        disk_s = drawn_disk_s(asked, at_once * pace.run_s + in_flight * MEAN_DISK_S)
        disk = Station("lock and disk" if serial else "disk", disk_s, 1 if serial else math.inf)
        # The disk takes what it takes, so behind one lock the bound is reached. The processors'
        # work comes by chance: with many calls in flight some queue there, as MVA says.
        law = bounds.closed_loop if serial else mva.closed_loop
        way = partial(_way, strategies.bounded if in_flight == 1 else strategy, pace.calibration_s)
        run = partial(
            run_in_process, strategy, workload=asked, in_flight=in_flight, duration_s=pace.run_s
        )
        yield _rung(
            name,
            conditions,
            partial(_through, law, in_flight, disk, way),
            {"read_delay_s": READ_S, "write_delay_s": WRITE_S, "locking": locking},
            run,
            pace.rounds,
        )


def _through(
    law: Callable[[int, Sequence[Station]], Prediction],
    in_flight: int,
    disk: Station,
    way: Callable[[], list[Station]],
) -> Prediction:
    """What goes through the disk, and through a way that is measured now."""
    return law(in_flight, [disk, *way()])


def _way(strategy: strategies.Strategy, calibration_s: float) -> list[Station]:
    """What a call of this strategy meets beside the disk: both processors, and a way without."""
    large = workload.crud(preload=PRELOADED["per_key"])
    with serving(read_delay_s=0, write_delay_s=0, use_asyncio=True) as server:
        alone = run_in_process(strategies.blocking, server, large, duration_s=calibration_s)
        loaded = run_in_process(
            strategy, server, large, in_flight=CALIBRATED_AT, duration_s=calibration_s
        )
    cost = cost_of(loaded)
    # Both processors' work is a part of the round trip, and a station of its own.
    rest_s = max(0.0, alone.mean_residence_s - cost.client_serial_s - cost.server_serial_s)
    return [Station("rest of the round trip", rest_s, math.inf), *cost.stations()]


def _without_disk(pace: Pace) -> Iterator[Rung]:
    conditions = "no disk, 16-byte values"
    settings = {"read_delay_s": 0, "write_delay_s": 0, "locking": "per_key"}
    ask = partial(run_in_process, workload=SMALL)
    with serving(use_asyncio=True, **settings) as server:  # for the parts; runs have their own

        def trip() -> Prediction:
            alone = bare("sync", server, in_flight=1, seconds=pace.calibration_s)
            return Prediction(alone.per_s, "calls/s", "the round trip of a bare loop", "round trip")

        def price() -> Prediction:
            few = ask(
                strategies.tasks, server, in_flight=CALIBRATED_AT, duration_s=pace.calibration_s
            )
            return cost_of(few).most()

        def line(size: int) -> Prediction:
            ends = {
                k: cost_of(run_batches(server, STREAMS, k, pace.calibration_s))
                for k in (SIZES[0], SIZES[-1])
            }
            return between(ends, size).most()

        run = partial(ask, strategies.blocking, duration_s=pace.run_s)
        yield _rung("blocking", conditions, trip, settings, run, pace.rounds)
        run = partial(ask, strategies.tasks, in_flight=CALLERS, duration_s=pace.run_s)
        yield _rung(f"{CALLERS} tasks", conditions, price, settings, run, pace.rounds)
        for size in SIZES:
            run = partial(run_batches, streams=STREAMS, size=size, duration_s=pace.run_s)
            name = f"{STREAMS} streams" if size == 1 else f"{STREAMS} streams, batches of {size}"
            yield _rung(name, conditions, partial(line, size), settings, run, pace.rounds)


def _rung(
    name: str,
    conditions: str,
    parts: Callable[[], Prediction],
    settings: dict[str, Any],
    run: Callable[..., Run],
    rounds: int,
) -> Rung:
    """Measure the parts, say the prediction, make the run, and all again; the rung is their mean.

    Raises `RuntimeError` when a call was not OK.
    """
    said, done = [], []
    for number in range(1, rounds + 1):
        said.append(parts())
        print(f"  {name}, {number} of {rounds}: predicted {said[-1]}", flush=True)
        with serving(use_asyncio=True, **settings) as server:
            done.append(run(server=server))
        if set(done[-1].outcomes()) - ENDS:
            raise RuntimeError(f"{name}: every call should be answered, got {done[-1].outcomes()}")
    return Rung(
        name,
        conditions,
        fmean(each.value for each in said),
        fmean(each.throughput_per_s for each in done),
        Counter(each.binds for each in said).most_common(1)[0][0],
        fmean(each.client_cpu.serial_s / each.window_s for each in done),
        fmean(each.server_cpu.serial_s / each.window_s for each in done),
        fmean(each.stolen_cores for each in done),
    )


def drawn_disk_s(asked: Workload, busy_s: float) -> float:
    """Mean disk seconds of the operations that the seed draws, until they add up to `busy_s`.

    With keys from the start no kind depends on an answer: what will be asked is known.
    """
    operations = Operations(asked)
    for operation in operations.preloads():
        operations.created(operation.key)
    drawn, total_s = 0, 0.0
    while total_s < busy_s:
        operation = operations.draw()
        if operation.kind == CREATE:
            operations.created(operation.key)
        drawn += 1
        total_s += READ_S if operation.kind == RETRIEVE else WRITE_S
    return total_s / drawn
