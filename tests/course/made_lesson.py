"""A made-up lesson 97: how runs and models answer its questions, which are in made_lesson.toml."""

from kvstore.course.questions import Answer
from kvstore.model import Prediction

EVALUATED = []
"""The runs with which a model was evaluated."""


def _lock(*runs):
    EVALUATED.append(runs)
    return Prediction(0.04, "s", "1 / 25")


ANSWERS = {
    "97.rate": Answer(
        lambda run: run.answered_per_s,
        lambda run: Prediction(2.0, "calls/s", "two a second", "lock"),
    ),
    "97.wait": Answer(lambda *runs: 50.0, _lock),
    "97.curve": Answer(
        lambda runs: {n: run.answered_per_s for n, run in runs.items()},
        lambda runs: {1: 2.0, 20: 40.0},
    ),
    "97.gain": Answer(lambda few, many: len(many) / len(few)),
}
