"""A made-up lesson 97: what a lesson's module of questions looks like."""

from kvstore.course.questions import (
    Camp,
    Curve,
    Option,
    PredictionQuestion,
    QuizQuestion,
    computed,
)
from kvstore.model import Prediction

EVALUATED = []
"""The runs with which a model was evaluated."""


def _lock(*runs):
    EVALUATED.append(runs)
    return Prediction(0.04, "s", "1 / 25")


PREDICTIONS = (
    PredictionQuestion(
        "97.rate",
        "How many calls per second?",
        measured=lambda run: run.answered_per_s,
        model=lambda run: Prediction(2.0, "calls/s", "two a second", "lock"),
        main=True,
        binds="cpu",
    ),
    PredictionQuestion("97.wait", unit="ms", measured=lambda *runs: 50.0, model=_lock),
    computed("97.plain", "", "calls/s"),
    computed(
        "97.rates",
        "",
        "calls/s",
        camps=(
            Camp(40, lacks="that is the mean of the four *rates*"),
            Camp(20, lacks="the slowest one decides"),
        ),
        far_off="as for nearly everybody",
    ),
    computed("97.main", "", "calls/s", main=True),
    computed("97.busy", "", "calls/s", main=True, binds="cpu"),
    computed("97.operations", "", "operations/s"),
    computed("97.ms", "", "ms"),
    computed("97.s", "", "s"),
    computed("97.times", "", "times"),
    computed("97.nasty", "<script>", '<script>alert("1")</script>'),
    computed("97.share", "", "of the calls"),
    Curve(
        "97.curve",
        "How many calls per second?",
        over="calls in flight, N",
        xs=(1, 10, 20),
        most=100,
        measured=lambda runs: {n: run.answered_per_s for n, run in runs.items()},
        model=lambda runs: {1: 2.0, 20: 40.0},
    ),
    PredictionQuestion("97.gain", unit="times", measured=lambda few, many: len(many) / len(few)),
)

QUIZ = (
    QuizQuestion(
        "97.double",
        "The lock is `held` for half the time. What is X?",
        (
            Option("the same", why="The lock was the bottleneck."),
            Option("twice as high", right=True, why="X is at most 1/S."),
        ),
    ),
    QuizQuestion(
        "97.cores",
        "Twice the cores?",
        (Option("no change", right=True, why="None was busy."), Option("twice", why="Idle <b>.")),
    ),
)
