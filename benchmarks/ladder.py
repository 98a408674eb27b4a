"""From one blocking call at a time to batches on streams: each step predicted before its run.

A prediction is computed from parts: the disk times of the operations that the seed will draw, the
CPU time of a call in a short calibration run, the round trip of a bare loop, and for batches
a + b k fitted to two sizes. A process has one core for its event loop; gRPC's own threads beside
the loop are limited by the cores of the machine. Each step has several rounds, and its parts are
measured before each round, so that a machine that slows down affects both. The figure and its
table are written to docs/ (with --quick to executed/).
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, Final, NamedTuple, cast

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from tqdm import tqdm

from benchmarks import bare, harness
from benchmarks.harness import four_digits
from kvstore.client import run_in_process, strategies, workload
from kvstore.client.workload import Operations, Workload
from kvstore.course import calibration
from kvstore.course.rendering import TIMES
from kvstore.course.views import style
from kvstore.measure import Run, cores, describe_host
from kvstore.measure.validity import STOLEN
from kvstore.model import Prediction, Station, batching, bounds
from kvstore.protocol import CREATE, RETRIEVE
from kvstore.server import Server, serving

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
CPUS: Final = ("client CPU", "server CPU", "all cores")
"""The bottlenecks that are a processor."""
A_CORE: Final = 0.8
"""A process that is the bottleneck and uses less of a core than this did not get the core."""
SAME_BYTES: Final = {"svg.hashsalt": "course", "svg.fonttype": "path"}
"""Settings of matplotlib: identifiers that are not random, and text as paths without a font."""


class Pace(NamedTuple):
    """The number of rounds and the durations of a step."""

    rounds: int
    run_s: float
    calibration_s: float

    def __str__(self) -> str:
        return f"{self.rounds} rounds of {self.run_s:g} s for each step"


class Cost(NamedTuple):
    """CPU time of one operation in seconds, measured in a calibration run."""

    client_cpu_s: float
    server_cpu_s: float
    client_serial_s: float
    server_serial_s: float
    """The serial parts of the CPU times, see `Cpu.serial_s`."""

    def most(self, machine_cores: float) -> Prediction:
        """Return the throughput at which the busier process, or all cores together, are full."""
        both_s = (self.client_cpu_s + self.server_cpu_s) / machine_cores
        each_s = (self.client_serial_s, self.server_serial_s, both_s)
        # A short run may be too short for the system to measure CPU time, which is not 0.
        longest_s, binds = max(zip(each_s, CPUS, strict=True))
        return Prediction(1 / max(longest_s, 1e-9), "operations/s", "1 / D_max", binds)


def cost_of(run: Run) -> Cost:
    """Return the mean CPU seconds of one operation in client and server."""
    cpu, operations = (run.client_cpu, run.server_cpu), max(1, run.operations_ok)
    seconds = [*(each.total_s for each in cpu), *(each.serial_s for each in cpu)]
    return Cost(*(each_s / operations for each_s in seconds))


def between(ends: dict[int, Cost], size: int) -> Cost:
    """Return the CPU time of one operation in batches of k = `size`: a / k + b, from `ends`."""
    sides = []
    for side in Cost._fields:
        a_s, b_s = batching.fit({k: k * getattr(cost, side) for k, cost in ends.items()})
        sides.append(max(0.0, a_s) / size + max(0.0, b_s))
    return Cost(*sides)


class Rung(NamedTuple):
    """One step of the ladder."""

    name: str
    conditions: str
    predicted_per_s: float
    measured_per_s: float
    binds: str
    """The predicted bottleneck."""
    client_busy: float
    server_busy: float
    """The share of a core that each event loop used (without an event loop: the process). Far below
    1 with a CPU as the predicted bottleneck, another program used the core."""
    stolen: float = 0.0
    """Cores that the host took from its virtual machine during the runs."""
    interval_per_s: tuple[float, float] | None = None
    """The interval of 90 % of the prediction; None with a single round."""

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.measured_per_s / self.predicted_per_s

    @property
    def starved(self) -> bool:
        """Whether a CPU was the predicted bottleneck and neither process had most of a core."""
        return self.binds in CPUS and max(self.client_busy, self.server_busy) < A_CORE

    @property
    def row(self) -> dict[str, str]:
        """The rung as a row of the table."""
        busy = f"{self.client_busy:.2f} / {self.server_busy:.2f}"
        interval = ""
        if self.interval_per_s:
            interval = f" ({' to '.join(map(four_digits, self.interval_per_s))})"
        return {
            "step": self.name,
            "conditions": self.conditions,
            "predicted (operations/s)": f"{four_digits(self.predicted_per_s)}{interval}",
            "measured (operations/s)": four_digits(self.measured_per_s),
            "measured ÷ predicted": f"{self.ratio:.2f}",
            "bottleneck": self.binds,
            "busy share of a core, client / server": busy,
        }


def rungs(pace: Pace) -> Iterator[Rung]:
    """Yield each step, from the slowest one on."""
    yield from _with_disk(pace)
    yield from _without_disk(pace)


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield one row for each step: predicted, measured, their ratio, bottleneck. Write the page."""
    pace = Pace(1, 1.0, 0.5) if quick else Pace(5, 2.5, 1.0)
    steps = []
    for rung in rungs(pace):
        steps.append(rung)
        yield rung.row
    page = harness.write("ladder.md", quick, markdown(steps, describe_host(), str(pace)))
    with mpl.rc_context(cast("Any", SAME_BYTES)):
        figure = Figure(figsize=(11.0, 1.6 + 0.62 * len(steps)), layout="constrained")
        draw(steps, figure.add_subplot())
        figure.savefig(page.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
    tqdm.write(f"  wrote {page} and its figure")


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
    return [
        Station("rest of the round trip", rest_s, math.inf),
        Station("client CPU", cost.client_serial_s),
        Station("server CPU", cost.server_serial_s),
    ]


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
            return cost_of(few).most(cores())

        def line(size: int) -> Prediction:
            ends = {
                k: cost_of(run_batches(server, k, pace.calibration_s))
                for k in (SIZES[0], SIZES[-1])
            }
            return between(ends, size).most(cores())

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
    harness.turn_of(run)
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
        _interval(values, cpu=binds in CPUS) if len(values) > 1 else None,
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


def draw(rungs: Sequence[Rung], ax: Axes) -> None:
    """Draw the steps from the bottom up on a logarithmic axis: predicted lines, measured dots."""
    with style.canvas(ax) as ax:
        heights = np.arange(len(rungs))
        measured = [rung.measured_per_s for rung in rungs]
        predicted = [rung.predicted_per_s for rung in rungs]
        intervals = [rung.interval_per_s or (rung.predicted_per_s,) * 2 for rung in rungs]
        ax.plot(measured, heights, color="#CCCCCC", linewidth=1.5, zorder=1)
        ax.plot(measured, heights, "o", color=style.MEASURED, label="measured", zorder=3)
        ax.barh(
            heights,
            [high - low for low, high in intervals],
            0.6,
            left=[low for low, _ in intervals],
            color=style.PREDICTED,
            alpha=0.25,
            zorder=2,
            label="interval of the prediction, 90 %",
        )
        ax.plot(
            predicted,
            heights,
            "|",
            color=style.PREDICTED,
            markersize=26,
            markeredgewidth=2,
            label="predicted before the run",
            zorder=4,
        )
        for height, rung in zip(heights, rungs, strict=True):
            ax.annotate(
                f"{four_digits(rung.measured_per_s)}/s, {rung.ratio:.2f} {TIMES} predicted",
                (max(rung.measured_per_s, intervals[height][1]), height),
                (12, 0),
                textcoords="offset points",
                va="center",
                bbox=style.PAPER,
                zorder=2,
            )
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))
        # Room for the number beside the highest dot, in proportion to the range of the axis.
        lowest, highest = min(measured + predicted), max(measured + predicted)
        ax.set_xlim(lowest / 2, highest * (highest / lowest) ** 0.55)
        ax.set_ylim(-0.6, len(rungs) - 0.4)
        ax.set_yticks(heights, [f"{rung.name}\n{rung.conditions}" for rung in rungs])
        ax.set_xlabel("throughput (operations/s)")
    ax.grid(visible=False, axis="y")


def markdown(rungs: Sequence[Rung], host: Mapping[str, Any], pace: str) -> list[str]:
    """Return the lines of the page: the table, and the conditions of the measurement."""
    first = rungs[0].measured_per_s
    over = f"{TIMES} the first"
    table = [{**rung.row, over: four_digits(rung.measured_per_s / first)} for rung in rungs]
    stolen = max(rung.stolen for rung in rungs)
    starved = "; ".join(rung.name for rung in rungs if rung.starved)
    return [
        "# The ladder",
        "",
        "The throughput of one key-value service, step by step, each predicted before its run.",
        "`python3 course.py bench ladder` measures the steps on your machine and writes this page.",
        "",
        "![Throughput of each step, predicted and measured](ladder.svg)",
        "",
        *harness.markdown(table, texts=2),
        "",
        *(
            [
                "A CPU was the predicted bottleneck, but other programs used the cores:"
                f" {starved}. Measure again on a quiet machine.",
                "",
            ]
            if starved
            else []
        ),
        f"{harness.machine(host)} {pace}; parts of a prediction were measured before each round.",
        *(
            [f"The host of this virtual machine took up to {stolen:.2f} of its cores away."]
            if stolen > STOLEN
            else []
        ),
        "A prediction is the mean of the rounds, and behind it stands its interval of 90 %: how",
        "the parts changed between the rounds, and how far the model may be off.",
        "Client and server are two processes on this machine. The server uses asyncio, and so do",
        "the clients of the last six steps. A processor is the bottleneck if the event loop of one",
        "process is always busy; the table shows how busy both event loops were.",
        "Values that batches read were compared with the values written.",
    ]
