"""What each station of a service lets through, from measurements that stress it."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes

from kvstore.course.views import style
from kvstore.course.views.inputs import by_row, rounded

CLOSE = 1.2
"""A station that lets through at most this many times the throughput is close to binding."""


def ceilings_table(
    measured_per_s: Mapping[str, float], stress: Mapping[str, float], throughput_per_s: float
) -> pd.DataFrame:
    """Return what each station lets through of the whole traffic, as a bound from below.

    `measured_per_s` has the throughput under the load that stresses the station, and `stress` how
    many times as much work a call of this load is for it as a call of the traffic.
    """
    rows = [
        {
            "station": name,
            "measured under stress (calls/s)": per_s,
            "stress": stress[name],
            "lets through (calls/s)": stress[name] * per_s,
            "÷ throughput": stress[name] * per_s / throughput_per_s,
        }
        for name, per_s in measured_per_s.items()
    ]
    return rounded(by_row(rows, "station"))


def plot_ceilings(
    measured_per_s: Mapping[str, float],
    stress: Mapping[str, float],
    throughput_per_s: float,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw what each station lets through as a dot, and the throughput of the traffic as a line."""
    data = ceilings_table(measured_per_s, stress, throughput_per_s)["lets through (calls/s)"]
    with style.canvas(ax, height_in=2.2 + 0.55 * len(data)) as ax:
        rows = range(len(data))
        ax.plot(data, rows, "o", color=style.MEASURED, linestyle="none", label="lets through")
        for row, per_s in zip(rows, data, strict=True):
            ax.annotate(
                style.rate(per_s), (per_s, row), (10, 0), textcoords="offset points",
                va="center", bbox=style.PAPER,
            )  # fmt: skip
        ax.axvline(
            throughput_per_s, color=style.GREY, linestyle="--", zorder=1,
            label=f"throughput: {style.rate(throughput_per_s)}",
        )  # fmt: skip
        ax.set_xlim(0.0, 1.25 * max([*data, throughput_per_s]))
        style.plain_numbers(ax.xaxis)
        ax.set(yticks=list(rows), xlabel="throughput of the traffic (calls/s)", ylabel="station")
        ax.set_yticklabels(data.index)
        ax.set_ylim(len(data) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")
    return ax
