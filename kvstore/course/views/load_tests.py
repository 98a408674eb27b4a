"""Load tests of any service, and of two clients in the layout of h2load's table."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes

from kvstore import numbers
from kvstore.course.rendering import TIMES
from kvstore.course.views import style
from kvstore.course.views.style import by_row, rounded
from kvstore.course.views.throughput import draw_bounds
from kvstore.load_test import Calibration
from kvstore.measure import Run
from kvstore.protocol import OK

SHARES = (0.0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999)
"""The quantiles in the table and on the axis."""
RUN = "X of the run (calls/s)"
"""The column with the throughput of the run beside its calibration."""
FEWEST_BEYOND = 10
"""Calls that must be beyond a quantile for it to be shown."""


def levels_table(calibration: Calibration, run: Run | None = None) -> pd.DataFrame:
    """Return X and R of each level of a calibration, with the bounds, and the processor time.

    The X of `run` has a column of its own, if it is a closed loop.
    """
    rows = [
        {
            "in flight": level.in_flight,
            "bound on X (calls/s)": calibration.closed_loop(level.in_flight).value,
            "X (calls/s)": level.throughput_per_s,
            "bound on R (ms)": 1e3 * calibration.residence_bound_s(level.in_flight),
            "R (ms)": 1e3 * level.residence_s,
            "generator (cores)": level.cores.generator,
            "server (cores)": level.cores.server,
        }
        for level in calibration.levels
    ]
    table = rounded(by_row(rows, "in flight"))
    if run is not None and run.in_flight and not run.settings.get("paced"):
        table.loc[run.in_flight, RUN] = run.answered_per_s
    return table.sort_index()


def plot_levels(calibration: Calibration, run: Run | None = None, ax: Axes | None = None) -> Axes:
    """Draw X against N: a dot for each level, the bounds as lines, N* where they meet.

    The dot of `run` is another one, if it is a closed loop.
    """
    data = levels_table(calibration, run)
    with style.canvas(ax, height_in=6.0) as ax:
        draw_bounds(ax, calibration.stations, 0.0, most=int(data.index.max()))
        ax.plot(
            data.index, data["X (calls/s)"], "o", color=style.MEASURED, label="calibration",
            zorder=3,
        )  # fmt: skip
        if RUN in data:
            ax.plot(
                data.index, data[RUN], "s", color=style.GREEN,
                markeredgecolor="black", label="run", zorder=4,
            )  # fmt: skip
        ax.set(xscale="log", yscale="log", ylabel="throughput, X (calls/s)")
        _by_in_flight(ax)
    return ax


def _by_in_flight(ax: Axes) -> None:
    ax.set_xlabel("in flight, N (calls)")
    style.plain_numbers(ax.xaxis)
    style.plain_numbers(ax.yaxis)
    style.close_ticks(ax.yaxis)
    ax.margins(0.08)


# ---- client comparison --------------------------------------------------------------------------
# Two clients against the same server by scenario, in the layout of h2load's table.


SPREAD: Final = ("min", "max", "mean", "sd", "within 1 sd (%)")
"""The columns of h2load's table, in the order of `spread`."""


class HasRate(Protocol):
    """A run of this course's client, or of another client."""

    @property
    def throughput_per_s(self) -> float:
        """Return the operations answered OK per second."""


def spread(values: npt.NDArray[np.float64] | Sequence[float]) -> list[float]:
    """Return min, max, mean, standard deviation, and percent within one; NaN for no values."""
    found = np.asarray(values, np.float64)
    if not len(found):
        return [np.nan] * len(SPREAD)
    mean, sd = found.mean(), found.std()
    within = np.mean(np.abs(found - mean) <= sd)
    return [float(x) for x in (found.min(), found.max(), mean, sd, 100 * within)]


def h2load_table(run: Run) -> pd.DataFrame:
    """Return the rows of h2load's table from one of our runs, over the calls answered OK.

    "request" has one value for each call. The other rows have one for each connection: "connect"
    until a status request was answered, "first byte" until the first reply of the run, and the
    calls per second. The first two are NaN if the client did not open connections for the run.
    """
    ok = run.records[run.records["status"] == OK]
    numbers = range(max(1, run.connections, len(run.connect_s)))
    on = {number: ok[ok["connection"] == number] for number in numbers}
    first_s = [
        connect_s + float(mine["done_s"].min() - mine["sent_s"].min())
        for connect_s, mine in zip(run.connect_s, on.values(), strict=False)
        if len(mine)
    ]
    rows = {
        "request (ms)": spread(1e3 * (ok["done_s"] - ok["sent_s"])),
        "connect (ms)": spread(1e3 * np.array(run.connect_s)),
        "first byte (ms)": spread(1e3 * np.array(first_s)),
        "calls/s of a connection": spread(
            [len(mine) / run.window_s for mine in on.values()] if run.window_s else []
        ),
    }
    return rounded(pd.DataFrame.from_dict(rows, orient="index", columns=list(SPREAD)))


def side_by_side_table(
    ours: Mapping[str, Run], theirs: Mapping[str, HasRate] | None = None, *, name: str = "h2load"
) -> pd.DataFrame:
    """Return our throughput, and another client's if there is one, by scenario."""
    rows = []
    for scenario, run in ours.items():
        row: dict[str, Any] = {
            "scenario": scenario,
            "connections, counted": run.connections,
            "in flight (calls)": run.in_flight,
            f"{'throughput' if theirs is None else 'ours'} (operations/s)": run.throughput_per_s,
        }
        other = (theirs or {}).get(scenario)
        if other is not None:
            row[f"{name} (operations/s)"] = other.throughput_per_s
            row[f"ours ÷ {name}"] = (
                run.throughput_per_s / other.throughput_per_s if other.throughput_per_s else None
            )
        rows.append(row)
    return rounded(by_row(rows, "scenario"))


def plot_side_by_side(
    ours: Mapping[str, Run],
    theirs: Mapping[str, HasRate] | None = None,
    *,
    name: str = "h2load",
    ax: Axes | None = None,
) -> Axes:
    """Draw measured dots by scenario: full dots are ours, hollow dots the other client's.

    The label of each row is the other client's throughput over ours.
    """
    data = side_by_side_table(ours, theirs or {}, name=name)
    other = f"{name} (operations/s)"
    with style.canvas(ax, height_in=1.6 + 0.7 * len(data)) as ax:
        rows = range(len(data))
        ax.plot(
            data["ours (operations/s)"], rows, "o", color=style.MEASURED, label="ours", zorder=3
        )
        if other in data:
            ax.plot(
                data[other], rows, "D", color=style.MEASURED, markerfacecolor="white",
                markeredgewidth=2, label=name, zorder=3,
            )  # fmt: skip
            pairs = zip(rows, data["ours (operations/s)"], data[other], strict=True)
            for row, mine, yours in pairs:
                ax.plot([mine, yours], [row, row], color="#BBBBBB", linewidth=1.5, zorder=1)
                ax.annotate(
                    f"{TIMES} {numbers.number(yours / mine)}", (max(mine, yours), row), (14, -5),
                    textcoords="offset points", color=style.GREY,
                )  # fmt: skip
        shown = [*data["ours (operations/s)"], *data.get(other, ())]
        style.rates(ax, shown)
        ax.set(yticks=list(rows), xlabel="throughput (operations/s)", ylabel="run")
        ax.set_yticklabels(
            [
                f"{scenario}: {run.connections} {TIMES} {run.in_flight // max(1, run.connections)}"
                for scenario, run in ours.items()
            ]
        )
        ax.set_ylim(len(data) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")
    return ax
