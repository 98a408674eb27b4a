"""Yours, the model's and the measured number side by side; claims that a run confirms or not.

A comparison is scored by the ratio of its numbers; the main ones of a lesson are held to a band.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np

from kvstore import numbers
from kvstore.course import calibration, curves, progress, questions, rendering
from kvstore.course.rendering import HasValue
from kvstore.measure import Run, machine_limit, throughput_interval

# Claims: sentences that a run confirms or contradicts.


CLAIM_MIME_TYPE: Final = "application/vnd.kvstore.claim+json"
"""The MIME type under which the output has `{"sentence": ..., "holds": ...}` for programs."""


@dataclass(frozen=True)
class Claim(rendering.Shown):
    """A sentence and whether it holds; its truth value is `holds`."""

    sentence: str
    holds: bool

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        return f"{'✔ holds here' if self.holds else '✘ does not hold here'}: {self._words()}"

    def _words(self) -> str:
        return rendering.as_sentence(self.sentence)

    def _forms(self) -> Mapping[str, Any]:
        mark = "✔ holds here:" if self.holds else "✘ does not hold here:"
        colour = rendering.GOOD if self.holds else rendering.BAD
        return {
            "text/plain": repr(self),
            "text/markdown": f"**{mark}** {rendering.markdown_escaped(self._words())}",
            "text/html": rendering.headline(mark, self._words(), colour),
            CLAIM_MIME_TYPE: {"sentence": self.sentence, "holds": self.holds},
        }


STRICT: Final = "COURSE_STRICT"
"""With this environment variable set to 1, a claim that does not hold is an error."""


class DoesNotHold(AssertionError):
    """A claim does not hold, and claims are strict."""


def claim(sentence: str, holds: bool | np.bool_) -> Claim:
    """Show the sentence and whether it holds on this machine, in this run.

    Build the sentence from the run with an f-string, so that its numbers are those of the run. A
    claim that does not hold is shown and raises nothing: it is about this machine. With
    COURSE_STRICT=1 it raises DoesNotHold, for programs that execute notebooks and see errors only.
    """
    if not isinstance(holds, bool | np.bool_):
        raise TypeError(
            f"holds must be True or False, got {type(holds).__name__}: "
            "pass the comparison that decides the claim, such as `measured > predicted`"
        )
    statement = Claim(str(sentence), bool(holds))
    statement._show()
    if not statement and os.environ.get(STRICT, "").strip() not in ("", "0"):
        raise DoesNotHold(f"{statement.sentence} ({STRICT} is set)")
    return statement


BAND: Final = 0.10
"""How far from 1 measured/predicted may be."""
CPU_BAND: Final = 0.20
"""The same where a processor binds: its price per call drifts with all else the machine does."""


@dataclass(frozen=True)
class Agreement:
    """One main comparison; `why` says why this machine may be what put it outside the band."""

    lesson: str
    question_id: str
    unit: str
    predicted: float | None
    measured: float | None
    band: float
    why: str = ""

    @classmethod
    def of(cls, lesson: str, published: Mapping[str, Any]) -> "Agreement":
        """From what a comparison published for programs to read; it must be a main one."""
        main = published["main"]
        return cls(
            lesson,
            published["question_id"],
            published["unit"],
            published["model"],
            published["measured"],
            main["band"],
            main["why"],
        )

    @property
    def ratio(self) -> float:
        """Measured over predicted; NaN where the run measured nothing."""
        if self.measured is None or not self.predicted:
            return math.nan
        return self.measured / self.predicted

    @property
    def within(self) -> bool:
        """Whether the ratio lies in the band; one that is no number does not."""
        return abs(self.ratio - 1) <= self.band + 1e-12

    @property
    def verdict(self) -> str:
        """What is to be thought of it, in words."""
        if self.within:
            return "within"
        return "outside: this machine may be why" if self.why else "outside"

    def _row(self) -> list[str]:
        shown = [_shown(n) for n in (self.predicted, self.measured)]
        ratio = rendering.NONE if math.isnan(self.ratio) else f"{self.ratio:.3f}"
        band = f"±{numbers.percent(self.band)}"
        return [self.lesson, self.question_id, self.unit, *shown, ratio, band, self.verdict]


def table(agreements: Sequence[Agreement], lessons: Iterable[str], *, full: bool) -> str:
    """All main comparisons, one line each, then what is outside and why, and who has none.

    `lessons` are all that ran. What lies outside counts in a `full` run only.
    """
    head = ["lesson", "question", "unit", "predicted", "measured", "ratio", "band", "verdict"]
    lines = (
        [rendering.plain_table(head, (each._row() for each in agreements))] if agreements else []
    )
    outside = [each for each in agreements if not each.within]
    for each in outside:
        lines.append(f"{each.question_id}: outside {numbers.percent(each.band)}" + _reason(each))
    have = {each.lesson for each in agreements}
    lines += [f"{name}: no main comparison" for name in lessons if name not in have]
    unexplained = sum(not each.why for each in outside)
    if full:
        lines.append(
            f"OUTSIDE ITS BAND AND NOT EXPLAINED: {unexplained} of {len(agreements)}"
            if unexplained
            else f"all {len(agreements)} main comparisons are within their band, or explained"
        )
    elif outside:
        lines.append("(the bands are meant for --full: a short run may be outside by noise alone)")
    return "\n".join(lines)


def _reason(each: Agreement) -> str:
    return f", because {each.why}" if each.why else ""


MIME_TYPE: Final = "application/vnd.kvstore.comparison+json"
"""Under this type the output carries the numbers of the comparison for programs to read."""

LOG_FROM: Final = 6.0
"""From this ratio of the largest to the smallest number on, an axis has factors."""

BANDS: Final = (
    (1.10, "spot on: within 10 %"),
    (1.25, "close: within 25 %"),
    (2.0, "the right size: within a factor of 2"),
    (10.0, "the right order of magnitude: within a factor of 10"),
    (math.inf, "more than a factor of 10 off"),
)
"""The scale: the larger of guess/measured and measured/guess, and what it is called.

Ratios, not differences: 2 for 1 is as far off as 2,000 for 1,000, and half is as far
off as double. `log_error` is the same as |log10(guess / measured)|: 0 is exact, 0.3 a
factor of 2, 1 a factor of 10.
"""


@dataclass(frozen=True, eq=False)
class Comparison(rendering.Shown):
    """One question after its run; `yours` is None when nothing was predicted."""

    known: questions.PredictionQuestion
    measured: float
    yours: float | None
    model: float | None
    attempt: int = 1
    late: bool = False
    reason: str = ""
    interval: tuple[float, float] | None = None
    mistake: str = ""
    """What the learner's number leaves out, where it is a mistake that is known."""
    sure_of: tuple[float, float] | None = None
    """The learner's interval of 90 %, where one was predicted."""
    record: str = ""
    """How many of the learner's intervals held so far."""
    machine: str = ""
    """Why this machine may be what made the run differ from the model."""
    likely: tuple[float, float] | None = None
    """The interval of the model's value, from the spread of its parts."""

    @property
    def log_error(self) -> float | None:
        """|log10(yours / measured)|, None when either is missing or not above zero."""
        return log_error(self.yours, self.measured)

    @property
    def verdict(self) -> str:
        """How far off the learner was, in words of the scale."""
        if self.yours is None:
            return "not predicted" + (": your number came after the run began" if self.late else "")
        if self.log_error is None:
            return f"not scored: there is no ratio to {_shown(self.measured)}"
        words = band(self.log_error)
        return self.known.far_off or words if words == BANDS[-1][1] else words

    def __repr__(self) -> str:
        summary = "\n".join(filter(None, (self.verdict, self._mistake(), self._coverage())))
        return f"{self.known.id}: {summary}\n{rendering.plain_table(*self._table())}"

    def _mistake(self) -> str:
        """The sentence on a known mistake, after the number that it is about."""
        return (
            f"{_shown(self.yours)}: {rendering.as_sentence(self.mistake)}" if self.mistake else ""
        )

    def _table(self) -> tuple[list[str], list[list[str]]]:
        rows = [["your prediction", _shown(self.yours), _off(self.yours, self.measured)]]
        if self.model is not None:
            shown = (
                _shown(self.model)
                if self.likely is None
                else numbers.with_interval(self.model, *self.likely)
            )
            rows.append(["the model's", shown, _off(self.model, self.measured)])
        return ["", self.known.unit, "against the run"], [*rows, ["measured", self._measured(), ""]]

    def _picture(self) -> str:
        """The three numbers on one axis: those that were predicted as lines, the run as a dot."""
        lines = {"you": self.yours, "the model": self.model}
        values = [each for each in (*lines.values(), self.measured) if each is not None]
        if len(values) < 2 or not all(0 < each < math.inf for each in values):
            return ""
        wide, left, middle = 560, 60, 40
        low, high = min(values), max(values)
        log = high > LOG_FROM * low  # else from 0

        def x(value: float) -> float:
            if log:
                share = math.log(max(value, 0.5 * low) / (0.5 * low)) / math.log(4 * high / low)
            else:
                share = value / (1.15 * high)
            return left + (wide - 2 * left) * min(1.0, share)

        def text(at: float, y: float, label: str) -> str:
            return (
                f'<text x="{at:.1f}" y="{y:.0f}" text-anchor="middle" fill="currentColor" '
                f'font-size="13">{rendering.escaped(label)}</text>'
            )

        parts = [
            f'<path d="M{left - 20},{middle} H{wide - left + 20}" stroke="currentColor" '
            'stroke-opacity="0.4"/>'
        ]
        if not log:
            parts.append(text(x(0.0), middle + 34, "0"))
        for row, (name, value) in enumerate(lines.items()):
            if value is not None:
                above = row == 0
                at, dashes = x(value), "" if above else ' stroke-dasharray="4 3"'
                parts.append(
                    f'<path d="M{at:.1f},{middle - 16} V{middle + 16}" stroke="#d55e00" '
                    f'stroke-width="3"{dashes}/>'
                )
                parts.append(text(at, 14 if above else middle + 34, f"{name} {_shown(value)}"))
        for interval, colour in ((self.likely, "#d55e00"), (self.interval, "#0072b2")):
            if interval is not None:
                start, end = map(x, interval)
                parts.append(
                    f'<path d="M{start:.1f},{middle} H{end:.1f}" stroke="{colour}" '
                    'stroke-width="5" stroke-opacity="0.5"/>'
                )
        at = x(self.measured)
        parts.append(f'<circle cx="{at:.1f}" cy="{middle}" r="7" fill="#0072b2"/>')
        parts.append(text(at, middle + 54, f"measured {_shown(self.measured)}"))
        scale = "Each factor takes the same width." if log else ""
        prediction_texts = ", ".join(
            f"{name} {_shown(value)}" for name, value in lines.items() if value is not None
        )
        return (
            f'<svg role="img" aria-label="{rendering.escaped(prediction_texts)}, measured '
            f'{_shown(self.measured)} {rendering.escaped(self.known.unit)}. {scale}" '
            f'viewBox="0 0 {wide} {middle + 60}" width="{wide}" '
            'style="display: block; max-width: 100%; height: auto" fill="none">'
            f"{''.join(parts)}</svg>"
        )

    def _coverage(self) -> str:
        """Whether the learner's interval held, and how many of them did so far."""
        if self.sure_of is None or not math.isfinite(self.measured):
            return ""
        low, high = self.sure_of
        holds = "holds" if low <= self.measured <= high else "does not hold"
        sentence = (
            f"Your interval, {_shown(low)} to {_shown(high)}, {holds} {_shown(self.measured)}."
        )
        return f"{sentence} {self.record}".strip()

    def _machine(self) -> str:
        return f"The run is not what the model says, and this machine may be why: {self.machine}."

    def _measured(self) -> str:
        if self.interval is None:
            return _shown(self.measured)
        return numbers.with_interval(self.measured, *self.interval)

    def _forms(self) -> dict[str, Any]:
        attempt = f" (attempt {self.attempt})" if self.attempt > 1 else ""
        reason = (
            f"<p>The model: {rendering.inline(rendering.as_sentence(self.reason))}</p>"
            if self.reason
            else ""
        )
        good = self.log_error is not None and self.log_error <= math.log10(1.25)
        colour = rendering.GOOD if good else rendering.QUIET
        return {
            "text/plain": repr(self)
            + (f"\nThe model: {rendering.as_sentence(self.reason)}" if self.reason else "")
            + (f"\n{self._machine()}" if self.machine else ""),
            "text/html": rendering.headline("Your prediction:", self.verdict + attempt, colour)
            + "".join(
                f"<p>{rendering.inline(each)}</p>"
                for each in (self._mistake(), self._coverage())
                if each
            )
            + self._picture()
            + rendering.table(*self._table())
            + reason
            + (f"<p>{rendering.inline(self._machine())}</p>" if self.machine else ""),
            MIME_TYPE: {
                "question_id": self.known.id,
                "unit": self.known.unit,
                "yours": self.yours,
                "model": self.model,
                "model_interval": self.likely,
                "measured": self.measured if math.isfinite(self.measured) else None,
                "log_error": self.log_error,
                "interval": self.sure_of,
                "main": _main(self.known, self.machine),
            },
        }


def _main(known: questions.PredictionQuestion, why: str = "") -> dict[str, Any] | None:
    """What programs read of a main comparison: how far from 1 measured/model may be."""
    return {"band": CPU_BAND if known.binds == "cpu" else BAND, "why": why} if known.main else None


@dataclass(frozen=True, eq=False)
class CurveComparison(rendering.Shown):
    """One curve after its runs: the learner's line, the model's, and the measured dots, by x."""

    known: questions.Curve
    drawn: Mapping[float, float]
    model: Mapping[float, float]
    measured: Mapping[float, float]
    attempt: int = 1
    late: bool = False

    @property
    def log_error(self) -> float | None:
        """Mean |log10(drawn / measured)| over the measured dots, None without a line."""
        return curves.log_error(self.drawn, self.measured, log=self.known.log)

    @property
    def verdict(self) -> str:
        """How far off the line was, in words of the scale."""
        if not self.drawn:
            return "not predicted" + (": your line came after the run began" if self.late else "")
        if self.log_error is None:
            return "not scored: no dot lies within the line"
        factor = numbers.number(10**self.log_error)
        return f"off by a factor of {factor} on average ({band(self.log_error)})"

    def __repr__(self) -> str:
        return f"{self.known.id}: {self.verdict}\n{rendering.plain_table(*self._table())}"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        head = [self.known.over, "your line", "the model's", "measured", "against the run"]
        rows = []
        for x, measured in sorted(self.measured.items()):
            yours = curves.height(self.drawn, x, log=self.known.log)
            values = (yours, curves.height(self.model, x, log=self.known.log), measured)
            rows.append([numbers.number(x), *map(_shown, values), _off(yours, measured)])
        return head, rows

    def _forms(self) -> dict[str, Any]:
        attempt = f" (attempt {self.attempt})" if self.attempt > 1 else ""
        good = self.log_error is not None and self.log_error <= math.log10(1.25)
        shown = curves.facts(
            self.known,
            self.drawn,
            locked=True,
            message="",
            measured=self.measured,
            model=self.model,
        )
        last = list(self.measured)[-1]  # the run that was predicted
        return {
            "text/plain": repr(self),
            "text/html": rendering.headline(
                "Your line:", self.verdict + attempt, rendering.GOOD if good else rendering.QUIET
            )
            + curves.picture(shown, self.verdict)
            + f"<details><summary>The numbers</summary>{rendering.table(*self._table())}</details>",
            MIME_TYPE: {
                "question_id": self.known.id,
                "unit": self.known.unit,
                "yours": curves.height(self.drawn, last, log=self.known.log),
                "model": curves.height(self.model, last, log=self.known.log),
                "measured": self.measured[last],
                "log_error": self.log_error,
                "main": _main(self.known),
            },
        }


def _compare_curve(known: questions.Curve, runs: tuple[Any, ...]) -> CurveComparison:
    measured = {float(x): float(y) for x, y in _answer(known, known.measured, runs).items()}
    settled = progress.settle(
        known.id,
        measured[max(measured)],
        lambda of: curves.log_error(of.drawn, measured, log=known.log),
        began_at=_began_at(_predicted_run(runs)),
        curve=measured,
    )
    model = _answer(known, known.model, runs) if known.model is not None else {}
    comparison = CurveComparison(
        known,
        settled.question.drawn,
        dict(model),
        measured,
        attempt=settled.question.attempt,
        late=settled.late,
    )
    comparison._show()
    return comparison


def compare(question_id: str, *runs: Any) -> Comparison | CurveComparison:
    """Show the prediction beside the model's and the measured number, and close the question.

    `compare("03.global_lock", run)`: pass the runs that answer the question. The question says how
    they give the measured number; the model is evaluated only when the question is closed. The last
    run is the one that was predicted: a prediction made after it began does not count. Without a
    prediction the comparison is shown all the same, marked as not predicted. Compared again, the
    first result is the one that progress remembers.

    All must be in the unit of the question: times are converted, and calls are taken for
    operations where each call of the run carried one. `questions.UnitError`
    otherwise. LookupError for an unknown question, TypeError for what does not answer it.
    """
    known = questions.registered(question_id)
    if not runs:
        raise TypeError(f"the runs that answer {question_id} are missing: pass them after its name")
    if isinstance(known, questions.Curve):
        return _compare_curve(known, runs)
    measured = _answer(known, known.measured, runs)
    number = _number(measured)  # an error here leaves the question open
    run = _predicted_run(runs)
    per_call = questions.operations_in_a_call(run)
    if isinstance(measured, HasValue):
        number *= questions.factor(measured.unit, known.unit, "the measured number", per_call)
    question, late, every = progress.settle(
        question_id,
        number,
        lambda of: log_error(of.value, number),
        unit=known.unit,
        began_at=_began_at(run),
    )
    model = _answer(known, known.model, runs) if known.model is not None else None
    reason = str(getattr(model, "reason", ""))
    likely = getattr(model, "interval", None)
    cpu = known.binds == "cpu" or "CPU" in getattr(model, "binds", "")
    if isinstance(model, HasValue):
        to_unit = questions.factor(model.unit, known.unit, "the model's prediction", per_call)
        model = model.value * to_unit
        likely = None if likely is None else (likely[0] * to_unit, likely[1] * to_unit)
    if model is not None and likely is None and isinstance(run, Run):
        likely = calibration.interval(float(model), run, cpu=cpu, unit=known.unit)
    comparison = Comparison(
        known,
        measured=number,
        yours=question.value,
        model=model,
        attempt=question.attempt,
        late=late,
        reason=reason,
        interval=_interval(run, number, known.unit, per_call),
        mistake=_mistake(known, question.value, (model, number)),
        sure_of=question.interval,
        record=coverage(every),
        machine=_machine(run, number, likely),
        likely=likely,
    )
    comparison._show()
    return comparison


SURE: Final = 0.9
"""How sure a learner is of an interval."""


def coverage(attempts: Iterable[progress.Question]) -> str:
    """Return how many first intervals held, how wide they were, and what follows from it."""
    done = [
        (each.held, each.interval)
        for each in attempts
        if each.attempt == 1 and each.measured is not None and each.interval is not None
    ]
    if len(done) < 2:
        return ""
    held = sum(bool(each) for each, _ in done)
    width = math.exp(sum(math.log(high / low) for _, (low, high) in done) / len(done))
    summary = (
        f"{held} of your {len(done)} intervals held, and {numbers.percent(SURE)} is what they stand"
        f" for; the upper end is {numbers.number(width)} times the lower one, on average."
    )
    # What would happen by luck to somebody who is as sure as they say, in one class of twenty
    by_luck = 1.64 * math.sqrt(SURE * (1 - SURE) * len(done))
    if held < SURE * len(done) - by_luck:
        return f"{summary} You are surer than you may be: make them wider."
    return summary


def _machine(run: object, measured: float, likely: tuple[float, float] | None) -> str:
    """Why this machine may have been the limit, where the run lies outside the model's interval."""
    if not isinstance(run, Run) or likely is None or likely[0] <= measured <= likely[1]:
        return ""
    return machine_limit(run)


def _mistake(
    known: questions.PredictionQuestion, value: float | None, right: Iterable[float | None]
) -> str:
    """What is to be said of a number that is a known mistake, and not right here."""
    if value is None or any(each and abs(value / each - 1) <= questions.SAME for each in right):
        return ""
    return known.mistake(value)


def _answer(known: questions.PredictionQuestion, ask: Callable[..., Any], runs: Any) -> Any:
    """Return what the runs answer; TypeError where they are not what the question needs."""
    try:
        return ask(*runs)
    except (AttributeError, LookupError, TypeError) as error:
        kinds = ", ".join(type(each).__name__ for each in runs)
        raise TypeError(
            f"`{known.id}` is answered by the runs of its lesson, got {kinds} ({error}): "
            "run the cell of the lesson as it stands"
        ) from error


def _predicted_run(runs: tuple[Any, ...]) -> object:
    """The last of these that tells when it began: that is the one that was predicted."""
    return next((each for each in map(_with_beginning, reversed(runs)) if each is not None), None)


def _interval(run: object, number: float, unit: str, per_call: float) -> tuple[float, float] | None:
    """Return the confidence interval of a run's throughput where the measured number is this one.

    None where the run is too short for it.
    """
    if not isinstance(run, Run) or unit not in questions.RATES:
        return None
    factor = 1 / per_call if unit == questions.CALLS else 1.0
    low, high = (factor * each for each in throughput_interval(run))
    same = math.isclose(number, factor * run.throughput_per_s, rel_tol=0.01)
    return (low, high) if same and math.isfinite(low) and math.isfinite(high) else None


def _with_beginning(runs: object) -> object:
    """The run itself; of several in a list, tuple or mapping, the one that began first."""
    several = runs.values() if isinstance(runs, Mapping) else runs
    if isinstance(several, Iterable) and not isinstance(runs, str):
        return min(map(_with_beginning, several), key=_began_at, default=None)
    return runs if getattr(runs, "started_at", None) is not None else None


def log_error(guess: float | None, measured: float) -> float | None:
    """|log10(guess / measured)|, None when there is no such ratio."""
    if guess is None or not math.isfinite(measured) or guess <= 0 or measured <= 0:
        return None
    return abs(math.log10(guess / measured))


def band(error: float) -> str:
    """What the scale calls a log error."""
    return next(words for factor, words in BANDS if error <= math.log10(factor) + 1e-12)


def _number(measured: Any) -> float:
    value = measured.value if isinstance(measured, HasValue) else measured
    try:
        if not isinstance(value, str):  # such as "3": a text is never what was measured
            return float(value)
    except (TypeError, ValueError):
        pass
    raise TypeError(
        f"a question is answered by a number, got {type(measured).__name__}: "
        "pass the runs of the lesson"
    )


def _began_at(run: object) -> float:
    """When the run began, in seconds since 1970; infinite when it does not say."""
    started_at = getattr(run, "started_at", None)
    if started_at is None:
        return math.inf
    whole_seconds = "." not in started_at  # then it may have begun up to a second later
    return datetime.fromisoformat(started_at).timestamp() + (1.0 if whole_seconds else 0.0)


def _shown(value: float | None) -> str:
    return rendering.NONE if value is None else numbers.number(value)


def _off(value: float | None, measured: float) -> str:
    """Say how far a prediction is from the measured number, as a factor."""
    if value is None or not measured > 0 or not math.isfinite(measured) or not value > 0:
        return rendering.NONE
    if abs(value / measured - 1) < 0.005:
        return "equal"
    times = numbers.number(float(max(value / measured, measured / value)))
    return f"{times} {rendering.TIMES} too {'high' if value > measured else 'low'}"
