"""More than can be served: who was in time, who asked again, and what a limiter chose."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from kvstore.course import tables
from kvstore.course.figures import style
from kvstore.course.named import Runs, number
from kvstore.course.predictions import HasValue
from kvstore.course.tables.overload import SHARES, Curve
from kvstore.measure import Run


def goodput_by_offered(
    runs: Mapping[str, Sequence[Run]],
    predictions: Mapping[str, Curve] | None = None,
    simulated: Mapping[str, Sequence[float]] | None = None,
    *,
    deadline_s: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Calls in time over calls offered: measured dots, predicted lines, simulated thin lines.

    `predictions` gives for a server the calls per second in time by the rate offered,
    `simulated` one number for each of its runs.
    """
    data = tables.goodput_by_offered(runs, predictions, simulated, deadline_s=deadline_s)
    most = 1.05 * float(data["offered (calls/s)"].max())
    with style.canvas(ax, height_in=6.0) as ax:
        for place, name in enumerate(runs):
            marker, colour, dashes = style.look(place)
            rows = data.loc[[name]].sort_values("offered (calls/s)")
            if predictions is not None and name in predictions:
                offered = np.linspace(most / 200, most, 200)
                line = [number(predictions[name](float(per_s))) or 0.0 for per_s in offered]
                ax.plot(
                    offered, line, color=style.PREDICTED, linestyle=dashes,
                    label=f"predicted: {name}", zorder=2,
                )  # fmt: skip
            if simulated is not None and name in simulated:
                ax.plot(
                    rows["offered (calls/s)"], rows["simulated (calls/s)"], "+",
                    color=style.BLACK, markersize=16, markeredgewidth=1.5, zorder=4,
                    label="simulated" if name == next(iter(simulated)) else "_",
                )  # fmt: skip
            ax.plot(
                rows["offered (calls/s)"], rows["in time (calls/s)"], marker,
                color=colour, label=f"measured: {name}", zorder=3,
            )  # fmt: skip
        ax.set(xlabel="offered (calls/s)", ylabel="in time (calls/s)")
        ax.set_xlim(0.0, most)
        ax.set_ylim(0.0, 1.15 * max(1.0, *data.filter(regex="predicted|simulated|in time").max()))
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def attempts_over_time(runs: Runs, *, ax: Axes | None = None) -> Axes:
    """Calls sent in each slice of time as dots, for every run; those of a storm stand out."""
    data = tables.attempts_over_time(runs)
    with style.canvas(ax, height_in=5.5) as ax:
        for place, heading in enumerate(data):
            marker, colour, _ = style.look(place)
            sent = data[heading][data[heading] > 0]
            ax.plot(
                sent.index, sent, marker, color=colour, markersize=8,
                label=str(heading).removesuffix(" (calls/s)"),
            )  # fmt: skip
        ax.set_yscale("log")
        style.plain_numbers(ax.yaxis)
        ax.set(xlabel="elapsed (s)", ylabel="attempts (calls/s)")
        ax.set_xlim(left=0.0)
        style.key_above(ax)
    return ax


def latency_from(runs: Runs, prediction: Curve | None = None, *, ax: Axes | None = None) -> Axes:
    """Latency by the share of calls it covers: filled from when due, hollow from sending.

    `prediction` gives the seconds by the share, for those who ask by a time-table; a line.
    """
    data = tables.latency_from(runs)
    columns = [heading for heading in data.columns if heading != "from"]
    with style.canvas(ax, height_in=6.0) as ax:
        for place, name in enumerate(dict.fromkeys(data.index)):
            marker, colour, _ = style.look(place)
            for _, row in data.loc[[name]].iterrows():
                hollow = row["from"] == "sending"
                ax.plot(
                    range(len(columns)), row[columns].astype(float), marker, color=colour,
                    markerfacecolor="white" if hollow else colour, markeredgewidth=2.5,
                    markersize=13 if hollow else 8, label=f"{name}, from {row['from']}",
                )  # fmt: skip
        if prediction is not None:
            said_ms = [1e3 * (number(prediction(share)) or 0.0) for share in SHARES]
            ax.plot(
                range(len(SHARES)), said_ms, color=style.PREDICTED, zorder=1,
                label="predicted, from due",
            )  # fmt: skip
        ax.set_yscale("log")
        style.plain_numbers(ax.yaxis)
        ax.set_xticks(range(len(columns)), [f"{100 * share:g}" for share in SHARES])
        ax.set(xlabel="share of the calls (%)", ylabel="took no longer than (ms)")
        if len(data):
            ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
    return ax


def limit_over_time(
    history: Sequence[tuple[float, int]],
    prediction: HasValue | float | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """The limits that were chosen as dots, the predicted N* as a line."""
    data = tables.limit_over_time(history, prediction)
    predicted = number(prediction)
    with style.canvas(ax, height_in=4.5) as ax:
        ax.plot(
            data.index, data["limit (calls)"], "o", color=style.MEASURED,
            markersize=7, label="chosen",
        )  # fmt: skip
        if predicted is not None:
            ax.axhline(
                predicted, color=style.PREDICTED, label=f"predicted N* = {predicted:.3g}", zorder=1
            )
        ax.set(xlabel="elapsed (s)", ylabel="limit (calls in flight)")
        ax.set_ylim(0.0, 1.15 * max([*data["limit (calls)"], predicted or 1.0]))
        ax.set_xlim(left=0.0)
        style.key_above(ax)
    return ax
