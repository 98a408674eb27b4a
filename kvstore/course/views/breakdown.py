"""The parts of a run: time at each station, CPU time, kinds of operation; its three counts."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes

from kvstore.course.rendering import number
from kvstore.course.views import style
from kvstore.course.views.style import Runs, by_row, rounded, runs_by_name
from kvstore.measure import Run, audit
from kvstore.measure.audit import BOXES, stands_for
from kvstore.measure.cpu_cost import price_s


def time_by_station_table(runs: Runs) -> pd.DataFrame:
    """Return the mean milliseconds of a call at each station, over the calls the server timed.

    Raise ValueError if the server of a run did not report station times.
    """
    rows = []
    for name, run in runs_by_name(runs):
        calls = run.calls[run.calls["disk_s"].notna()]
        if not len(calls):
            raise ValueError(
                f"the run {name} has no station times: start its server with station_times=True"
            )
        means_s = {
            stands_for(run, station): float(calls[column].mean())
            for station, column in BOXES.items()
        }
        whole_s = float(calls["residence_s"].mean())
        outside_s = max(0.0, whole_s - sum(means_s.values()))
        means_s = {**means_s, "client and wire": outside_s, "whole residence": whole_s}
        rows.append({"run": name} | {f"{at} (ms)": 1e3 * s for at, s in means_s.items()})
    return rounded(by_row(rows, "run").fillna(0.0))


def little_by_station_table(run: Run) -> pd.DataFrame:
    """Return Little's law for each station of a run: mean residence time and mean number of calls.

    Raise ValueError as `time_by_station_table` does.
    """
    where = time_by_station_table({"R (ms)": run}).T.rename_axis(index="station", columns=None)
    where.index = where.index.str.removesuffix(" (ms)")
    where["L = λ·R (calls)"] = audit(run).sent_per_s * where["R (ms)"] / 1e3
    return rounded(where)


def cost_table(runs: Runs) -> pd.DataFrame:
    """Return each run's throughput, CPU time per call, and threads."""
    rows = [
        {
            "run": name,
            "throughput (operations/s)": run.throughput_per_s,
            "in flight, mean (calls)": audit(run).in_flight_mean,
            "client CPU (µs/call)": 1e6 * price_s(run).client_s,
            "server CPU (µs/call)": 1e6 * price_s(run).server_s,
            "client threads, most": run.samples["client_threads"].max(),
        }
        for name, run in runs_by_name(runs)
    ]
    return rounded(by_row(rows, "run"))


def mix_table(runs: Runs) -> pd.DataFrame:
    """Return the share of each kind of operation among the answered calls, in percent."""
    rows = [
        {"run": name} | {f"{kind} (%)": 100 * share for kind, share in run.mix().items()}
        for name, run in runs_by_name(runs)
    ]
    return rounded(by_row(rows, "run").fillna(0.0))


ROOM = 0.07
"""A part below this share of the widest bar has no number."""


def plot_time_by_station(runs: Runs, *, ax: Axes | None = None) -> Axes:
    """Draw one bar for each run: the mean milliseconds of a call at each station, end to end."""
    data = time_by_station_table(runs)
    frame = data.rename(columns=lambda heading: heading.removesuffix(" (ms)"))
    parts = {name: look for name, look in style.STATIONS.items() if name in frame}
    with style.canvas(ax, height_in=2.4 + 0.8 * len(data)) as ax:
        stack(ax, frame[list(parts)], parts)
        for row, whole_ms in enumerate(data["whole residence (ms)"]):
            ax.annotate(
                f"{whole_ms:.4g} ms", (whole_ms, row), (6, 0),
                textcoords="offset points", va="center",
            )  # fmt: skip
        ax.set(xlabel="mean residence of a call (ms)", ylabel="run")
        ax.set_xlim(0.0, 1.15 * data["whole residence (ms)"].max())
    ax.grid(visible=False, axis="y")
    return ax


def plot_mix(runs: Runs, *, ax: Axes | None = None) -> Axes:
    """Draw one bar for each run: the share of each kind of operation that was answered."""
    data = mix_table(runs).rename(columns=lambda heading: heading.removesuffix(" (%)"))
    parts = {name: look for name, look in style.OPERATIONS.items() if name in data}
    with style.canvas(ax, height_in=2.2 + 0.8 * len(data)) as ax:
        stack(ax, data[list(parts)], parts)
        ax.set(xlabel="share of operations (%)", ylabel="run")
    ax.grid(visible=False, axis="y")
    return ax


def stack(ax: Axes, data: pd.DataFrame, parts: dict[str, tuple[str, str]]) -> None:
    """Draw the columns of each row end to end; `parts` maps each to its colour and hatching."""
    left = pd.Series(0.0, index=data.index)
    widest = float(data.sum(axis=1).max())
    for name, (colour, hatch) in parts.items():
        widths = data[name]
        ax.barh(
            range(len(data)), widths, left=left, height=0.6, color=colour,
            hatch=hatch, edgecolor="black", linewidth=0.8, label=name,
        )  # fmt: skip
        for row, (start, width) in enumerate(zip(left, widths, strict=True)):
            if width >= ROOM * widest:
                ax.text(
                    start + width / 2, row, number(width), ha="center", va="center",
                    bbox=style.PAPER,
                )  # fmt: skip
        left = left + widths
    ax.set_yticks(range(len(data)), list(data.index))
    ax.set_ylim(len(data) - 0.5, -0.5)


# ---- counting -----------------------------------------------------------------------------------
# One run counted three times: by the sender, by the records, by the server.


def counting_table(runs: Mapping[str, Run]) -> pd.DataFrame:
    """Both sides of Little's law for each run, and its calls as three parties counted them.

    "L" is counted by walking along the time axis; "X·R" is computed from the rate and the mean
    residence time. The server's count is missing where it reported none.
    """
    rows = []
    for name, run in runs.items():
        law = audit(run)
        rows.append(
            {
                "run": name,
                "L (mean in flight)": law.in_flight_mean,
                "X·R": law.sent_per_s * law.residence_mean_s,
                "calls sent": law.issued,
                "calls recorded": law.recorded,
                "calls counted by the server": sum(run.server.get("operations", {}).values()),
            }
        )
    return rounded(by_row(rows, "run"))
