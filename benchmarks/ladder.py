"""From one blocking call at a time to batches on streams: each step predicted before its run.

A prediction is computed from parts: the disk times of the operations that the seed will draw, the
CPU time of a call in a short calibration run, the round trip of a bare loop, and for batches
a + b k fitted to two sizes. A process has one core for its event loop; gRPC's own threads beside
the loop are limited by the cores of the machine. Each step has several rounds, and its parts are
measured before each round, so that a machine that slows down affects both. The figure and its
table are written to docs/ (with --quick to executed/).
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from tqdm import tqdm

from benchmarks import bare
from benchmarks.cost import NAMES, between, cost_of
from benchmarks.ladder_page import Rung, write_page
from kvstore.client import run_in_process, strategies, workload
from kvstore.client.workload import Operations, Workload
from kvstore.course import calibration
from kvstore.measure import Run, describe_host
from kvstore.model import Prediction, Station, bounds
from kvstore.protocol import CREATE, RETRIEVE
from kvstore.server import Server, serving

ROOT = Path(__file__).parent.parent
READ_S, WRITE_S = 0.010, 0.050
PRELOADED = {"global": 60, "per_key": 500}
"""Preloaded keys: enough for the deletes; few with one lock, which serialises the preload."""
SMALL = Workload(
    mix={"retrieve": 1, "update": 1},
    preload=1_000,
    key_bytes_mean=8,
    value_bytes_mean=16,
    sizes="fixed",
)
SIZES = (1, 8, 32, 128, 512)
"""Operations in a message."""
STREAMS = 64
"""With few streams, client and server work in turn and wait for each other."""
OPERATIONS_IN_FLIGHT, MOST_REQUESTS_IN_FLIGHT = 8 * 1024, 128
CALLERS, CALIBRATED_AT = 100, 16
MEAN_DISK_S = 0.040
"""Mean disk time of an operation of the mix in a long run, in seconds."""
ENDS = {"OK", "NOT_FOUND", "ALREADY_EXISTS"}
"""Statuses of the mix: a delete may be processed before an update, and few one-byte keys exist."""


class Pace(NamedTuple):
    """The number of rounds and the durations of a step."""

    rounds: int
    run_s: float
    calibration_s: float

    def __str__(self) -> str:
        return f"{self.rounds} rounds of {self.run_s:g} s for each step"


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield one row for each step: predicted, measured, their ratio, bottleneck. Write the page."""
    pace = Pace(1, 1.0, 0.5) if quick else Pace(5, 2.5, 1.0)
    folder = ROOT / ("executed" if quick else "docs")
    steps = []
    for rung in rungs(pace):
        steps.append(rung)
        yield rung.row
    folder.mkdir(exist_ok=True)
    for path in write_page(folder, steps, describe_host(), str(pace)):
        tqdm.write(f"  wrote {path.relative_to(ROOT)}")


def rungs(pace: Pace) -> Iterator[Rung]:
    """Yield each step, predicted and measured."""
    return itertools.chain(_with_disk(pace), _without_disk(pace))


def _with_disk(pace: Pace) -> Iterator[Rung]:
    conditions = "10 ms reads, 50 ms writes, 64 KiB values"
    for name, locking, in_flight, strategy in (
        ("blocking, one lock", "global", 1, strategies.blocking),
        (f"{CALLERS} in flight, one lock", "global", CALLERS, strategies.bounded),
        (f"{CALLERS} in flight, a lock per key", "per_key", CALLERS, strategies.bounded),
        (f"{CALLERS} in flight, chained", "per_key", CALLERS, strategies.chained),
    ):
        serial, mix = locking == "global", workload.crud(preload=PRELOADED[locking])
        at_once = 1 if serial else in_flight
        disk_s = drawn_disk_s(mix, at_once * pace.run_s + in_flight * MEAN_DISK_S)
        disk = Station("lock and disk" if serial else "disk", disk_s, 1 if serial else math.inf)
        # Disk times are constant, so with one lock throughput reaches the bound. CPU times vary:
        # with many calls in flight some queue for a CPU, as MVA predicts.
        law = bounds.closed_loop if serial else bounds.exact_closed_loop
        others = partial(
            _other_stations, strategies.bounded if in_flight == 1 else strategy, pace.calibration_s
        )
        run = partial(
            run_in_process, strategy, workload=mix, in_flight=in_flight, duration_s=pace.run_s
        )
        yield _rung(
            name,
            conditions,
            partial(_predicted, law, in_flight, disk, others),
            {"read_delay_s": READ_S, "write_delay_s": WRITE_S, "locking": locking},
            run,
            pace.rounds,
        )


def _predicted(
    law: Callable[[int, Sequence[Station]], Prediction],
    in_flight: int,
    disk: Station,
    other_stations: Callable[[], list[Station]],
) -> Prediction:
    """Return the prediction of `law` for the disk and the other stations, measured now."""
    return law(in_flight, [disk, *other_stations()])


def _other_stations(strategy: strategies.Strategy, calibration_s: float) -> list[Station]:
    """Return the stations of a call besides the disk: both CPUs and the rest of the round trip."""
    large = workload.crud(preload=PRELOADED["per_key"])
    with serving(read_delay_s=0, write_delay_s=0, use_asyncio=True) as server:
        alone = run_in_process(strategies.blocking, server, large, duration_s=calibration_s)
        loaded = run_in_process(
            strategy, server, large, in_flight=CALIBRATED_AT, duration_s=calibration_s
        )
    cost = cost_of(loaded)
    # The CPU time of client and server is part of the round trip; each is its own station.
    rest_s = max(0.0, alone.mean_residence_s - cost.client_serial_s - cost.server_serial_s)
    return [Station("rest of the round trip", rest_s, math.inf), *cost.stations()]


def _without_disk(pace: Pace) -> Iterator[Rung]:
    conditions = "no disk, 16-byte values"
    settings = {"read_delay_s": 0, "write_delay_s": 0, "locking": "per_key"}
    run_small = partial(run_in_process, workload=SMALL)
    with serving(
        use_asyncio=True, **settings
    ) as server:  # for the parts; runs have their own servers

        def trip() -> Prediction:
            blocking = bare.Shape(strategies.blocking)
            per_s = bare.run(blocking, server.address, pace.calibration_s).per_s
            return Prediction(per_s, "calls/s", "the round trip of a bare loop", "round trip")

        def cpu_bound() -> Prediction:
            few = run_small(
                strategies.tasks, server, in_flight=CALIBRATED_AT, duration_s=pace.calibration_s
            )
            return cost_of(few).most()

        def line(size: int) -> Prediction:
            ends = {
                k: cost_of(run_batches(server, k, pace.calibration_s))
                for k in (SIZES[0], SIZES[-1])
            }
            return between(ends, size).most()

        run = partial(run_small, strategies.blocking, duration_s=pace.run_s)
        yield _rung("blocking", conditions, trip, settings, run, pace.rounds)
        run = partial(run_small, strategies.tasks, in_flight=CALLERS, duration_s=pace.run_s)
        yield _rung(f"{CALLERS} tasks", conditions, cpu_bound, settings, run, pace.rounds)
        for size in SIZES:
            run = partial(run_batches, size=size, duration_s=pace.run_s)
            name = f"{STREAMS} streams" if size == 1 else f"{STREAMS} streams, batches of {size}"
            yield _rung(name, conditions, partial(line, size), settings, run, pace.rounds)


def run_batches(server: Server, size: int, duration_s: float) -> Run:
    """Make one run with batches of this size. Raises `RuntimeError` if an operation was not OK."""
    in_flight = min(MOST_REQUESTS_IN_FLIGHT, max(STREAMS, OPERATIONS_IN_FLIGHT // size))
    run = run_in_process(
        strategies.pipelined,
        server,
        SMALL,
        in_flight=in_flight,
        duration_s=duration_s,
        batch=size,
        streams=STREAMS,
    )
    if set(run.outcomes()) != {"OK"}:  # a wrong value would have ended the run
        raise RuntimeError(f"every operation should be answered OK, got {run.outcomes()}")
    return run


def _rung(
    name: str,
    conditions: str,
    parts: Callable[[], Prediction],
    settings: dict[str, Any],
    run: Callable[..., Run],
    rounds: int,
) -> Rung:
    """Return the mean of several rounds: measure the parts, predict, make the run.

    Raises `RuntimeError` if a call ended with a status that is not in `ENDS`.
    """
    predictions: list[Prediction] = []
    runs: list[Run] = []
    progress = tqdm(range(rounds), desc=name, unit="round", leave=False)
    for _ in progress:
        predictions.append(parts())
        progress.set_postfix_str(f"predicted {predictions[-1]}")
        with serving(use_asyncio=True, **settings) as server:
            runs.append(run(server=server))
        if set(runs[-1].outcomes()) - ENDS:
            raise RuntimeError(f"{name}: every call should be answered, got {runs[-1].outcomes()}")
    values = [each.value for each in predictions]
    binds = Counter(each.binds for each in predictions).most_common(1)[0][0]
    return Rung(
        name,
        conditions,
        fmean(values),
        fmean(each.throughput_per_s for each in runs),
        binds,
        fmean(each.client_cpu.serial_s / each.window_s for each in runs),
        fmean(each.server_cpu.serial_s / each.window_s for each in runs),
        fmean(each.stolen_cores for each in runs),
        _interval(values, cpu=binds in NAMES.values()) if len(values) > 1 else None,
    )


def _interval(predictions: Sequence[float], *, cpu: bool) -> tuple[float, float]:
    """Return the interval of their mean that 90 % of the runs are meant to hit.

    How far the rounds differ says how well the parts are known, and the model may be off as well.
    """
    middle = fmean(predictions)
    known = calibration.spread(predictions)
    half = math.hypot(calibration.CPU_ERROR if cpu else calibration.DELAYS_ERROR, known)
    return middle / (1 + half), middle * (1 + half)


def drawn_disk_s(mix: Workload, busy_s: float) -> float:
    """Return the mean disk time in seconds of the operations that the seed draws.

    Operations are drawn until their disk times add up to `busy_s`. With preloaded keys no kind
    depends on a reply, so the operations of the run are known before it.
    """
    operations = Operations(mix)
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
