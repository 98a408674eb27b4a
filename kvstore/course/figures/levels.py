"""One run over time: how many calls were in flight, and how many were answered."""

from matplotlib.axes import Axes

from kvstore.course import tables
from kvstore.course.figures import style
from kvstore.course.named import number
from kvstore.course.predictions import HasValue
from kvstore.measure import Run


def throughput_over_time(
    run: Run, prediction: HasValue | float | None = None, *, ax: Axes | None = None
) -> Axes:
    """Operations answered OK in each slice of the run as dots, the prediction as a line."""
    data = tables.throughput_over_time(run)
    predicted = number(prediction)
    with style.canvas(ax, height_in=4.0) as ax:
        ax.plot(
            data.index, data["measured (operations/s)"], "o", color=style.MEASURED,
            markersize=7, label="measured",
        )  # fmt: skip
        if predicted is not None:
            ax.axhline(predicted, color=style.PREDICTED, label="predicted", zorder=1)
        ax.set(xlabel="elapsed (s)", ylabel="throughput\n(operations/s)")
        ax.set_ylim(0.0, 1.15 * max([*data["measured (operations/s)"], predicted or 0.0, 1e-9]))
        style.plain_numbers(ax.yaxis)
        ax.set_xlim(left=0.0)
        style.key_above(ax)
    return ax


def in_flight_over_time(run: Run, *, ax: Axes | None = None) -> Axes:
    """Calls in flight in each slice of the run as dots, the strategy's limit as a line."""
    data = tables.in_flight_over_time(run)
    with style.canvas(ax, height_in=4.0) as ax:
        ax.plot(
            data.index, data["in flight (calls)"], "o", color=style.MEASURED,
            markersize=7, label="measured",
        )  # fmt: skip
        if run.in_flight:
            ax.axhline(run.in_flight, color=style.GREY, linestyle="--", label="limit", zorder=1)
        ax.set(xlabel="elapsed (s)", ylabel="in flight\n(calls)")
        ax.set_ylim(0.0, 1.15 * max([*data["in flight (calls)"], run.in_flight, 1]))
        ax.set_xlim(left=0.0)
        style.key_above(ax)
    return ax
