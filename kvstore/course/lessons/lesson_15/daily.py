"""A service a day: open it, and keep its history in the learner's progress."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from kvstore.course import progress, rendering
from kvstore.course.lessons.lesson_15.capstone import Score, Service, opened
from kvstore.course.lessons.lesson_15.judge import days as judged

__all__ = ["DayScore", "DayService", "day", "days"]


@dataclass(frozen=True)
class DayScore(Score):
    """The score of a service of a day. It shows one line to share, and not the points."""

    tries: int = 1

    def __repr__(self) -> str:
        return judged.line_to_share(self.record, self.tries)

    def _forms(self) -> dict[str, Any]:
        return {"text/plain": repr(self), "text/html": rendering.inline(repr(self))}


class DayService(Service):
    """The service of a day. After your run it shows one line to share."""

    def _kept(self, record: dict[str, Any]) -> DayScore:
        share, count = judged.share_of_par(record), judged.purchases(record)
        progress.keep_day(record["practice"], record["final"]["par_per_s"], share, count)
        return DayScore(record, _tries(record["practice"]))


def day(
    date: str | None = None,
    level: str = "B",
    *,
    learner: str | None = None,
    folder: Path | None = None,
) -> DayService:
    """Open the service of a day, by default of today: the same for everybody.

    Level "A" has one station to find, "B" two, and in "C" a server fails, too. Raises `Refused`, a
    ValueError, for another level, and for a day that has not come.
    """
    date, level = judged.checked(date, level)
    return opened(DayService, [f"--day={date}", f"--level={level}"], learner, folder)


def days() -> pd.DataFrame:
    """Return your best result for each service of a day, the newest day first."""
    rows = [
        (name, round(best.par_per_s), round(best.share, 2), best.purchases, tries)
        for name, (best, tries) in progress.days().items()
    ]
    columns = ["service", "par (calls/s)", "mine / par", "purchases", "tries"]
    return pd.DataFrame(rows, columns=columns).set_index("service").sort_index(ascending=False)


def _tries(name: str) -> int:
    return progress.days()[name][1]
