"""More than can be served: who was in time, who asked again, and what a limiter chose."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from kvstore.client.retrying import Tried
from kvstore.codes import OK
from kvstore.course.named import Runs, number, runs_by_name
from kvstore.course.predictions import HasValue
from kvstore.course.tables.layout import SLICES, by_row, rounded
from kvstore.measure import Run, goodput

Curve = Callable[[float], HasValue | float]
"""What is predicted for a rate offered, in calls per second, or for a share of the calls."""

SHARES: Final = (0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 1.0)
"""The shares of the calls for which a latency is told."""
HEADINGS: Final = tuple(f"{share:.0%} (ms)" for share in SHARES)


def goodput_by_offered(
    runs: Mapping[str, Sequence[Run]],
    predictions: Mapping[str, Curve] | None = None,
    simulated: Mapping[str, Sequence[float]] | None = None,
    *,
    deadline_s: float | None = None,
) -> pd.DataFrame:
    """For each server and rate: the calls answered in time, and what became of the others.

    `predictions` gives for a server the calls per second in time by the rate offered,
    `simulated` one number for each of its runs. The deadline is that of the run unless given.
    """
    rows: list[dict[str, Any]] = []
    for name, group in runs.items():
        for place, run in enumerate(group):
            found = goodput(run, deadline_s)
            row = {"server": name, "offered (calls/s)": found.offered_per_s}
            if predictions is not None and name in predictions:
                row["predicted (calls/s)"] = number(predictions[name](found.offered_per_s))
            if simulated is not None and name in simulated:
                row["simulated (calls/s)"] = simulated[name][place]
            rows.append(
                row
                | {
                    "in time (calls/s)": found.in_time_per_s,
                    "too late (calls)": found.late,
                    "refused (calls)": found.refused,
                    "done for nobody (calls)": found.wasted,
                }
            )
    return rounded(by_row(rows, "server"))


def attempts_over_time(runs: Runs) -> pd.DataFrame:
    """Calls sent in each slice of the longest run, in calls per second, one column for a run."""
    named = runs_by_name(runs)
    longest_s = max((run.window_s for _, run in named), default=0.0) or 1.0
    edges = np.linspace(0.0, longest_s, SLICES + 1)
    columns = {
        f"{name} (calls/s)": np.histogram(run.records["sent_s"], edges)[0] / np.diff(edges)
        for name, run in named
    }
    middle = pd.Index((edges[:-1] + edges[1:]) / 2, name="elapsed (s)")
    return rounded(pd.DataFrame(columns, index=middle))


def crowd(runs: Mapping[str, Run], operations: Mapping[str, Sequence[Tried]]) -> pd.DataFrame:
    """What it took to serve a crowd that asks again: attempts, and how its operations ended.

    `operations` are those that `Retrying` kept of the run of the same name.
    """
    rows = []
    for name, run in runs.items():
        tried = operations[name]
        ends = Counter(f"ended {operation.status} (operations)" for operation in tried)
        rows.append(
            {
                "way": name,
                "attempts (calls)": run.issued,
                "attempts for each operation": run.issued / max(1, len(tried)),
                "last one ended (s)": run.window_s,
            }
            | ends
        )
    table = rounded(by_row(rows, "way"))
    counts = [str(name) for name in table if str(name).endswith("(operations)")]
    return table.fillna(0).astype(dict.fromkeys(["attempts (calls)", *counts], int))


def latency_from(runs: Runs, prediction: Curve | None = None) -> pd.DataFrame:
    """Latency of the calls answered OK, from sending and from when they were due, in ms.

    One column for each share of the calls that did not take longer. A closed loop has no
    due times, so it is told from sending only. `prediction` gives the seconds by the share.
    """
    rows = []
    for name, run in runs_by_name(runs):
        ok = run.records[run.records["status"] == OK]
        for word, start_s in {"sending": ok["sent_s"], "due": ok["due_s"]}.items():
            if len(ok) and not np.isnan(start_s).any():
                taken_ms = 1e3 * np.quantile(ok["done_s"] - start_s, SHARES)
                shares = {name: float(ms) for name, ms in zip(HEADINGS, taken_ms, strict=True)}
                rows.append({"run": name, "from": word} | shares)
    if prediction is not None:
        said_ms = [1e3 * (number(prediction(share)) or 0.0) for share in SHARES]
        predicted = {"run": "predicted", "from": "due"}
        rows.append(predicted | dict(zip(HEADINGS, said_ms, strict=True)))
    columns = ["run", "from", *HEADINGS]
    return rounded(pd.DataFrame(rows, columns=columns).set_index("run"))


def limit_over_time(
    history: Sequence[tuple[float, int]], prediction: HasValue | float | None = None
) -> pd.DataFrame:
    """The limit that a limiter chose, from each moment on, beside the predicted N*."""
    table = pd.DataFrame(
        {"limit (calls)": [limit for _, limit in history]},
        index=pd.Index([at_s for at_s, _ in history], name="elapsed (s)", dtype=float),
    )
    if prediction is not None:
        table["predicted N* (calls)"] = number(prediction)
    return rounded(table)
