"""The figures of lesson 02: latency by reply, memory by calls in flight, memory over time."""

import math
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from kvstore import numbers
from kvstore.course.lessons.lesson_02.memory_experiment import Probe, sending
from kvstore.course.views import MB, plot_measured_over_predicted, style
from kvstore.measure import Run
from kvstore.model import Prediction
from kvstore.protocol import NO_ANSWER


def latency_by_answer(run: Run, predicted: Prediction) -> Axes:
    """Draw latency over the number of the reply; a line is k / X of a predicted X in calls/s."""
    answered = run.records[run.records["status"] != NO_ANSWER]
    every = max(1, len(answered) // 100)
    number_of = np.arange(1, len(answered) + 1)
    latency_s = answered["done_s"] - answered["sent_s"]
    ends = np.array([0, len(answered)])
    return plot_measured_over_predicted(
        {"measured": (number_of[::every], latency_s[::every])},
        {"predicted: k / X": (ends, ends / predicted.value)},
        xlabel="answered as number, k (call)",
        ylabel="latency (s)",
        title="How long each call took, in the order of the replies",
        small=True,
    )


def memory_by_in_flight(run: Run, probe: Probe) -> Axes:
    """Draw the memory of client and server over the calls in flight, while the run was sending."""
    samples = sending(run)
    ends = np.array([0.0, samples["in_flight"].max()])
    ax = plot_measured_over_predicted(
        {side: (samples["in_flight"], samples[f"{side}_rss_bytes"] / MB) for side in probe.lines},
        {
            f"{side}, {line.bytes_per_call / 1e3:,.0f} kB per call": (
                ends,
                (line.base_bytes + line.bytes_per_call * ends) / MB,
            )
            for side, line in probe.lines.items()
        },
        xlabel="in flight (calls)",
        ylabel="resident memory (MB)",
        title="Memory grows with the calls in flight",
        small=True,
    )
    ax.autoscale(axis="y")  # the growth is what counts, and not the memory without calls
    return ax


def memory(run: Run, forecasts: Mapping[str, Prediction], ceiling_bytes: float) -> Axes:
    """Draw the memory of client and server as dots, the ceiling and the forecasts as lines.

    `forecasts` has the predicted time in seconds at which each process reaches the ceiling. A
    forecast of never has no line.
    """
    samples, ceiling_mb = run.samples, ceiling_bytes / MB
    reached_s = {side: at.value for side, at in forecasts.items() if math.isfinite(at.value)}
    soonest_s = min(reached_s.values(), default=math.inf)
    ends_s = samples["elapsed_s"].max() if len(samples) else 1.0
    with style.canvas(title="Memory, until one process is full") as ax:
        for side, (marker, colour, dashes) in style.PROCESSES.items():
            held = samples[f"{side}_rss_bytes"].dropna() / MB
            if not len(held):
                continue
            ax.plot(
                samples.loc[held.index, "elapsed_s"],
                held,
                marker,
                color=colour,
                markersize=6,
                label=f"{side}, measured",
            )
            if side in reached_s:
                ax.plot(
                    [0.0, reached_s[side]],
                    [held.iloc[0], ceiling_mb],
                    color=style.PREDICTED,
                    linestyle=dashes,
                    label=f"{side}, forecast",
                )
        if reached_s:
            ax.annotate(
                f"forecast {numbers.number(soonest_s)} s",
                (soonest_s, ceiling_mb),
                (0, 8),
                textcoords="offset points",
                color=style.PREDICTED,
                ha="center",
            )
            ends_s = max(ends_s, soonest_s)
        early = soonest_s < 0.4 * ends_s  # the other label is on the left
        ax.axhline(ceiling_mb, color=style.INK, linestyle="--", linewidth=2)
        ax.annotate(
            f"ceiling {ceiling_mb:,.0f} MB",
            (float(early), ceiling_mb),
            (-4 if early else 4, 8),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right" if early else "left",
        )
        most_mb = max([1.0, *samples.filter(like="_rss_bytes").max().dropna() / MB])
        ax.set(xlabel="elapsed (s)", ylabel="resident memory (MB)")
        ax.set_xlim(0.0, 1.08 * ends_s)
        ax.set_ylim(0.0, 1.1 * max(most_mb, ceiling_mb))
    return ax
