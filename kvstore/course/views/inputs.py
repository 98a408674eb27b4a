"""The forms in which tables and figures take runs and predictions, and helpers of tables.

Runs are one run, a sequence, or a mapping by name. Tables have four significant digits.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pandas as pd

from kvstore.course.predictions import HasValue
from kvstore.course.rendering import TIMES
from kvstore.measure import Run

Runs: TypeAlias = Run | Sequence[Run] | Mapping[str, Run]
"""One run, several, or several by name."""

Predictions: TypeAlias = (
    HasValue | float | Sequence[HasValue | float | None] | Mapping[str, HasValue | float] | None
)
"""One prediction, one for each run in their order, or several by name that apply to all runs."""


def runs_by_name(runs: Runs) -> list[tuple[str, Run]]:
    """Return each run with its name; runs of the same strategy are numbered."""
    if isinstance(runs, Mapping):
        return list(runs.items())
    several = [runs] if isinstance(runs, Run) else list(runs)
    return list(zip(_apart([title(run) for run in several]), several, strict=True))


def title(run: Run) -> str:
    """Return the name of a run: its strategy, its limit if any, its connections if several."""
    name = f"{run.strategy} {TIMES}{run.in_flight}" if run.in_flight else run.strategy
    return f"{name} over {run.connections}" if run.connections > 1 else name


def predictions_for(predictions: Predictions, count: int) -> list[float | None]:
    """Return the predicted number for each of `count` runs; None for a run without one.

    Raise ValueError unless there are none, one or `count` predictions.
    """
    if isinstance(predictions, Mapping):
        return [None] * count
    if isinstance(predictions, Sequence):
        if len(predictions) not in (0, count):
            raise ValueError(
                f"{len(predictions)} predictions for {count} runs: give one for each run, "
                "or name them in a dict to draw each across all runs"
            )
        return [number(each) for each in predictions] or [None] * count
    return [number(predictions)] * count


def forecast_by_side(
    forecast: Mapping[str, HasValue | float] | HasValue | float | None,
) -> Mapping[str, HasValue | float]:
    """Return the forecast of each process; a single forecast is the client's."""
    if isinstance(forecast, Mapping):
        return forecast
    return {} if forecast is None else {"client": forecast}


def number(prediction: HasValue | float | None) -> float | None:
    """Return the value of a prediction, or the number itself."""
    return prediction.value if isinstance(prediction, HasValue) else prediction


def _apart(names: Iterable[str]) -> list[str]:
    seen: dict[str, int] = {}
    apart = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        apart.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return apart


MB: Final = 1e6
SLICES: Final = 40
"""The number of slices of a run in a table over time."""


def by_row(rows: Sequence[Mapping[str, Any]], index: str) -> pd.DataFrame:
    """Return a table with one row for each mapping, indexed by the column `index`."""
    return pd.DataFrame(rows).set_index(index)


class Table(pd.DataFrame):
    """A table that shows each number with its own digits: 1,001 below 50.2, and not 1001.0."""

    @property
    def _constructor(self) -> type["Table"]:
        return Table

    def _repr_html_(self) -> str:
        return str(self.to_html(border=0, max_rows=60, float_format="{:,.10g}".format))

    def __repr__(self) -> str:
        with pd.option_context("display.float_format", "{:,.10g}".format):
            return super().__repr__()


def rounded(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with four significant digits: no run is more certain than that."""
    return Table(table.map(lambda cell: float(f"{cell:.4g}") if isinstance(cell, float) else cell))


def slices(run: Run) -> int:
    """Return the number of slices: fewer for few calls, so that no slice is empty by chance."""
    return max(1, min(SLICES, len(run.records) // 5))


def window_s(run: Run) -> float:
    """Return the seconds that the run lasted; 1 for an empty run, to be divided by."""
    return run.window_s or 1.0
