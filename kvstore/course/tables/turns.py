"""Bursts: turn by turn, how calls ended, and what the garbage collector did meanwhile."""

import math
from collections.abc import Mapping

import pandas as pd

from kvstore import measure
from kvstore.course.named import Runs, number, runs_by_name
from kvstore.course.predictions import HasValue
from kvstore.course.tables.layout import MB, by_row, rounded
from kvstore.measure import Run
from kvstore.measure.collected import columns

SIDES = ("client", "server")


def turns(
    run: Run,
    prediction: HasValue | float | None = None,
    *,
    memory: Mapping[str, HasValue | float] | None = None,
) -> pd.DataFrame:
    """Each turn of a run: seconds until it was answered, and the memory it took on both sides.

    `prediction` is the seconds of a turn; `memory`, by the name of the process, its megabytes.
    """
    seen = measure.turns(run)
    table = pd.DataFrame(
        {
            "answered after (s)": seen["answered_s"],
            "sent after (s)": seen["sending_s"],
            "most in flight (calls)": seen["most_in_flight"],
            "not OK (calls)": seen["calls"] - seen["ok"],
        }
    )
    if prediction is not None:
        table.insert(1, "predicted (s)", number(prediction))
    for side in SIDES:
        table[f"{side}, most (MB)"] = seen[f"{side}_bytes"] / MB
        if memory and side in memory:
            table[f"{side}, predicted (MB)"] = number(memory[side])
    return rounded(table)


def endings(runs: Runs) -> pd.DataFrame:
    """How many calls of each run ended OK, and how many with which other status."""
    rows = [
        {"run": name} | {f"{status} (calls)": n for status, n in run.outcomes().items()}
        for name, run in runs_by_name(runs)
    ]
    table = by_row(rows, "run").fillna(0).astype(int)
    table.insert(0, "sent (calls)", [run.issued for _, run in runs_by_name(runs)])
    return table


def collections(runs: Runs) -> pd.DataFrame:
    """What the garbage collectors of client and server did in each run, up to its last sample.

    NaN where a process could not tell.
    """
    rows = []
    for name, run in runs_by_name(runs):
        for side in SIDES:
            told = run.samples[columns(side)]
            young, middle, full, pause_s = told.iloc[-1] if len(told) else [math.nan] * 4
            rows.append(
                {
                    "run": f"{name}, {side}",
                    "young (collections)": young,
                    "middle (collections)": middle,
                    "full (collections)": full,
                    "for 1,000 calls (collections)": 1e3 * (young + middle + full) / run.issued,
                    "paused (ms)": 1e3 * pause_s,
                    "paused (% of the run)": 100 * pause_s / (run.window_s or 1.0),
                }
            )
    return rounded(by_row(rows, "run"))
