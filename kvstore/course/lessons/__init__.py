"""The lessons, what is written in their files, and where this learner stands."""

import base64
import functools
import tomllib
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pandas as pd

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
    numbers_by_title: dict[str, list[str]] = {}
    for number in LESSONS:
        title = FIRST_OF_PART.get(number) or next(reversed(numbers_by_title))
        numbers_by_title.setdefault(title, []).append(number)
    return numbers_by_title


@functools.cache
def _written(lesson: str) -> Mapping[str, Any]:
    """Return what `lesson.toml` of a lesson holds; ValueError, with the file's name."""
    for file in (Path(place, f"lesson_{lesson}", "lesson.toml") for place in __path__):
        if not file.exists():
            continue
        try:
            written = tomllib.loads(file.read_text("utf-8"))
            if "packed" in written:  # in the edition for students, see tools/edition.py
                text = zlib.decompress(base64.b85decode(written["packed"]))
                written = tomllib.loads(text.decode("utf-8"))
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from error
        return written
    return {}


def tables(lesson: str, kind: str) -> Sequence[Mapping[str, Any]]:
    """Return the tables of one kind in `lesson.toml` of a lesson, in their order.

    Each has an `id` that begins with the lesson; ValueError if one has not.
    """
    entries: list[dict[str, Any]] = _written(lesson).get(kind, [])
    ids = [each.get("id", "") for each in entries]
    if len({*ids}) < len(ids) or not all(each.startswith(f"{lesson}.") for each in ids):
        raise ValueError(
            f"lesson.toml of lesson {lesson}: each {kind} needs an id of its own, such as "
            f"{lesson}.name"
        )
    return entries


def words(lesson: str) -> Callable[..., str]:
    """Return a function of a name and of values: the sentence in `says` of `lesson.toml`."""
    says: Mapping[str, str] = _written(lesson).get("says", {})

    def say(name: str, /, **values: object) -> str:
        return says[name].format(**values)

    return say


def progress_by_lesson() -> "pd.DataFrame":
    """One row for each lesson that exists, begun or not, with what `progress` knows of it."""
    import pandas as pd

    from kvstore.course import progress, rendering

    known = progress.by_lesson().reindex(list(LESSONS))
    known.index = pd.Index(list(LESSONS.values()), name="lesson")
    shown = known.astype(object).where(known.notna(), rendering.NONE)
    return shown.map(lambda cell: int(cell) if isinstance(cell, float) else cell)


def your_progress() -> None:
    """Show the learner's progress in the lessons that were begun, and which one to open now.

    Before the first prediction there is nothing to show.
    """
    from kvstore.course import rendering

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


def _next(table: "pd.DataFrame") -> str:
    """The latest lesson that was begun, or the one after it once it was worked through."""
    from kvstore.course.rendering import NONE

    begun = [name for name in table.index if table.loc[name, "predictions made"] != NONE]
    if not begun:
        return str(table.index[0])
    latest = begun[-1]
    place = list(table.index).index(latest)
    predictions, exercises = table.loc[latest, ["predictions made", "exercises passed"]]
    worked_through = _all(predictions) and _all(exercises) and place + 1 < len(table)
    return str(table.index[place + 1] if worked_through else latest)


def _all(share: str) -> bool:
    """Whether "3 of 3" says all, and of more than none."""
    done, _, of = share.partition(" of ")
    return done == of != "0"


def overview() -> "pd.DataFrame":
    """Draw every scored prediction beside its result, and return `progress.by_lesson()`."""
    from kvstore.course import progress
    from kvstore.course.views.calibration import plot_calibration

    questions = progress.questions()
    if any(each.log_error is not None and each.value is not None for each in questions):
        plot_calibration(questions)
    return progress.by_lesson()
