"""What a learner commits to for a case, and how the tries came out: kept with all progress."""

from typing import Any, Final

import pandas as pd

from kvstore.course import progress, rendering
from kvstore.course.design.choice import Design
from kvstore.course.design.forecasts import forecast, price_of, reference
from kvstore.course.design.score import Plan, Score
from kvstore.course.design.service import STATIONS, Case
from kvstore.course.exercises.base import NotAttempted
from kvstore.measure import Run

UNIT: Final = "station"
QUESTIONS: Final = ("station", "start", "result")


def name_station(case: Case, station: str | None = None) -> None:
    """Commit to the station that binds at the start; None leaves it open.

    Once the run of the start has begun another name is refused, as `predict` does with numbers.
    Raises `ValueError` for a name that is not one of `STATIONS`.
    """
    question_id = case.asks("station")
    if station is None:
        held = progress.ask(question_id, UNIT)
        words = ", ".join(STATIONS)
        said = _named(held)
        text = f"You named: {said}." if said else f"Put one of these in place of None: {words}."
    elif station not in STATIONS:
        raise ValueError(f"the stations are {', '.join(STATIONS)}, got {station!r}")
    else:
        outcome, held = progress.keep_prediction(question_id, 1.0 + STATIONS.index(station), UNIT)
        text = f"You named: {_named(held)}."
        if outcome == "refused":
            text = (
                f"{station} came after the run, so your earlier answer stands:"
                f" {_named(held) or 'none'}. To try again, take another seed."
            )
    rendering.show({"text/plain": text, "text/html": rendering.inline(text)})


def plan(case: Case, design: Design | NotAttempted) -> Plan:
    """What was committed for this case before its runs, with the design that was chosen."""
    held = {name: progress.ask(case.asks(name)) for name in QUESTIONS}
    return Plan(
        station=_named(held["station"]),
        start_per_s=held["start"].value,
        design=design if isinstance(design, Design) else None,
        result_per_s=held["result"].value,
    )


def keep(score: Score) -> Score:
    """Show a score and keep it; the best of a case can be looked up with `scoreboard`."""
    text = f"{score.points:.0f} points" if score.attempted else "no design yet"
    progress.record_answer(f"10.{score.case_id}", score.outcome, text)
    score._show()
    return score


def scoreboard() -> pd.DataFrame:
    """The best score of each case that was tried, and how often it was."""
    points: dict[str, list[float]] = {}
    for exercise_id, _, message in progress.answers("10"):
        if message.endswith(" points"):
            case_id = exercise_id.removeprefix("10.")
            points.setdefault(case_id, []).append(float(message.removesuffix(" points")))
    rows = [
        {"case": name, "best (points)": max(each), "tries": len(each)}
        for name, each in points.items()
    ]
    columns = ["case", "best (points)", "tries"]
    return pd.DataFrame(rows, columns=columns).set_index("case")


def reveal(case: Case, before: Run) -> None:
    """Show the model's own design for a case with its reason, and keep that it was asked for.

    `before` is the run of the design at the start, for what a call costs on this machine.
    """
    progress.note_solution_seen(f"10.{case.id}")
    price = price_of(case, before)
    found, was = reference(case, price), forecast(case, case.start, price)
    rows: list[list[Any]] = [
        [name, str(each.design), each.cost_days, f"{each.per_s.value:,.0f}", each.per_s.binds]
        for name, each in (("start", was), ("the model's", found))
    ]
    head = ["", "design", "days", "predicted (operations/s)", "binds"]
    text = f"At the start: {was.per_s.reason}. The model's: {found.per_s.reason}."
    rendering.show(
        {
            "text/plain": f"{rendering.plain_table(head, rows)}\n{text}",
            "text/html": rendering.table(head, rows) + f"<p>{rendering.inline(text)}</p>",
        }
    )


def _named(question: progress.Question) -> str | None:
    return None if question.value is None else STATIONS[int(question.value) - 1]
