"""A service a day: open it, and keep its history in the learner's progress."""

from pathlib import Path

import pandas as pd

from kvstore.course import progress, rendering
from kvstore.course.exercises import NotAttempted
from kvstore.course.lessons.lesson_12.capstone import Client, Score, Service, opened
from kvstore.judge import days as judged

__all__ = ["DayService", "day", "days"]


class DayService(Service):
    """The service of a day. After your run it shows one line to share."""

    def run(self, client: Client | NotAttempted) -> Score | None:
        """Run your client as on any service; then show the line to share."""
        score = super().run(client)
        if score is not None:
            rendering.say(judged.line_to_share(score.record, _tries(score.record["practice"])))
        return score

    def _keep(self, score: Score) -> None:
        record = score.record
        share, count = judged.share_of_par(record), judged.purchases(record)
        progress.keep_day(record["practice"], record["final"]["par_per_s"], share, count)


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
