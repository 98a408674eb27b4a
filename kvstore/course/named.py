"""The forms in which figures and tables take runs and predictions, brought to one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from kvstore.course.predictions import HasValue
from kvstore.course.rendering import TIMES
from kvstore.measure import Run

Runs: TypeAlias = Run | Sequence[Run] | Mapping[str, Run]
"""One run, several, or several with names of their own."""

Predictions: TypeAlias = (
    HasValue | float | Sequence[HasValue | float | None] | Mapping[str, HasValue | float] | None
)
"""One prediction, one for each run in their order, or several with names that hold for all."""


def runs_by_name(runs: Runs) -> list[tuple[str, Run]]:
    """Each run with what it is called; runs of the same strategy are numbered apart."""
    if isinstance(runs, Mapping):
        return list(runs.items())
    several = [runs] if isinstance(runs, Run) else list(runs)
    return list(zip(_apart([title(run) for run in several]), several, strict=True))


def title(run: Run) -> str:
    """What a run is called: its strategy, its limit if it has one, connections if several."""
    name = f"{run.strategy} {TIMES}{run.in_flight}" if run.in_flight else run.strategy
    return f"{name} over {run.connections}" if run.connections > 1 else name


def predictions_for(predictions: Predictions, count: int) -> list[float | None]:
    """The predicted number for each of `count` runs, None where there is none.

    ValueError when there are as many predictions as neither one nor the runs.
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
    """The forecast of each process; a single one is the client's."""
    if isinstance(forecast, Mapping):
        return forecast
    return {} if forecast is None else {"client": forecast}


def number(prediction: HasValue | float | None) -> float | None:
    """The number a prediction stands for."""
    return prediction.value if isinstance(prediction, HasValue) else prediction


def _apart(names: Iterable[str]) -> list[str]:
    seen: dict[str, int] = {}
    apart = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        apart.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return apart
