"""The page that learners land on: which lessons there are, and where this learner stands."""

from collections.abc import Mapping
from typing import Final

import pandas as pd

from kvstore.course import progress, rendering

LESSONS: Final[Mapping[str, str]] = {
    "00": "00_start_here",
    "01": "01_blocking",
    "02": "02_futures",
    "03": "03_bounded",
    "04": "04_server",
    "05": "05_pipelined",
    "06": "06_saturation",
    "07": "07_threads_and_coroutines",
    "08": "08_overload",
    "09": "09_retries_and_tails",
    "10": "10_beyond_one_machine",
    "11": "11_a_write_that_lasts",
    "12": "12_design_one",
    "13": "13_your_own_service",
}
"""The lessons that exist, in the order in which they are taken."""


def progress_by_lesson() -> pd.DataFrame:
    """One row for each lesson that exists, begun or not, with what `progress` knows of it."""
    known = progress.by_lesson().reindex(list(LESSONS))
    known.index = pd.Index(list(LESSONS.values()), name="lesson")
    shown = known.astype(object).where(known.notna(), rendering.NONE)
    return shown.map(lambda cell: int(cell) if isinstance(cell, float) else cell)


def your_progress() -> None:
    """Show the learner's progress in every lesson, and which one to open now."""
    table = progress_by_lesson()
    lesson = _next(table)
    where = f"Go on with `{lesson}`."
    link = f'Go on with <a href="{lesson}.ipynb"><code>{rendering.escaped(lesson)}</code></a>.'
    head = ["lesson", *table.columns]
    rows = [[name, *table.loc[name]] for name in table.index]
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
