"""The tables and the figure of lesson 06: two clients in the layout of h2load's table."""

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
from kvstore.measure import Run
from kvstore.protocol import OK

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


def side_by_side(
    ours: Mapping[str, Run], theirs: Mapping[str, HasRate] | None = None, *, name: str = "h2load"
) -> Axes:
    """Draw measured dots by scenario: full dots are ours, hollow dots the other client's.

    The label of each row is the other client's throughput over ours.
    """
    data = side_by_side_table(ours, theirs or {}, name=name)
    other = f"{name} (operations/s)"
    names = [
        f"{scenario}: {run.connections} {TIMES} {run.in_flight // max(1, run.connections)}"
        for scenario, run in ours.items()
    ]
    with style.canvas(height_in=1.6 + 0.7 * len(data), rows=names) as ax:
        rows = range(len(data))
        ax.plot(
            data["ours (operations/s)"], rows, "o", color=style.MEASURED, label="ours", zorder=3
        )
        if other in data:
            ax.plot(
                data[other], rows, "D", color=style.MEASURED, markerfacecolor="none",
                markeredgewidth=2, label=name, zorder=3,
            )  # fmt: skip
            pairs = zip(rows, data["ours (operations/s)"], data[other], strict=True)
            for row, mine, yours in pairs:
                ax.plot([mine, yours], [row, row], color=style.INK, linewidth=1.5, zorder=1)
                ax.annotate(
                    f"{TIMES} {numbers.number(yours / mine)}", (max(mine, yours), row), (14, -5),
                    textcoords="offset points", color=style.INK,
                )  # fmt: skip
        shown = [*data["ours (operations/s)"], *data.get(other, ())]
        style.rates(ax, shown)
        ax.set(xlabel="throughput (operations/s)", ylabel="run")
    return ax
