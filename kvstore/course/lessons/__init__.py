"""The lessons, where this learner stands, and how well learners predict."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

import pandas as pd
from matplotlib.axes import Axes

from kvstore.course import progress, rendering
from kvstore.course.views import style

LESSONS: Final[Mapping[str, str]] = {
    "00": "00_start_here",
    "01": "01_blocking",
    "02": "02_futures",
    "03": "03_bounded",
    "04": "04_server",
    "05": "05_pipelined",
    "06": "06_saturation",
    "07": "07_threads_and_coroutines",
    "08": "08_why_80_percent_busy_is_slow",
    "09": "09_overload",
    "10": "10_retries",
    "11": "11_tails",
    "12": "12_beyond_one_machine",
    "13": "13_which_server",
    "14": "14_a_write_that_lasts",
    "15": "15_design_one",
    "16": "16_your_own_service",
}
"""The lessons that exist, in the order in which they are taken."""

FIRST_OF_PART: Final[Mapping[str, str]] = {
    "00": "One call",
    "02": "Many calls",
    "08": "Too many calls",
    "12": "Many machines",
    "15": "A service that you do not know",
}
"""The titles of the parts, each with the lesson that it begins with."""


def parts() -> dict[str, list[str]]:
    """Return the numbers of the lessons of each part, by its title, in their order."""
    found: dict[str, list[str]] = {}
    for number in LESSONS:
        title = FIRST_OF_PART.get(number) or next(reversed(found))
        found.setdefault(title, []).append(number)
    return found


def progress_by_lesson() -> pd.DataFrame:
    """One row for each lesson that exists, begun or not, with what `progress` knows of it."""
    known = progress.by_lesson().reindex(list(LESSONS))
    known.index = pd.Index(list(LESSONS.values()), name="lesson")
    shown = known.astype(object).where(known.notna(), rendering.NONE)
    return shown.map(lambda cell: int(cell) if isinstance(cell, float) else cell)


def your_progress() -> None:
    """Show the learner's progress in the lessons that were begun, and which one to open now.

    Before the first prediction there is nothing to show.
    """
    every = progress_by_lesson()
    table = every[(every != rendering.NONE).any(axis="columns")]
    if table.empty:
        return
    lesson = _next(every)
    where = f"Go on with `{lesson}`."
    link = f'Go on with <a href="{lesson}.ipynb"><code>{rendering.escaped(lesson)}</code></a>.'
    head = ["part", "lesson", *table.columns]
    part_of = {LESSONS[n]: title for title, numbers in parts().items() for n in numbers}
    rows = [[part_of[name], name, *table.loc[name]] for name in table.index]
    rendering.show(
        {
            "text/plain": f"{rendering.plain_table(head, rows)}\n{where}",
            "text/html": rendering.table(head, rows) + f"<p>{link}</p>",
        }
    )


def _next(table: pd.DataFrame) -> str:
    """The latest lesson that was begun, or the one after it once it was worked through."""
    begun = [name for name in table.index if table.loc[name, "predictions made"] != rendering.NONE]
    if not begun:
        return str(table.index[0])
    latest = begun[-1]
    place = list(table.index).index(latest)
    made, passed = table.loc[latest, ["predictions made", "exercises passed"]]
    worked_through = _all(made) and _all(passed) and place + 1 < len(table)
    return str(table.index[place + 1] if worked_through else latest)


def _all(share: str) -> bool:
    """Whether "3 of 3" says all, and of more than none."""
    done, _, of = share.partition(" of ")
    return done == of != "0"


def overview() -> pd.DataFrame:
    """Draw every scored prediction beside its result, and return `progress.by_lesson()`."""
    made = progress.questions()
    if any(each.log_error is not None and each.value is not None for each in made):
        plot_calibration(made)
    return progress.by_lesson()


# ---- calibration --------------------------------------------------------------------------------
# How well a learner predicts over the whole course, and how well a class does.


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
    with style.canvas(height_in=6.5) as ax:
        ax.plot([low, high], [low, high], color=style.PREDICTED, label="exact", zorder=1)
        for factor, name in ((2.0, "off by a factor of 2"), (0.5, None)):
            ax.plot(
                [low, high], [low * factor, high * factor], ":", color=style.INK, linewidth=2,
                label=name, zorder=1,
            )  # fmt: skip
        for place, lesson in enumerate(lessons):
            dots = [
                (each.measured or 0.0, each.value or 0.0)
                for each in scored
                if progress.lesson_of(each.question_id) == lesson
            ]
            ax.plot(
                *zip(*dots, strict=True),
                MARKERS[place % len(MARKERS)], color=COLOURS[place % len(COLOURS)],
                markeredgecolor="black", label=f"lesson {lesson}", zorder=3,
            )  # fmt: skip
        ax.set(
            xscale="log", yscale="log", xlim=(low, high), ylim=(low, high),
            xlabel="measured (in the unit of the question)", ylabel="predicted (in the same unit)",
        )  # fmt: skip
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
    with style.canvas(height_in=2.0 + 0.55 * len(names), rows=names) as ax:
        ax.axvline(1.0, color=style.PREDICTED, label="exact", zorder=1)
        for row, name in enumerate(names):
            values = sorted(ratios[name])
            middle = (len(values) - 1) / 2
            shifts = [0.5 * (place - middle) / max(1, len(values)) for place in range(len(values))]
            ax.plot(
                values, [row + shift for shift in shifts], "o", color=style.MEASURED, alpha=0.7,
                label="a student" if row == 0 else None, zorder=2,
            )  # fmt: skip
            ax.plot(
                statistics.median(values), row, "D", color=style.ORANGE, markeredgecolor="black",
                label="median of the class" if row == 0 else None, zorder=3,
            )  # fmt: skip
        ax.set(
            xscale="log", xlabel="predicted / measured (1 is exact)", ylabel="question (name)"
        )  # fmt: skip
    return ax
