"""The figure and the table of lesson 10: a crowd that tries again."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from kvstore.client.overload import Attempts
from kvstore.course.views import style
from kvstore.course.views.style import SLICES, Runs, by_row, rounded, runs_by_name
from kvstore.measure import Run


def attempts_over_time(runs: Runs) -> Axes:
    """Draw the calls sent per second in each slice of time, as dots for each run."""
    named = runs_by_name(runs)
    longest_s = max((run.window_s for _, run in named), default=0.0) or 1.0
    edges = np.linspace(0.0, longest_s, SLICES + 1)
    middle = (edges[:-1] + edges[1:]) / 2
    with style.canvas(height_in=5.5) as ax:
        for place, (name, run) in enumerate(named):
            marker, colour, _ = style.look(place)
            per_s = np.histogram(run.records["sent_s"], edges)[0] / np.diff(edges)
            sent = per_s > 0
            ax.plot(middle[sent], per_s[sent], marker, color=colour, markersize=8, label=name)
        ax.set_yscale("log")
        ax.set(xlabel="elapsed (s)", ylabel="attempts (calls/s)")
        ax.set_xlim(left=0.0)
    return ax


def crowd_table(
    runs: Mapping[str, Run], operations: Mapping[str, Sequence[Attempts]]
) -> pd.DataFrame:
    """Return the attempts that clients with retries needed, and the outcomes of their operations.

    `operations` are those that `Retrying` recorded in the run of the same name.
    """
    rows = []
    for name, run in runs.items():
        recorded = operations[name]
        ends = Counter(f"ended {operation.status} (operations)" for operation in recorded)
        rows.append(
            {
                "retries": name,
                "attempts (calls)": run.issued,
                "attempts per operation": run.issued / max(1, len(recorded)),
                "last operation ended (s)": run.window_s,
            }
            | ends
        )
    table = rounded(by_row(rows, "retries"))
    counts = [str(name) for name in table if str(name).endswith("(operations)")]
    return table.fillna(0).astype(dict.fromkeys(["attempts (calls)", *counts], int))
