"""What this machine can show: its processor time per call, its timer, and the lessons that fit it.

These are the tables and figures of lesson 00. A figure draws on the axes it is given and makes
no run. The noise of the machine is in `noise`.
"""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from kvstore import numbers
from kvstore.course import rendering
from kvstore.course.lessons import LESSONS
from kvstore.course.noise import Noise, draw_repeats, noise
from kvstore.course.rendering import TIMES
from kvstore.course.views import style, time_by_station_table
from kvstore.course.views.stations import stacked
from kvstore.measure import Run, cores, describe_host
from kvstore.measure.cpu_cost import cores_busy, price_s, serial_s
from kvstore.model import Station, bounds

__all__ = [
    "Noise",
    "cores_busy",
    "cpu_per_call",
    "cpu_stations",
    "draw_cpu_per_call",
    "draw_path",
    "draw_repeats",
    "draw_round_trips",
    "draw_timer",
    "host",
    "lessons",
    "noise",
    "price_s",
    "timer",
]

LOOPS = ("client's loop (µs/call)", "server's loop (µs/call)")


def host() -> pd.DataFrame:
    """Return the machine and the versions in use, one row each."""
    facts = describe_host()
    names = {
        "memory_bytes": "memory",
        "cores": "cores for this process",
        "cores_kept_awake": "cores kept awake",
    }
    shown = {names.get(name, name): _words(name, value) for name, value in facts.items()}
    return pd.DataFrame({"this machine": shown})


def cpu_per_call(runs: Mapping[str, Run]) -> pd.DataFrame:
    """Return the CPU time per call of client and server, beside the time between two replies."""
    rows = {}
    for name, run in runs.items():
        cpu = price_s(run)
        rows[name] = {
            "client CPU (µs/call)": 1e6 * cpu.client_s,
            "server CPU (µs/call)": 1e6 * cpu.server_s,
            "together (µs/call)": 1e6 * cpu.together_s,
            **_loops(run),
            "one answer every (µs)": 1e6 / run.answered_per_s if run.answered_per_s else np.nan,
        }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("run").round(0).astype("Int64")
    for loop in LOOPS:
        known = table[loop].notna()
        table[loop] = table[loop].astype(object).where(known, rendering.NONE)
        if not known.any():
            table = table.drop(columns=loop)
    return table


def _loops(run: Run) -> dict[str, float]:
    """Return the CPU time per call of each event loop; NaN for a process without one."""
    loops_s = run.client_cpu.loop_s, run.server_cpu.loop_s
    calls = run.issued or np.nan
    return {heading: 1e6 * loop_s / calls for heading, loop_s in zip(LOOPS, loops_s, strict=True)}


def cpu_stations(run: Run) -> list[Station]:
    """Return the processors as stations, each with the service demand that this run showed.

    A Python process runs one thread of Python at a time. So each process counts as one core, with
    the CPU time of that thread. If client and server together need more than all cores, there
    is one station for all cores.
    """
    together_s, one = price_s(run).together_s, serial_s(run)
    if together_s / cores() > one.larger_s:
        name = "CPU of all cores" if cores() > 1 else "the one core"
        return [Station(name, together_s / cores())]
    return [
        Station("CPU of the client", one.client_s),
        Station("CPU of the server", one.server_s),
    ]


def timer(runs: Mapping[str, Run]) -> pd.DataFrame:
    """Return the disk time that was set and the one that each kind of call had, in milliseconds.

    Raise ValueError if the server of a run did not report station times.
    """
    rows = []
    for name, run in runs.items():
        settings = run.server["settings"]
        calls = run.calls.dropna(subset=["disk_s"])
        if not len(calls):
            raise ValueError(
                f"the run {name} has no station times: start its server with station_times=True"
            )
        for operation, group in calls.groupby("operation", observed=True):
            delay = "read_delay_s" if operation == "retrieve" else "write_delay_s"
            set_ms, measured_ms = 1e3 * settings[delay], 1e3 * group["disk_s"]
            rows.append(
                {
                    "server": name,
                    "set (ms)": set_ms,
                    "got, least (ms)": measured_ms.min(),
                    "got, median (ms)": measured_ms.median(),
                    "got, most (ms)": measured_ms.max(),
                    "error, median (ms)": measured_ms.median() - set_ms,
                }
            )
    return pd.DataFrame(rows).set_index(["server", "set (ms)"]).sort_index().round(3)


def _words(name: str, value: object) -> str:
    return f"{float(str(value)) / 1e9:.1f} GB" if name == "memory_bytes" else str(value)


def draw_path(run: Run) -> Axes:
    """Draw the mean time at each station of a call as a bar, all to one scale, in their order."""
    means_ms = time_by_station_table(run).iloc[0]
    shown = [name for name in style.STATIONS if f"{name} (ms)" in means_ms]
    with style.canvas(height_in=3.6, rows=shown) as ax:
        for row, name in enumerate(shown):
            colour, hatch = style.STATIONS[name]
            spent_ms = float(means_ms[f"{name} (ms)"])
            ax.barh(row, spent_ms, color=colour, hatch=hatch, edgecolor="black")
            ax.annotate(
                numbers.seconds(spent_ms / 1e3), (spent_ms, row), (8, 0),
                textcoords="offset points", va="center", weight="bold",
            )  # fmt: skip
        whole_ms = float(means_ms["whole residence (ms)"])
        ax.set_xlim(0.0, 1.1 * whole_ms)
        ax.set(xlabel=f"time (ms), {numbers.seconds(whole_ms / 1e3)} in all", ylabel="station")
    return ax


def draw_round_trips(run: Run) -> Axes:
    """Draw a histogram of round trips with p50 and p99 as lines; count the longest in a note."""
    times_us = 1e6 * run.calls["residence_s"].to_numpy()
    p50, p99 = np.quantile(times_us, [0.5, 0.99])
    right = 1.3 * p99
    beyond = int(np.count_nonzero(times_us > right))
    with style.canvas(height_in=4.5) as ax:
        left = min(times_us.min(), p50)
        ax.hist(
            times_us[times_us <= right], bins=np.linspace(0.95 * left, right, 50).tolist(),
            color=style.SKY, edgecolor="black", linewidth=0.5,
        )  # fmt: skip
        for name, value, dashes in (("p50", p50, "-"), ("p99", p99, "--")):
            ax.axvline(value, color=style.INK, linestyle=dashes)
            ax.annotate(
                f"{name}: {value:,.0f} µs", (value, 1.0), (0, 6), ha="center",
                xycoords=("data", "axes fraction"), textcoords="offset points",
            )  # fmt: skip
        if beyond:
            ax.annotate(
                f"{beyond} more,\nup to {times_us.max():,.0f} µs", (1.0, 0.6),
                xycoords="axes fraction", ha="right",
            )  # fmt: skip
        ax.set(xlabel="round trip (µs)", ylabel="calls (number)", xlim=(0.95 * left, right))
    return ax


def draw_cpu_per_call(runs: Mapping[str, Run]) -> Axes:
    """Draw one bar for each run: CPU time of the client, then of the server, end to end."""
    sides = {"client": (style.SKY, "///"), "server": (style.ORANGE, "...")}
    table = cpu_per_call(runs).rename(
        columns=lambda heading: heading.removesuffix(" CPU (µs/call)")
    )
    return stacked(table[list(sides)].astype(float), sides, "processor time (µs per call)")


def draw_timer(runs: Mapping[str, Run]) -> Axes:
    """Draw one dot for each call: how much its disk time differs from the one that was set."""
    names: list[str] = []
    with style.canvas(height_in=2.4 + 0.8 * len(timer(runs)), rows=names) as ax:
        for name, run in runs.items():
            settings = run.server["settings"]
            for kind, group in run.calls.groupby("operation", observed=True):
                set_s = settings["read_delay_s" if kind == "retrieve" else "write_delay_s"]
                error_ms = 1e3 * (group["disk_s"] - set_s).to_numpy()
                row = np.full(len(error_ms), len(names)) + np.linspace(-0.25, 0.25, len(error_ms))
                ax.plot(error_ms, row, "o", color=style.MEASURED, markersize=6, alpha=0.6)
                names.append(f"{name}: {1e3 * set_s:g} ms")
        ax.axvline(0.0, color=style.PREDICTED, label="as set", zorder=1)
        ax.set(xlabel="disk time, measured less set (ms)", ylabel="server and disk time set")
    return ax


DISK_S = 0.040
"""Mean disk time of lessons 01 to 03: 10 ms for a read, 50 ms for a write; a quarter are reads."""
POOL_DISK_S = 0.020
"""Disk time of the reads in lesson 04, whose servers have pools of threads."""
CALLERS = 100
CEILING_BYTES = 512e6
"""The memory limit of a process in lesson 02."""
USERS, BACK_END_S = 250, 0.250
"""Users of lesson 07, and the service time of its back end."""
FLOOD, FLOOD_BYTES = 10_000, 52 * 1024
"""Calls of a burst in lesson 09, and the memory of client and server for one waiting call."""
SERVERS, SERVER_BYTES = 8, 80e6
"""Server processes of lessons 10 and 12, and the most memory that each of them uses."""
DESIGNED_PER_S = 600
"""Calls per second of the designs in lesson 15 whose bottleneck is a disk."""
MOST_BUSY = 0.8
"""Above this utilisation of a processor, calls wait for it."""
YES, TIGHT, NO = "✔ enough", "◐ just enough", "✘ only a smaller run"


def lessons(
    *, round_trip: Run, crud: Run, pipelined: Run, noise: Noise, free_bytes: float
) -> pd.DataFrame:
    """Return what each lesson needs and whether this machine has it, from runs without a disk.

    `round_trip` is a run with one small call in flight, `crud` with a hundred of full size,
    `pipelined` with a window of them on a stream.
    """
    trip_s = round_trip.mean_residence_s
    rows = [
        ("00", "repeatable runs", *_repeatable(noise)),
        ("01", "a round trip far shorter than the disk", *_short(trip_s)),
        ("02", "memory: twice the ceiling", *_memory(free_bytes)),
        ("03", "CPU for 100 in flight", *_processor(crud, trip_s)),
        ("04", "a round trip far shorter than its disk", *_short(trip_s, POOL_DISK_S)),
        ("05", "a round trip far longer than one message's CPU", *_window(pipelined, trip_s)),
        ("06", "a core each for client and server", *_core_each(round_trip)),
        ("07", "CPU for 250 users before a slow back end", *_users(round_trip)),
        ("09", "memory for 10,000 calls in flight", *_flood(free_bytes)),
        ("10", f"memory for {SERVERS} servers", *_servers(free_bytes)),
        ("12", f"memory for {SERVERS} servers", *_servers(free_bytes)),
        ("15", "CPU for its designs", *_designed(round_trip)),
    ]
    columns = ["lesson", "needs", "measured here", "this machine", "up to"]
    table = pd.DataFrame([(LESSONS[number], *row) for number, *row in rows], columns=columns)
    return table.set_index("lesson")


def most_in_flight(run: Run, residence_s: float = DISK_S) -> int:
    """Return the most calls in flight that leave room, at the CPU time of this run."""
    stations = [Station("disk", residence_s, math.inf), *cpu_stations(run)]
    return max(1, math.floor(MOST_BUSY * bounds.knee(stations)))


def _repeatable(noise: Noise) -> tuple[str, str, str]:
    verdict = {"quiet": YES, "usable": YES, "noisy": TIGHT}[noise.verdict]
    return (
        f"identical runs differ by {100 * noise.spread:.0f} %",
        verdict,
        f"single runs show factors above {numbers.number(noise.holds_from)}",
    )


def _short(trip_s: float, disk_s: float = DISK_S) -> tuple[str, str, str]:
    share = trip_s / disk_s
    return (
        f"{numbers.number(1e3 * trip_s)} ms beside {1e3 * disk_s:.0f} ms of disk: "
        f"{numbers.percent(share)}",
        YES if share < 0.05 else TIGHT if share < 0.25 else NO,
        f"{1 / trip_s:,.0f} calls/s one at a time",
    )


def _memory(free_bytes: float) -> tuple[str, str, str]:
    ceiling = min(CEILING_BYTES, free_bytes / 2)
    return (
        f"{free_bytes / 1e6:,.0f} MB free for 2 {TIMES} {CEILING_BYTES / 1e6:.0f} MB",
        YES if ceiling >= CEILING_BYTES else NO,
        f"a ceiling of {ceiling / 1e6:,.0f} MB",
    )


def _processor(crud: Run, trip_s: float) -> tuple[str, str, str]:
    residence_s = DISK_S + trip_s
    busiest = max(cpu_stations(crud), key=lambda station: station.demand_s)
    share = CALLERS / residence_s * busiest.demand_s
    most = most_in_flight(crud, residence_s)
    return (
        f"{busiest.name} {numbers.percent(share)} busy at {CALLERS / DISK_S:,.0f} calls/s",
        YES if share <= MOST_BUSY else TIGHT if share <= 1 else NO,
        f"{most} in flight, {most / residence_s:,.0f} calls/s",
    )


def _window(pipelined: Run, trip_s: float) -> tuple[str, str, str]:
    slowest = max(cpu_stations(pipelined), key=lambda station: station.demand_s)
    gain = trip_s / slowest.demand_s
    return (
        f"{1e6 * trip_s:.0f} µs against {1e6 * slowest.demand_s:.0f} µs",
        YES if gain >= 2 else TIGHT,
        f"{1 / slowest.demand_s:,.0f} messages/s, {gain:.1f} {TIMES} one at a time",
    )


def _core_each(small: Run) -> tuple[str, str, str]:
    stations = cpu_stations(small)
    slowest = max(stations, key=lambda station: station.demand_s)
    return (
        f"{1e6 * slowest.demand_s:.0f} µs for {slowest.name}",
        YES if len(stations) > 1 else TIGHT,
        f"{slowest.most_per_s:,.0f} calls/s at the knee",
    )


def _users(small: Run) -> tuple[str, str, str]:
    # The front-end server answers one call and makes another, so it needs the CPU time of both.
    front_s = sum(station.demand_s for station in cpu_stations(small))
    share = USERS / BACK_END_S * front_s
    return (
        f"front-end server {numbers.percent(share)} busy at {USERS / BACK_END_S:,.0f} calls/s",
        YES if share <= MOST_BUSY else TIGHT,  # if it is tight, the lesson uses a slower back end
        f"{BACK_END_S * MOST_BUSY / front_s:,.0f} users",
    )


def _flood(free_bytes: float) -> tuple[str, str, str]:
    needed_bytes = FLOOD * FLOOD_BYTES
    return (
        f"{free_bytes / 1e6:,.0f} MB free for {needed_bytes / 1e6:,.0f} MB",
        YES if free_bytes >= 2 * needed_bytes else NO,
        f"{free_bytes / 2 / FLOOD_BYTES:,.0f} calls at once",
    )


def _servers(free_bytes: float) -> tuple[str, str, str]:
    needed_bytes = SERVERS * SERVER_BYTES
    return (
        f"{free_bytes / 1e6:,.0f} MB free for {needed_bytes / 1e6:,.0f} MB",
        YES if free_bytes >= needed_bytes else NO,
        f"{free_bytes / SERVER_BYTES:,.0f} servers",
    )


def _designed(small: Run) -> tuple[str, str, str]:
    slowest = max(cpu_stations(small), key=lambda station: station.demand_s)
    share = DESIGNED_PER_S * slowest.demand_s
    return (
        f"{slowest.name} {numbers.percent(share)} busy at {DESIGNED_PER_S:,.0f} calls/s",
        YES if share <= MOST_BUSY else TIGHT if share <= 1 else NO,
        f"{MOST_BUSY * slowest.most_per_s:,.0f} calls/s",
    )
