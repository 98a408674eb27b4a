"""The score of a plan, line by line: predictions, the result of the run, and cost.

A plan is stored with the learner's progress: its station, its predictions and its design.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from kvstore.course import progress, rendering
from kvstore.course.capstone.cases import STATIONS, Case, Price
from kvstore.course.capstone.designs import Design
from kvstore.course.capstone.forecasts import forecast, price_of, reference, throughput
from kvstore.course.comparisons import log_error
from kvstore.course.exercises.base import NotAttempted
from kvstore.measure import Run, audit
from kvstore.measure.audit import in_flight_steps

MIME_TYPE: Final = "application/vnd.kvstore.score+json"
"""The MIME type under which the output has case, outcome and points for programs."""
STATION, START, RATE, TAIL, HELD, LOST, COST, RESULT = LINES = (
    "station named",
    "start predicted",
    "throughput",
    "tail",
    "in flight",
    "nothing lost",
    "cost",
    "result predicted",
)
POINTS: Final = dict(zip(LINES, (10, 10, 35, 10, 5, 5, 15, 10), strict=True))
"""The most points of each line; 100 in all."""
SPOT_ON, TOO_FAR = math.log10(1.1), math.log10(2.0)
"""The errors of a prediction that give all points, and none."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The learner's predictions and design; None for each that is missing."""

    station: str | None = None
    start_per_s: float | None = None
    """Operations per second of the design at the start."""
    design: Design | None = None
    result_per_s: float | None = None
    """Operations per second of the chosen design."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a score: its points, the most points, and the reason."""

    name: str
    points: float
    of: int
    why: str


@dataclass(frozen=True)
class Score(rendering.Shown):
    """All lines of a case; none if no design was run."""

    case_id: str
    lines: tuple[Line, ...]
    attempted: bool = True
    """Whether a design was run."""

    @property
    def points(self) -> float:
        """Return the sum of the points, of 100."""
        return sum(line.points for line in self.lines)

    @property
    def met(self) -> bool:
        """Return whether the target was met: rate, tail, calls in flight, and nothing lost."""
        required = (RATE, TAIL, HELD, LOST)
        return self.attempted and all(
            line.points == line.of for line in self.lines if line.name in required
        )

    @property
    def outcome(self) -> str:
        """Return the outcome in the words of exercises."""
        if not self.attempted:
            return "not attempted"
        return "passed" if self.met else "not yet"

    def __getitem__(self, name: str) -> Line:
        """Return the line of this name."""
        return next(line for line in self.lines if line.name == name)

    def __repr__(self) -> str:
        if not self.attempted:
            return self._headline()
        return f"{self._headline()}\n{rendering.plain_table(*self._table())}"

    def _headline(self) -> str:
        if not self.attempted:
            return f"{self.case_id}: not attempted. Run a design of yours to get a score."
        met = "target met" if self.met else "target missed"
        return f"{self.case_id}: {self.points:.0f} of 100 points, {met}"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        return ["line", "points", "of", "why"], [
            [line.name, f"{line.points:.1f}", str(line.of), line.why] for line in self.lines
        ]

    def _forms(self) -> dict[str, Any]:
        colour = rendering.GOOD if self.met else rendering.QUIET
        mark = {"passed": "✔", "not yet": "✘", "not attempted": "○"}[self.outcome]
        return {
            "text/plain": repr(self),
            "text/html": rendering.headline(mark, self._headline(), colour)
            + (rendering.table(*self._table()) if self.attempted else ""),
            MIME_TYPE: {"case": self.case_id, "outcome": self.outcome, "points": self.points},
        }


def score_plan(case: Case, plan: Plan, before: Run, after: Run | None) -> Score:
    """Return the score of a plan from the runs of the design at the start and of the chosen one."""
    if plan.design is None or after is None:
        return Score(case.id, (), attempted=False)  # without revealing the bottleneck
    start_per_s, price = before.throughput_per_s, price_of(case, before)
    lines = [
        _named(case, plan.station, price),
        _predicted(START, plan.start_per_s, start_per_s),
    ]
    reached = list(_reached(case, after, start_per_s))
    met = all(line.points == line.of for line in reached)
    lines += [
        *reached,
        _cost(case, plan.design, met, price),
        _predicted(RESULT, plan.result_per_s, after.throughput_per_s),
    ]
    return Score(case.id, tuple(lines))


def _named(case: Case, station: str | None, price: Price) -> Line:
    of = POINTS[STATION]
    reason = throughput(case, case.start, price).reason
    if station is None:
        return Line(STATION, 0.0, of, f"none was named; it is {case.binds}. {reason}")
    if station != case.binds:
        return Line(STATION, 0.0, of, f"{station}: no. {case.binds}: {reason}")
    return Line(STATION, float(of), of, f"{station}: yes. {reason}")


def _predicted(name: str, predicted: float | None, measured: float) -> Line:
    """Give all points within 10 %, none from a factor of 2 on, linear in the logarithm between."""
    of = POINTS[name]
    error = log_error(predicted, measured)
    if predicted is None:
        return Line(name, 0.0, of, "no prediction was made before the run")
    if error is None:
        return Line(name, 0.0, of, "the run has no result to compare with")
    share = min(1.0, max(0.0, (TOO_FAR - error) / (TOO_FAR - SPOT_ON)))
    ratio = f"{rendering.TIMES} {predicted / measured:.2f}"
    why = f"predicted {predicted:,.4g}/s, measured {measured:,.4g}/s: {ratio}"
    return Line(name, of * share, of, why)


def _reached(case: Case, run: Run, start_per_s: float) -> Iterator[Line]:
    """Yield the lines of the target: rate, tail, calls in flight, and nothing lost."""
    target, per_s = case.target, run.throughput_per_s
    needed_per_s = target.needed_per_s(start_per_s)
    gap_per_s = needed_per_s - start_per_s  # only progress over the start gives points
    share = min(1.0, max(0.0, (per_s - start_per_s) / gap_per_s)) if gap_per_s > 0 else 1.0
    why = f"{per_s:,.4g}/s; {needed_per_s:,.4g}/s are needed, the start had {start_per_s:,.4g}/s"
    yield Line(RATE, POINTS[RATE] * share, POINTS[RATE], why + _longest_wait(run, share))
    p99_s = run.latency_s(0.99)
    share = 0.0 if math.isnan(p99_s) else min(1.0, target.p99_s / p99_s)
    why = f"p99 {1e3 * p99_s:,.0f} ms, {1e3 * target.p99_s:,.0f} ms allowed"
    yield Line(TAIL, POINTS[TAIL] * share, POINTS[TAIL], why)
    steps = in_flight_steps(run.records["sent_s"], run.records["done_s"])[1]
    most = int(steps.max(initial=0))
    share = min(1.0, target.most_in_flight / most) if most else 0.0
    why = f"at most {most} calls at once, {target.most_in_flight} allowed"
    yield Line(HELD, POINTS[HELD] * share, POINTS[HELD], why)
    sent, done = run.issued_operations, run.operations_ok
    kept = sent > 0 and sent == done and audit(run).holds
    why = f"{done:,} of {sent:,} operations done"
    yield Line(LOST, POINTS[LOST] * float(kept), POINTS[LOST], why)


def _longest_wait(run: Run, share: float) -> str:
    """Return in words where the calls of a run that was too slow spent most of their time."""
    if share >= 1.0 or not len(run.records):
        return ""
    names = {"pool_s": "for a thread", "lock_s": "for a lock", "disk_s": "for the disk"}
    stays = {name: float(run.records[column].mean()) for column, name in names.items()}
    name = max(stays, key=lambda each: stays[each])
    whole_s = run.mean_residence_s
    if not stays[name] > whole_s / 3:
        return "; a call spent most of its time before the server began it, or on a processor"
    return f"; a call waited {name} for {stays[name] / whole_s:.0%} of its time"


def _cost(case: Case, design: Design, met: bool, price: Price) -> Line:
    """Give all points for at most the days of the model's design, fewer for each further day."""
    of = POINTS[COST]
    cost_days = case.cost_days(design)
    if not met:
        return Line(COST, 0.0, of, f"{_days(cost_days)}, and the target was missed")
    best = reference(case, price)
    share = min(1.0, (1 + best.cost_days) / (1 + cost_days))
    why = f"{_days(cost_days)}; the model's design takes {best.cost_days}: {best.design}"
    if cost_days < best.cost_days:
        why = f"{_days(cost_days)}, fewer than the model's design: {best.cost_days}"
    return Line(COST, of * share, of, why)


def _days(count: int) -> str:
    return f"{count} day" if count == 1 else f"{count} days"


UNIT: Final = "station"
QUESTIONS: Final = ("station", "start", "result")


def name_station(case: Case, station: str | None = None) -> None:
    """Predict the bottleneck at the start; None leaves it open.

    After the start of the first run another name is refused, as `predict` refuses numbers. Raise
    `ValueError` for a name that is not one of `STATIONS`.
    """
    question_id = case.question_id("station")
    if station is None:
        kept = progress.ask(question_id, UNIT)
        words = ", ".join(STATIONS)
        named = _station_of(kept)
        text = f"You named: {named}." if named else f"Put one of these in place of None: {words}."
    elif station not in STATIONS:
        raise ValueError(f"the stations are {', '.join(STATIONS)}, got {station!r}")
    else:
        outcome, kept = progress.keep_prediction(question_id, 1.0 + STATIONS.index(station), UNIT)
        text = f"You named: {_station_of(kept)}."
        if outcome == "refused":
            text = (
                f"{station} came after the run, so your earlier answer counts:"
                f" {_station_of(kept) or 'none'}. To try again, take another seed."
            )
    rendering.show({"text/plain": text, "text/html": rendering.inline(text)})


def plan(case: Case, design: Design | NotAttempted) -> Plan:
    """Return the predictions for this case, made before its runs, with the chosen design."""
    kept = {name: progress.ask(case.question_id(name)) for name in QUESTIONS}
    return Plan(
        station=_station_of(kept["station"]),
        start_per_s=kept["start"].value,
        design=design if isinstance(design, Design) else None,
        result_per_s=kept["result"].value,
    )


def keep(score: Score) -> Score:
    """Show a score and store it; `scoreboard` has the best of each case."""
    text = f"{score.points:.0f} points" if score.attempted else "no design yet"
    progress.record_answer(f"12.{score.case_id}", score.outcome, text)
    score._show()
    return score


def scoreboard() -> pd.DataFrame:
    """Return the best score and the number of attempts of each case."""
    points: dict[str, list[float]] = {}
    for exercise_id, _, message in progress.answers("12"):
        if message.endswith(" points"):
            case_id = exercise_id.removeprefix("12.")
            points.setdefault(case_id, []).append(float(message.removesuffix(" points")))
    rows = [
        {"case": name, "best (points)": max(each), "attempts": len(each)}
        for name, each in points.items()
    ]
    columns = ["case", "best (points)", "attempts"]
    return pd.DataFrame(rows, columns=columns).set_index("case")


def reveal(case: Case, before: Run) -> None:
    """Show the model's design for a case with its reason, and store that it was shown.

    `before` is the run of the design at the start, for the CPU time of a call on this machine.
    """
    progress.note_solution_seen(f"12.{case.id}")
    price = price_of(case, before)
    best, start = reference(case, price), forecast(case, case.start, price)
    rows: list[list[Any]] = [
        [name, str(each.design), each.cost_days, f"{each.per_s.value:,.0f}", each.per_s.binds]
        for name, each in (("start", start), ("the model's", best))
    ]
    head = ["", "design", "days", "predicted (operations/s)", "binds"]
    text = f"At the start: {start.per_s.reason}. The model's: {best.per_s.reason}."
    rendering.show(
        {
            "text/plain": f"{rendering.plain_table(head, rows)}\n{text}",
            "text/html": rendering.table(head, rows) + f"<p>{rendering.inline(text)}</p>",
        }
    )


def _station_of(question: progress.Question) -> str | None:
    return None if question.value is None else STATIONS[int(question.value) - 1]
