"""How well the learner predicts over the whole course: every prediction beside its result."""

from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes

from kvstore.course import progress
from kvstore.course.views import style

MARKERS: Final = "osDv^P*Xd<>ph8"
"""The dot of each lesson; it takes another colour as well."""
COLOURS: Final = (style.BLUE, style.GREEN, style.PURPLE, style.ORANGE, style.SKY, style.BLACK)


def plot_calibration(questions: Sequence[progress.Question], ax: Axes | None = None) -> Axes:
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
    with style.canvas(ax, height_in=6.5) as ax:
        ax.plot([low, high], [low, high], color=style.PREDICTED, label="exact", zorder=1)
        for factor, name in ((2.0, "off by a factor of 2"), (0.5, None)):
            ax.plot(
                [low, high], [low * factor, high * factor], ":", color=style.GREY, linewidth=2,
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
        style.plain_numbers(ax.xaxis)
        style.plain_numbers(ax.yaxis)
    return ax
