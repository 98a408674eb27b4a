"""How the calls of a run ended: by status."""

import pandas as pd
from matplotlib.axes import Axes

from kvstore.course.views import style
from kvstore.course.views.stations import stacked
from kvstore.course.views.style import Runs, by_row, runs_by_name

ENDS = {
    "OK": (style.GREEN, ""),
    "CANCELLED": (style.RED, "xxx"),
    "RESOURCE_EXHAUSTED": (style.ORANGE, "..."),
    "DEADLINE_EXCEEDED": (style.PURPLE, "///"),
    "UNAVAILABLE": (style.INK, "---"),
}
"""Colour and hatching of the statuses that overload causes; all others look the same."""
OTHER = (style.SKY, "")


def endings_table(runs: Runs) -> pd.DataFrame:
    """Return the number of calls of each run by status."""
    rows = [
        {"run": name} | {f"{status} (calls)": n for status, n in run.outcomes().items()}
        for name, run in runs_by_name(runs)
    ]
    table = by_row(rows, "run").fillna(0).astype(int)
    table.insert(0, "sent (calls)", [run.issued for _, run in runs_by_name(runs)])
    return table


def plot_endings(runs: Runs) -> Axes:
    """Draw one bar for each run: the share of its calls by status."""
    data = endings_table(runs).rename(columns=lambda heading: heading.removesuffix(" (calls)"))
    ends = 100 * data.drop(columns="sent").div(data["sent"], axis=0)
    looks = {str(name): ENDS.get(str(name), OTHER) for name in ends}
    return stacked(ends, looks, "share of the calls sent (%)")
