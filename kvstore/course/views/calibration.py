"""How well a learner predicts over the whole course, and how well a class does."""

import statistics
from collections.abc import Sequence
from typing import Final

import pandas as pd
from matplotlib.axes import Axes

from kvstore.course import progress
from kvstore.course.views import style

MARKERS: Final = "osDv^P*Xd<>ph8"
"""The dot of each lesson; it takes another colour as well."""
COLOURS: Final = (style.BLUE, style.GREEN, style.PURPLE, style.ORANGE, style.SKY, style.INK)


def plot_calibration(questions: Sequence[progress.Question]) -> Axes:
    """Predicted over measured on logarithmic axes, a dot for each scored prediction.

    Questions of all units share the axes: a dot on the diagonal was exact, one beyond the dotted
    lines was wrong by more than a factor of 2. ValueError when no prediction was scored.
    """
    scored = [each for each in questions if each.value is not None and each.log_error is not None]
    if not scored:
        raise ValueError("no prediction was scored so far: predict, run and compare first")
    lessons = sorted({progress.lesson_of(each.question_id) for each in scored})
    numbers = [n for each in scored for n in (each.value, each.measured) if n is not None]
    low, high = min(numbers) / 3, max(numbers) * 3
    with style.canvas(
        height_in=style.HIGH_IN, title="Your predictions, and what was measured"
    ) as ax:
        ax.plot([low, high], [low, high], color=style.PREDICTED, label="exact", zorder=1)
        for factor, name in ((2.0, "off by a factor of 2"), (0.5, None)):
            ax.plot(
                [low, high],
                [low * factor, high * factor],
                ":",
                color=style.INK,
                linewidth=2,
                label=name,
                zorder=1,
            )
        for place, lesson in enumerate(lessons):
            dots = [
                (each.measured or 0.0, each.value or 0.0)
                for each in scored
                if progress.lesson_of(each.question_id) == lesson
            ]
            ax.plot(
                *zip(*dots, strict=True),
                MARKERS[place % len(MARKERS)],
                color=COLOURS[place % len(COLOURS)],
                markeredgecolor="black",
                label=f"lesson {lesson}",
                zorder=3,
            )
        ax.set(
            xscale="log",
            yscale="log",
            xlim=(low, high),
            ylim=(low, high),
            xlabel="measured (in the unit of the question)",
            ylabel="predicted (in the same unit)",
        )
    return ax


def plot_class(predictions: pd.DataFrame) -> Axes:
    """Predicted over measured for each question of a class: a dot for each student's first attempt.

    `predictions` has the columns student, question, attempt, predicted and measured. The diamond is
    the median of the class. ValueError when no ratio can be drawn.
    """
    first = predictions.sort_values("attempt").drop_duplicates(["student", "question"])
    first = first[(first["predicted"] > 0) & (first["measured"] > 0)]
    if first.empty:
        raise ValueError("no prediction of the class was scored: there is nothing to draw")
    ratios: dict[str, list[float]] = {}
    for question, predicted, measured in zip(
        first["question"], first["predicted"], first["measured"], strict=True
    ):
        ratios.setdefault(str(question), []).append(float(predicted / measured))
    names = sorted(ratios)
    title = "How far the class was off, question by question"
    with style.canvas(height_in=2.3 + 0.55 * len(names), rows=names, title=title) as ax:
        ax.axvline(1.0, color=style.PREDICTED, label="exact", zorder=1)
        for row, name in enumerate(names):
            values = sorted(ratios[name])
            middle = (len(values) - 1) / 2
            shifts = [0.5 * (place - middle) / max(1, len(values)) for place in range(len(values))]
            ax.plot(
                values,
                [row + shift for shift in shifts],
                "o",
                color=style.MEASURED,
                alpha=0.7,
                label="a student" if row == 0 else None,
                zorder=2,
            )
            ax.plot(
                statistics.median(values),
                row,
                "D",
                color=style.ORANGE,
                markeredgecolor="black",
                label="median of the class" if row == 0 else None,
                zorder=3,
            )
        ax.set(xscale="log", xlabel="predicted / measured (1 is exact)", ylabel="question (name)")
    return ax
