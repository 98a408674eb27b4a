"""The services of a day: the same for everybody, in three levels of difficulty, with a par.

A service follows from its day, its level and a salt, and it is drawn in the judge's process. All
are closed loops, so that one figure compares them: the throughput beside par.
"""

import datetime
import itertools
import random
from collections.abc import Mapping
from typing import Any, Final

from kvstore.course.lessons.lesson_15.judge import cases
from kvstore.course.lessons.lesson_15.judge.cases import MOST_IN_FLIGHT, Case
from kvstore.course.lessons.lesson_15.judge.sitting import LOST, RUN_S, Refused, Sitting, lines_of
from kvstore.course.lessons.lesson_15.judge.traffic import Load, plan, simulate

LEVELS: Final[Mapping[str, tuple[bool, bool]]] = {
    "A": (False, False), "B": (True, False), "C": (True, True),
}  # fmt: skip
"""Whether a second station is close to the bottleneck, and whether a server fails."""
SALT: Final = "a service a day, first series"
PURCHASES: Final = ("measure", "start", "aborted")
"""The events of a record that cost something; each change that was bought costs, too."""


def checked(day: object = None, level: object = "B") -> tuple[str, str]:
    """Return the day, by default today, and the level. Raises `Refused`, also for a later day."""
    today = datetime.date.today()
    try:
        chosen = today if day is None else datetime.date.fromisoformat(str(day))
    except ValueError:
        raise Refused(f'write the day as year, month and day, "{today}", got {day!r}') from None
    if chosen > today:
        raise Refused(f"the service of {chosen} opens on that day: today is {today}")
    if level not in tuple(LEVELS):
        raise Refused(f"the level is one of {', '.join(LEVELS)}, got {level!r}")
    return str(chosen), str(level)


def case_of(day: str, level: str) -> Case:
    """Return the case of a day: the first drawn that is a closed loop of this level."""
    rng = random.Random(f"{SALT} {day} {level}")
    drawn = (cases.draw(rng) for _ in itertools.count())
    return next(
        case
        for case in drawn
        if not case.open_loop and LEVELS[level] == (case.second is not None, case.fault is not None)
    )


def sitting_of(day: object, level: object, **more: Any) -> Sitting:
    """Return a sitting before the service of a day; its final has `par_per_s`."""
    day, level = checked(day, level)
    case = case_of(day, level)
    rng = random.SystemRandom()  # the calls of a run, and an id for each sitting
    return Sitting(
        case,
        rng,
        practice=f"{day} {level}",
        par_per_s=par_per_s(case),
        fails=LEVELS[level][1],
        **more,
    )


def par_per_s(case: Case) -> float:
    """Return the throughput of the plain client with the right changes, before a fault."""
    load = Load(in_flight=MOST_IN_FLIGHT)
    calls = plan(load, RUN_S, random.Random(1))
    return simulate(case.network(case.cures()), calls, load).steady_per_s


def share_of_par(record: Mapping[str, Any]) -> float:
    """Return the throughput before a fault over par; 0 if a call was lost, or too many sent."""
    final = record["final"]
    kept = any(line.name == LOST and line.points == line.of for line in lines_of(record))
    return float(final["result"]["steady_per_s"] / final["par_per_s"]) if kept else 0.0


def purchases(record: Mapping[str, Any]) -> int:
    """Return how many measurements, starts, broken runs and changes were paid for."""
    events = sum(each["event"] in PURCHASES for each in record["history"])
    return events + len(record["final"]["changes"])


def line_to_share(record: Mapping[str, Any], tries: int = 1) -> str:
    """Return a finished sitting as one line of text. It says nothing of the stations."""
    count = purchases(record)
    line = (
        f"RPC service {record['practice']} · par {record['final']['par_per_s']:,.0f}/s"
        f" · mine {share_of_par(record):.2f} · {count} purchase{'s' * (count != 1)}"
    )
    return line if tries == 1 else f"{line} · try {tries}"
