"""What every table shares: units in the headings, four significant digits."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd

from kvstore.measure import Run

MB: Final = 1e6
SLICES: Final = 40
"""Into how many pieces a run is cut where a table follows it over time."""


def by_row(rows: Sequence[Mapping[str, Any]], index: str) -> pd.DataFrame:
    """One row for each mapping, and the column that names the rows as the index."""
    return pd.DataFrame(rows).set_index(index)


def rounded(table: pd.DataFrame) -> pd.DataFrame:
    """Four significant digits: a reader compares, and no run is more certain than that."""
    return table.map(lambda cell: float(f"{cell:.4g}") if isinstance(cell, float) else cell)


def slices(run: Run) -> int:
    """Fewer slices for few calls, so that a slice is not empty by chance."""
    return max(1, min(SLICES, len(run.records) // 5))


def window_s(run: Run) -> float:
    """Seconds that the run lasted; 1 for an empty one, so that it can be divided by."""
    return run.window_s or 1.0
