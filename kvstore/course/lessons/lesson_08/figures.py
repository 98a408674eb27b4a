"""The figures and tables of lesson 08: the time of a call over the utilisation."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from kvstore.course.lessons.lesson_08 import questions as facts
from kvstore.course.views import style
from kvstore.course.views.style import by_row, rounded
from kvstore.measure import Run

FACTOR_P99 = math.log(100)
"""p99 over the mean, 4.6: with random arrivals and exponential service times, the residence times
are exponential too, and the percentile p of such a time is ln(1 / (1 - p)) times its mean."""


def busy_table(runs: Mapping[float, Run], service_s: float) -> pd.DataFrame:
    """Return the mean and the p99 at each utilisation, measured, played and by the law."""
    rows = []
    for busy, run in runs.items():
        played = facts.played_ms(run, service_s)
        law_ms = 1e3 * facts.law(busy, service_s, "exponential").value
        rows.append(
            {
                "U": busy,
                "calls": len(run.records),
                "S/(1-U) (ms)": law_ms,
                "on paper (ms)": float(np.mean(played)),
                "measured (ms)": facts.mean_ms(run),
                "measured ÷ on paper": facts.mean_ms(run) / float(np.mean(played)),
                "p99: 4.6 S/(1-U) (ms)": FACTOR_P99 * law_ms,
                "p99, measured (ms)": facts.p99_ms(run),
            }
        )
    return rounded(by_row(rows, "U"))


def over_utilisation(runs: Mapping[float, Run], service_s: float) -> Axes:
    """Draw the mean and the p99 over the utilisation: dots for the runs, lines for the law."""
    line = np.linspace(0.02, max(runs), 200)
    mean_ms = np.array([1e3 * facts.law(busy, service_s, "exponential").value for busy in line])
    places = list(runs)
    with style.canvas(height_in=5.5) as ax:
        for factor, dashes, name in ((FACTOR_P99, "--", "p99"), (1.0, "-", "mean")):
            ax.plot(
                line, factor * mean_ms, color=style.PREDICTED, linestyle=dashes,
                label=f"the law: {name}", zorder=1,
            )  # fmt: skip
        for marker, colour, name, value in (
            ("s", style.GREEN, "p99", facts.p99_ms), ("o", style.MEASURED, "mean", facts.mean_ms),
        ):  # fmt: skip
            ax.plot(
                places, [value(run) for run in runs.values()], marker, color=colour,
                markersize=9, label=f"measured: {name}", zorder=3,
            )  # fmt: skip
        ax.set(xlabel="utilisation, U", ylabel="time of a call (ms)")
        ax.set_xlim(0.0, 1.0)
        ax.set_ylim(bottom=0.0)
    return ax


def changes_table(runs: Mapping[str, Run]) -> pd.DataFrame:
    """Return what each change brings: the mean and the p99 of the answered calls, the refused."""
    rows = [
        {
            "change": name,
            "mean (ms)": facts.mean_ms(run),
            "p99 (ms)": facts.p99_ms(run),
            "refused (%)": 100 * (1 - run.operations_ok / run.issued),
        }
        for name, run in runs.items()
    ]
    return rounded(by_row(rows, "change"))
