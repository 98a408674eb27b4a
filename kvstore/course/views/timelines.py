"""One run over time: throughput, calls in flight, latency, memory, and its single calls."""

import math
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kvstore import numbers
from kvstore.course.rendering import HasValue
from kvstore.course.views import style
from kvstore.course.views.style import (
    MB,
    forecast_by_side,
    number,
    rounded,
    slices,
    window_s,
)
from kvstore.measure import Run
from kvstore.measure.audit import in_flight_between
from kvstore.protocol import NO_ANSWER, OK


def throughput_over_time_table(
    run: Run, prediction: HasValue | float | None = None
) -> pd.DataFrame:
    """Return the operations answered OK per second in each slice of the run."""
    ok = run.calls[run.calls["ok_operations"] > 0]
    counts, edges = np.histogram(
        ok["done_s"], bins=slices(run), range=(0.0, window_s(run)), weights=ok["ok_operations"]
    )
    table = pd.DataFrame(
        {
            "elapsed (s)": (edges[:-1] + edges[1:]) / 2,
            "measured (operations/s)": counts / np.diff(edges),
        }
    ).set_index("elapsed (s)")
    if prediction is not None:
        table["predicted (operations/s)"] = number(prediction)
    return rounded(table)


def in_flight_over_time_table(run: Run) -> pd.DataFrame:
    """Return the mean number of calls in flight in each slice of the run."""
    edges = np.linspace(0.0, window_s(run), slices(run) + 1)
    mean = in_flight_between(run.records["sent_s"], run.records["done_s"], edges)
    middles = (edges[:-1] + edges[1:]) / 2
    return rounded(
        pd.DataFrame({"elapsed (s)": middles, "in flight (calls)": mean}).set_index("elapsed (s)")
    )


def latency_by_answer_table(run: Run, prediction: HasValue | float | None = None) -> pd.DataFrame:
    """Return the latency of each answered call, in the order of the replies.

    `prediction` is a throughput X in calls per second. If all calls are sent at once, the k-th
    reply is predicted after k / X.
    """
    answered = run.records[run.records["status"] != NO_ANSWER]
    number_of = np.arange(1, len(answered) + 1)
    table = pd.DataFrame(
        {"measured (s)": answered["done_s"] - answered["sent_s"]},
        index=pd.Index(number_of, name="answered as number"),
    )
    if prediction is not None:
        table["predicted (s)"] = number_of / (number(prediction) or math.nan)
    return rounded(table)


def answered_over_time_table(
    runs: Mapping[str, Run],
    prediction: HasValue | float | None = None,
    *,
    slice_s: float = 0.25,
    cause_s: tuple[float, float] | None = None,
) -> pd.DataFrame:
    """Return the calls answered OK per second in each slice of time, a column for each run.

    Only slices in which calls were sent: in an open loop, until its duration is over. `cause_s`
    is when the cause of a failure began and ended, in seconds.
    """
    longest_s = max(
        (run.settings.get("duration_s") or run.window_s for run in runs.values()), default=0.0
    )
    edges = np.arange(0.0, max(longest_s, slice_s) + slice_s / 2, slice_s)
    middle = (edges[:-1] + edges[1:]) / 2
    table = pd.DataFrame(index=pd.Index(middle, name="elapsed (s)"))
    for name, run in runs.items():
        ok = run.records[run.records["status"] == OK]
        table[f"{name} (calls/s)"] = np.histogram(ok["done_s"], edges)[0] / slice_s
    table = rounded(table)
    if prediction is not None:
        table["predicted (calls/s)"] = number(prediction)
    if cause_s is not None:
        table["during the cause"] = (middle > cause_s[0]) & (middle < cause_s[1])
    return table


def plot_answered_over_time(
    runs: Mapping[str, Run],
    prediction: HasValue | float | None = None,
    *,
    slice_s: float = 0.25,
    cause_s: tuple[float, float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the calls answered OK per second over time, as dots for each run.

    `prediction` in calls/s is a line. The time of the cause, `cause_s`, is shaded.
    """
    data = answered_over_time_table(runs, slice_s=slice_s)
    predicted = number(prediction)
    with style.canvas(ax, height_in=5.0) as ax:
        for place, heading in enumerate(data):
            marker, colour, _ = style.look(place)
            ax.plot(
                data.index, data[heading], marker, color=colour, markersize=8,
                label=str(heading).removesuffix(" (calls/s)"),
            )  # fmt: skip
        if predicted is not None:
            ax.axhline(predicted, color=style.PREDICTED, label="predicted", zorder=1)
        if cause_s is not None:
            ax.axvspan(*cause_s, color=style.GREY, alpha=0.25, label="the peak", zorder=0)
        ax.set(xlabel="elapsed (s)", ylabel="answered OK (calls/s)")
        ax.set_xlim(left=0.0)
        ax.set_ylim(0.0, 1.15 * max([1.0, predicted or 0.0, *data.max()]))
    return ax


FAR = 4.0
"""A learner's number this many times above what was measured stands at the edge, with an arrow."""


def plot_throughput_over_time(
    run: Run,
    prediction: HasValue | float | None = None,
    *,
    yours: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the operations answered OK in each slice of the run, and the prediction as a line.

    `yours` is the learner's prediction, in operations/s: a line of its own.
    """
    data = throughput_over_time_table(run)
    predicted = number(prediction)
    top = max([*data["measured (operations/s)"], predicted or 0.0, 1e-9])
    with style.canvas(ax, height_in=4.0) as ax:
        ax.plot(
            data.index, data["measured (operations/s)"], "o", color=style.MEASURED,
            markersize=7, label="measured",
        )  # fmt: skip
        if predicted is not None:
            ax.axhline(predicted, color=style.PREDICTED, label="predicted", zorder=1)
        if yours is not None:
            far = yours > FAR * top
            top = max(top, 0.0 if far else yours)
            ax.axhline(
                1.1 * top if far else yours, color=style.PREDICTED, linestyle="--", zorder=1,
                label=f"you said {numbers.rate(yours)}" + (", far above" if far else ""),
            )  # fmt: skip
            if far:
                ax.annotate("↑", (0.5, 1.1 * top), (0, 2), xycoords=("axes fraction", "data"),
                    textcoords="offset points", ha="center", color=style.PREDICTED)  # fmt: skip
        ax.set(xlabel="elapsed (s)", ylabel="throughput\n(operations/s)")
        ax.set_ylim(0.0, 1.15 * top)
        style.plain_numbers(ax.yaxis)
        ax.set_xlim(left=0.0)
    return ax


def plot_in_flight_over_time(run: Run, *, ax: Axes | None = None) -> Axes:
    """Draw the calls in flight in each slice of the run, and the strategy's limit as a line."""
    data = in_flight_over_time_table(run)
    with style.canvas(ax, height_in=4.0) as ax:
        ax.plot(
            data.index, data["in flight (calls)"], "o", color=style.MEASURED,
            markersize=7, label="measured",
        )  # fmt: skip
        if run.in_flight:
            ax.axhline(run.in_flight, color=style.GREY, linestyle="--", label="limit", zorder=1)
        ax.set(xlabel="elapsed (s)", ylabel="in flight\n(calls)")
        ax.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
        ax.set_ylim(0.0, 1.15 * max([*data["in flight (calls)"], run.in_flight, 1]))
        ax.set_xlim(left=0.0)
    return ax


LOOKS = {"client": ("o", style.MEASURED, "-"), "server": ("s", style.GREEN, "--")}
"""Marker, colour, and the dashes of the forecast for each process."""


def plot_memory(
    run: Run,
    forecast: Mapping[str, HasValue | float] | HasValue | float | None = None,
    *,
    ceiling_bytes: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the memory of client and server as dots, the ceiling and the forecast as lines.

    `forecast` is the predicted time at which the client reaches the ceiling, in seconds. A dict
    gives one for each process by its name.
    """
    samples = run.samples
    by_side = {side: _finite(at) for side, at in forecast_by_side(forecast).items()}
    soonest_s = min((at for at in by_side.values() if at is not None), default=None)
    with style.canvas(ax) as ax:
        for side, (marker, colour, dashes) in LOOKS.items():
            held = samples[f"{side}_rss_bytes"].dropna() / MB
            if not len(held):
                continue
            ax.plot(
                samples.loc[held.index, "elapsed_s"], held, marker, color=colour,
                markersize=6, label=f"{side}, measured",
            )  # fmt: skip
            predicted_s = by_side.get(side)
            if ceiling_bytes is not None and predicted_s is not None:
                ax.plot(
                    [0.0, predicted_s], [held.iloc[0], ceiling_bytes / MB],
                    color=style.PREDICTED, linestyle=dashes, label=f"{side}, forecast",
                )  # fmt: skip
        most_mb = max([1.0, *samples.filter(like="_rss_bytes").max().dropna() / MB])
        ends_s = samples["elapsed_s"].max() if len(samples) else 1.0
        if ceiling_bytes is not None and soonest_s is not None:
            ax.annotate(
                f"forecast {numbers.number(soonest_s)} s", (soonest_s, ceiling_bytes / MB), (0, 8),
                textcoords="offset points", color=style.PREDICTED, ha="center",
            )  # fmt: skip
            ends_s = max(ends_s, soonest_s)
        if ceiling_bytes is not None:
            early = soonest_s is not None and soonest_s < 0.4 * ends_s
            ax.axhline(ceiling_bytes / MB, color=style.BLACK, linestyle="--", linewidth=2)
            ax.annotate(
                f"ceiling {ceiling_bytes / MB:,.0f} MB", (float(early), ceiling_bytes / MB),
                (-4 if early else 4, 8), xycoords=("axes fraction", "data"),
                textcoords="offset points", ha="right" if early else "left",
            )  # fmt: skip
        ax.set(xlabel="elapsed (s)", ylabel="resident memory (MB)")
        ax.set_xlim(0.0, 1.08 * ends_s)
        ax.set_ylim(0.0, 1.1 * max(most_mb, (ceiling_bytes or 0.0) / MB))
    return ax


def _finite(at: HasValue | float | None) -> float | None:
    """Return the seconds, or None if the ceiling is never reached."""
    at_s = number(at)
    return at_s if at_s is not None and math.isfinite(at_s) else None


def plot_latency_by_answer(
    run: Run, prediction: HasValue | float | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw latency over the number of the reply; k / X of a predicted throughput is a line."""
    data = latency_by_answer_table(run, prediction)
    every = max(1, len(data) // 100)
    dots = data["measured (s)"].iloc[::every]
    with style.canvas(ax) as ax:
        ax.plot(
            dots.index, dots, "o", color=style.MEASURED, markersize=6, label="measured", zorder=3
        )
        if "predicted (s)" in data:
            ends = np.array([0, len(data)])
            line = [0.0, *data["predicted (s)"].iloc[-1:]]
            ax.plot(ends[: len(line)], line, color=style.PREDICTED, label="predicted: k / X")
        ax.set(xlabel="answered as number, k (call)", ylabel="latency (s)")
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0.0)
    return ax


def calls_over_time_table(
    run: Run,
    *,
    most: int = 120,
    from_s: float = 0.0,
    until_s: float = math.inf,
    lanes: bool = False,
) -> pd.DataFrame:
    """Return the times of the first `most` calls that were sent between `from_s` and `until_s`.

    With `lanes`, also the lane of each call: the lowest one that was free when it was sent.
    """
    calls = run.calls
    chosen = calls[(calls["sent_s"] >= from_s) & (calls["sent_s"] < until_s)].head(most)
    table = pd.DataFrame(
        {
            "operation": chosen["operation"].astype(str).to_numpy(),
            "status": chosen["status"].astype(str).to_numpy(),
            "sent (s)": chosen["sent_s"].to_numpy(),
            "done (s)": chosen["done_s"].to_numpy(),
            "residence (ms)": 1e3 * chosen["residence_s"].to_numpy(),
        },
        index=pd.RangeIndex(1, len(chosen) + 1, name="sent as number"),
    )
    if lanes:
        table.insert(0, "lane", _lanes(chosen["sent_s"], chosen["done_s"]))
    return table


def _lanes(sent_s: Iterable[float], done_s: Iterable[float]) -> list[int]:
    """Return the lowest free lane, from 1, for each call in the order of sending."""
    free_at_s: list[float] = []
    lanes = []
    for sent, done in zip(sent_s, done_s, strict=True):
        lane = next((n for n, at_s in enumerate(free_at_s) if at_s <= sent), len(free_at_s))
        free_at_s[lane : lane + 1] = [done]
        lanes.append(lane + 1)
    return lanes


def reply_order_table(run: Run, *, most: int = 60) -> pd.DataFrame:
    """Return the position of the first `most` calls in the order of sending and of replies."""
    calls = run.calls.head(most)
    table = pd.DataFrame(
        {
            "operation": calls["operation"].astype(str).to_numpy(),
            "answered as number": calls["done_s"].rank(method="first").astype(int).to_numpy(),
            "residence (ms)": 1e3 * calls["residence_s"].to_numpy(),
        },
        index=pd.RangeIndex(1, len(calls) + 1, name="sent as number"),
    )
    return rounded(table)


HATCHED_ROWS = 40
"""With more rows, bars are too thin for hatching: a marker at the start shows the kind."""


def plot_calls_over_time(
    run: Run,
    *,
    most: int = 120,
    from_s: float = 0.0,
    until_s: float = math.inf,
    lanes: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw each call as a bar from sent to done, the first one on top.

    Blocking calls look like a staircase: each begins where the last one ended. Pipelined calls
    look like a slab. With `lanes`, a call is drawn in the topmost free row, so the number of rows
    in use is the number in flight. Drawn are the first `most` calls that were sent between
    `from_s` and `until_s`.
    """
    data = calls_over_time_table(run, most=most, from_s=from_s, until_s=until_s, lanes=lanes)
    place = data["lane"] if lanes else data.index.to_series()
    rows = int(place.max()) if len(data) else 1
    with style.canvas(ax, height_in=min(7.0, 2.2 + 0.2 * max(rows, 5))) as ax:
        for name, (colour, hatch) in style.OPERATIONS.items():
            calls = data[data["operation"] == name]
            if not len(calls):
                continue
            ax.barh(
                place[calls.index], calls["done (s)"] - calls["sent (s)"], left=calls["sent (s)"],
                height=0.8, color=colour, hatch=hatch if rows <= HATCHED_ROWS else "",
                edgecolor="black", linewidth=0.5 if rows <= HATCHED_ROWS else 0.1, label=name,
            )  # fmt: skip
            if rows > HATCHED_ROWS:
                ax.plot(
                    calls["sent (s)"], place[calls.index], style.MARKERS[name], color=colour,
                    markersize=5, markeredgecolor="black", markeredgewidth=0.6,
                )  # fmt: skip
        failed = data[data["status"] != "OK"]
        if len(failed):
            ax.plot(
                failed["done (s)"], place[failed.index], "x", color=style.BLACK,
                markersize=8, linewidth=2, label="not OK",
            )  # fmt: skip
        ax.set(xlabel="elapsed (s)", ylabel="lane (call in flight)" if lanes else "call (number)")
        ax.set_ylim(max(rows, 3) + 0.7, 0.3)
        ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.grid(visible=False, axis="y")
    return ax


def plot_reply_order(run: Run, *, most: int = 60, ax: Axes | None = None) -> Axes:
    """Draw each call's position in the order of replies over its position in the order of sending.

    On the line, replies come in the order of requests. A call below the line overtook others; a
    call above it was overtaken.
    """
    data = reply_order_table(run, most=most)
    with style.canvas(ax, height_in=6.0) as ax:
        ends = [1, max(2, len(data))]
        ax.plot(ends, ends, color=style.PREDICTED, linewidth=2, label="in the order of requests")
        for name, (colour, _) in style.OPERATIONS.items():
            calls = data[data["operation"] == name]
            if len(calls):
                ax.plot(
                    calls.index, calls["answered as number"], style.MARKERS[name], color=colour,
                    markeredgecolor="black", label=name,
                )  # fmt: skip
        ax.set(xlabel="sent as number (call)", ylabel="answered as number (call)")
    return ax
