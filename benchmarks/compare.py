"""Compare two files of one benchmark row by row: ratios, spreads, and which rows differ.

The rounds show how much a figure varies within one session. Two rows differ if all rounds of one
lie above all rounds of the other. If all bare loops differ too, the sessions differ as a whole.
"""

from typing import Any

import numpy as np
import pandas as pd

from benchmarks.results import Results, Row

FEWEST_ROUNDS = 3
"""With fewer rounds in a file, their spread is not used."""
TOO_FEW = "too few rounds"
SHOWN = 3
"""The number of names to list of rows that are in one file only."""
FIGURES = {
    "operations/s": "per_s",
    "client CPU": "client_cpu_s",
    "server CPU": "server_cpu_s",
}


def compare(old: Results, new: Results) -> pd.DataFrame:
    """Return new / old and a verdict for every figure of the rows that both files have."""
    before = {row.name: row for row in old.rows if row.rounds}
    rows = [
        _compared(before[row.name], row) for row in new.rows if row.rounds and row.name in before
    ]
    return pd.DataFrame(rows)


def verdict(old: Row, new: Row, figure: str) -> str:
    """Return "higher" or "lower" if a figure differs beyond the spread of the rounds, or "same"."""
    if min(len(old.known(figure)), len(new.known(figure))) < FEWEST_ROUNDS:
        return TOO_FEW
    (old_low, old_high), (new_low, new_high) = old.spread(figure), new.spread(figure)
    if new_low > old_high:
        return "higher"
    return "lower" if new_high < old_low else "same"


def missing(old: Results, new: Results) -> list[str]:
    """Return the names of the rows that only one of the files has."""
    names = [{row.name for row in each.rows if row.rounds} for each in (old, new)]
    return sorted(names[0] ^ names[1])


def changed_conditions(old: Results, new: Results) -> list[str]:
    """Return the differences between hosts and settings, which can cause differences in figures."""
    return [
        f"{name}: {before.get(name)} before, {after.get(name)} now"
        for before, after in ((old.host, new.host), (old.settings, new.settings))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def report(old: Results, new: Results) -> str:
    """Return the whole comparison as text."""
    table = compare(old, new)
    lines = [f"{old.started_at} (old) against {new.started_at} (new)"]
    lines += [f"  other conditions: {changed}" for changed in changed_conditions(old, new)]
    if alone := missing(old, new):
        more = ", ..." if len(alone) > SHOWN else ""
        lines.append(f"  {len(alone)} rows in one of them only: {', '.join(alone[:SHOWN])}{more}")
    if table.empty:
        return "\n".join([*lines, "no row is in both"])
    judged = [f"{figure} is" for figure in FIGURES]
    if (table[judged] == TOO_FEW).all(axis=None):
        shown = table.drop(columns=judged)
        lines.append(f"  no verdict: it takes {FEWEST_ROUNDS} rounds in both files")
        return "\n".join([*lines, "", shown.to_string(index=False)])
    lines += ["", table.to_string(index=False), ""]
    for figure in FIGURES:
        found = table[table[f"{figure} is"].isin(["higher", "lower"])]
        names = ", ".join(f"{row['row']} ({row[f'{figure} is']})" for _, row in found.iterrows())
        lines.append(f"{figure} beyond the spread of the rounds: {names or 'none'}")
    return "\n".join(lines)


def _compared(old: Row, new: Row) -> dict[str, Any]:
    compared: dict[str, Any] = {"row": new.name}
    for title, figure in FIGURES.items():
        before, after = old.median(figure), new.median(figure)
        compared[f"{title} new/old"] = round(after / before, 3) if before else float("nan")
        if figure == "per_s":
            compared |= {
                "old": f"{before:,.0f}",
                "old spread": _spread(old, figure),
                "new": f"{after:,.0f}",
                "new spread": _spread(new, figure),
            }
        compared[f"{title} is"] = verdict(old, new, figure)
    return compared


def _spread(row: Row, figure: str) -> str:
    """Return half the range of the rounds over their median, in per cent."""
    if len(row.known(figure)) < 2:
        return "one round"
    low, high = row.spread(figure)
    median = row.median(figure)
    return f"±{100 * (high - low) / 2 / median:.0f} %" if median and not np.isnan(median) else ""
