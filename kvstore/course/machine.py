"""What this machine can show: its noise, its timer, and the processor time of a call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kvstore import numbers
from kvstore.course.views import style, time_by_station_table
from kvstore.measure import Run, cores, describe_host
from kvstore.measure.cpu_cost import price_s, serial_s
from kvstore.measure.validity import STOLEN
from kvstore.model import Station

QUIET, USABLE = 0.10, 0.30
"""The largest spread of single runs on a machine that counts as quiet, or as usable."""
ADVICE = {
    "quiet": "Trust a larger difference than this, even from one run.",
    "usable": (
        "Trust factors and orders of magnitude from one run. For smaller differences, interleave"
        " several runs and compare medians."
    ),
    "noisy": (
        "Trust only factors of 2 and more. Close other programs, connect the charger, stop the"
        " other notebooks, and measure again."
    ),
}


@dataclass(frozen=True)
class Noise:
    """The differences between identical runs, as shares: 0.1 is 10 %."""

    spread: float
    """The fastest run over the slowest, less 1."""
    between_medians: float
    """The larger median of a group over the smaller, less 1."""
    stolen_cores: float = 0.0
    """The mean number of cores that the host of this virtual machine took away during the runs."""

    @property
    def verdict(self) -> str:
        """Return "quiet", "usable" or "noisy"."""
        if self.spread <= QUIET:
            return "quiet"
        return "usable" if self.spread <= USABLE else "noisy"

    def __str__(self) -> str:
        stolen = (
            f" The host of this virtual machine gave {self.stolen_cores:.2f} of your cores to other"
            " machines during the runs."
        )
        return (
            f"A {self.verdict} machine: identical runs differ by up to {self.spread:.0%}, the"
            f" medians of two interleaved groups by {self.between_medians:.1%}."
            f" {ADVICE[self.verdict]}{stolen if self.stolen_cores > STOLEN else ''}"
        )


def noise(groups: Mapping[str, Sequence[Run]]) -> Noise:
    """Compare interleaved groups of identical runs.

    Raises ValueError for a group of fewer than two runs.
    """
    fewest = min((len(runs) for runs in groups.values()), default=0)
    if fewest < 2:
        raise ValueError(f"each group must have 2 or more runs, got {fewest}: repeat the run")
    rates = [[run.throughput_per_s for run in runs] for runs in groups.values()]
    every = [rate for group in rates for rate in group]
    medians = [float(np.median(group)) for group in rates]
    stolen_cores = float(np.mean([run.stolen_cores for runs in groups.values() for run in runs]))
    return Noise(max(every) / min(every) - 1, max(medians) / min(medians) - 1, stolen_cores)


def host() -> pd.DataFrame:
    """Return the machine and the versions in use, one row each."""
    facts = describe_host()
    memory = f"{facts.pop('memory_bytes') / 1e9:.1f} GB"
    return pd.DataFrame({"this machine": {"memory": memory, **facts}}).astype(str)


def timer(runs: Mapping[str, Run]) -> pd.DataFrame:
    """Return the disk time that was set and the one that each kind of call had, in milliseconds.

    Raises ValueError if the server of a run did not report station times.
    """
    rows = []
    for name, run in runs.items():
        settings = run.server.settings
        calls = run.calls.dropna(subset=["disk_s"])
        if not len(calls):
            raise ValueError(
                f"the run {name} has no station times: start its server with station_times=True"
            )
        for operation, group in calls.groupby("operation", observed=True):
            delay = "read_delay_s" if operation == "retrieve" else "write_delay_s"
            set_ms, measured_ms = 1e3 * getattr(settings, delay), 1e3 * group["disk_s"]
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


def cpu_per_call(runs: Mapping[str, Run]) -> pd.DataFrame:
    """Return the CPU time per call of client and server, and of their event loops, if any."""
    rows = {}
    for name, run in runs.items():
        cpu, calls = price_s(run), run.issued or np.nan
        rows[name] = {
            "client CPU (µs/call)": 1e6 * cpu.client_s,
            "server CPU (µs/call)": 1e6 * cpu.server_s,
            "together (µs/call)": 1e6 * cpu.together_s,
            "client's loop (µs/call)": 1e6 * run.client_cpu.loop_s / calls,
            "server's loop (µs/call)": 1e6 * run.server_cpu.loop_s / calls,
        }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")
    return table.dropna(axis="columns", how="all").round(0).astype("Int64")


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


def draw_repeats(groups: Mapping[str, Sequence[Run]]) -> Axes:
    """Draw the throughput of each run as a dot, in the order of running, and medians as lines.

    The groups were interleaved: the first run of each, then the second of each, and so on.
    """
    with style.canvas(height_in=4.5) as ax:
        for place, name in enumerate(groups):
            rates = [run.throughput_per_s for run in groups[name]]
            turns = [1 + place + len(groups) * turn for turn in range(len(rates))]
            marker, colour, dashes = style.look(place)
            ax.plot(turns, rates, marker, label=name, color=colour, markeredgecolor="black")
            ax.axhline(float(np.median(rates)), linestyle=dashes, linewidth=2, color=colour)
        highest = max(run.throughput_per_s for runs in groups.values() for run in runs)
        ax.set(xlabel="run (number)", ylabel="throughput\n(operations/s)", ylim=(0, 1.15 * highest))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax
