"""What a plan is worth, line by line: said beforehand, reached in a real run, paid for."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kvstore.course import rendering
from kvstore.course.comparisons import log_error
from kvstore.course.design.choice import Design
from kvstore.course.design.forecasts import price_of, reference, throughput
from kvstore.course.design.service import Case, Price
from kvstore.measure import Run, audit
from kvstore.measure.audit import in_flight_steps

MIME_TYPE: Final = "application/vnd.kvstore.score+json"
"""Under this type the output carries case, outcome and points for programs to read."""
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
"""How many points each line can bring; 100 in all."""
SPOT_ON, TOO_FAR = math.log10(1.1), math.log10(2.0)
"""Errors of a prediction that bring all points, and none."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What was committed; None for what was not."""

    station: str | None = None
    start_per_s: float | None = None
    """Operations per second of the design at the start."""
    design: Design | None = None
    result_per_s: float | None = None
    """Operations per second of the design that was chosen."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a score: what it brought, of how much, and why."""

    name: str
    points: float
    of: int
    why: str


@dataclass(frozen=True)
class Score(rendering.Shown):
    """All lines of a case; none, where no design was run."""

    case_id: str
    lines: tuple[Line, ...]
    attempted: bool = True
    """Whether a design was run."""

    @property
    def points(self) -> float:
        """All points, of 100."""
        return sum(line.points for line in self.lines)

    @property
    def met(self) -> bool:
        """Whether the target was met: rate, tail, calls in flight, and nothing lost."""
        must = (RATE, TAIL, HELD, LOST)
        return self.attempted and all(
            line.points == line.of for line in self.lines if line.name in must
        )

    @property
    def outcome(self) -> str:
        """In the words that exercises use."""
        if not self.attempted:
            return "not attempted"
        return "passed" if self.met else "not yet"

    def __getitem__(self, name: str) -> Line:
        """The line of this name."""
        return next(line for line in self.lines if line.name == name)

    def __repr__(self) -> str:
        if not self.attempted:
            return self._headline()
        return f"{self._headline()}\n{rendering.plain_table(*self._table())}"

    def _headline(self) -> str:
        if not self.attempted:
            return f"{self.case_id}: not attempted. It is scored once a design of yours was run."
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


def scored(case: Case, plan: Plan, before: Run, after: Run | None) -> Score:
    """The score of a plan, given the run of the design at the start and of the chosen one."""
    if plan.design is None or after is None:
        return Score(case.id, (), attempted=False)  # nor is the station told yet
    start_per_s, price = before.throughput_per_s, price_of(case, before)
    lines = [
        _named(case, plan.station, price),
        _foreseen(START, plan.start_per_s, start_per_s),
    ]
    reached = list(_reached(case, after, start_per_s))
    met = all(line.points == line.of for line in reached)
    lines += [
        *reached,
        _paid(case, plan.design, met, price),
        _foreseen(RESULT, plan.result_per_s, after.throughput_per_s),
    ]
    return Score(case.id, tuple(lines))


def _named(case: Case, station: str | None, price: Price) -> Line:
    of = POINTS[STATION]
    reason = throughput(case, case.start, price).reason
    if station is None:
        return Line(STATION, 0.0, of, f"none was named; it is: {case.binds}. {reason}")
    if station != case.binds:
        return Line(STATION, 0.0, of, f"{station}: no. {case.binds}: {reason}")
    return Line(STATION, float(of), of, f"{station}: yes. {reason}")


def _foreseen(name: str, said: float | None, measured: float) -> Line:
    """All points within 10 %, none from a factor of 2 on, evenly in the logarithm between."""
    of = POINTS[name]
    error = log_error(said, measured)
    if said is None:
        return Line(name, 0.0, of, "no prediction was made before the run")
    if error is None:
        return Line(name, 0.0, of, "the run measured nothing to compare with")
    share = min(1.0, max(0.0, (TOO_FAR - error) / (TOO_FAR - SPOT_ON)))
    why = f"said {said:,.4g}/s, measured {measured:,.4g}/s: {rendering.TIMES} {said / measured:.2f}"
    return Line(name, of * share, of, why)


def _reached(case: Case, run: Run, start_per_s: float) -> Iterator[Line]:
    """What the target wants, each from the run itself."""
    target, got_per_s = case.target, run.throughput_per_s
    needed_per_s = target.needed_per_s(start_per_s)
    way_per_s = needed_per_s - start_per_s  # doing nothing is no part of the way
    share = min(1.0, max(0.0, (got_per_s - start_per_s) / way_per_s)) if way_per_s > 0 else 1.0
    why = f"{got_per_s:,.4g}/s; {needed_per_s:,.4g}/s are needed, {start_per_s:,.4g}/s were there"
    yield Line(RATE, POINTS[RATE] * share, POINTS[RATE], why + _still_binds(run, share))
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


def _still_binds(run: Run, share: float) -> str:
    """Where a run that was too slow spent the time of its calls."""
    if share >= 1.0 or not len(run.records):
        return ""
    names = {"pool_s": "for a thread", "lock_s": "for a lock", "disk_s": "on the disk"}
    stays = {name: float(run.records[column].mean()) for column, name in names.items()}
    name = max(stays, key=lambda each: stays[each])
    whole_s = run.mean_residence_s
    if not stays[name] > whole_s / 3:
        return "; most of a call's time was spent before the server took it up, or on a processor"
    return f"; {stays[name] / whole_s:.0%} of a call's time it waited {name}"


def _paid(case: Case, design: Design, met: bool, price: Price) -> Line:
    """All points for no more days than the model's design takes; each day more takes its share."""
    of = POINTS[COST]
    mine_days = case.cost_days(design)
    if not met:
        return Line(COST, 0.0, of, f"{_days(mine_days)}, and the target was missed")
    best = reference(case, price)
    share = min(1.0, (1 + best.cost_days) / (1 + mine_days))
    why = f"{_days(mine_days)}; the model's design takes {best.cost_days}: {best.design}"
    if mine_days < best.cost_days:
        why = f"{_days(mine_days)}, less than the model dared: {best.cost_days}"
    return Line(COST, of * share, of, why)


def _days(count: int) -> str:
    return f"{count} day" if count == 1 else f"{count} days"
