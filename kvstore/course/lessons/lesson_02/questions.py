"""What lesson 02 asks."""

from typing import Final

from kvstore.course.lessons.lesson_02 import memory_experiment
from kvstore.course.questions import Answer
from kvstore.measure import Run
from kvstore.model import Prediction


def _read_s(run: Run) -> float:
    return float(run.server.settings.read_delay_s)


def forecast_s(probe: Run, run: Run) -> Prediction:
    """When the ceiling was to be reached, from the numbers of the probe."""
    ceiling = float(run.settings["memory_ceiling_bytes"])
    return memory_experiment.forecast(memory_experiment.probe(probe), ceiling)


ANSWERS: Final = {
    "02.makespan": Answer(
        lambda run: run.window_s,
        lambda run: Prediction(_read_s(run), "s", "all reads wait for the disk together"),
    ),
    "02.last_answer": Answer(
        lambda run: float(run.calls["residence_s"].max()),
        lambda run: Prediction(
            run.issued * _read_s(run), "s", f"{run.issued} calls go through the lock, one by one"
        ),
    ),
    "02.ceiling": Answer(lambda probe, run: memory_experiment.stopped_s(run), forecast_s),
}
