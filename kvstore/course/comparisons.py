"""Yours, the model's and the measured number side by side; claims that a run confirms or not.

A comparison is scored by the ratio of its numbers; the main ones of a lesson are held to a band.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from numbers import Real
from typing import Any, Final, Literal, Protocol, runtime_checkable

import numpy as np

from kvstore.course import mode, progress, questions, rendering
from kvstore.course.predictions import HasValue

# ---- claims -------------------------------------------------------------------------------------
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


def claim(sentence: str, holds: bool | np.bool_) -> Claim:
    """Show the sentence and whether it holds on this machine, in this run.

    Build the sentence from the run with an f-string, so that its numbers are those of the run. A
    claim that does not hold is shown and raises nothing.
    """
    if not isinstance(holds, bool | np.bool_):
        raise TypeError(
            f"holds must be True or False, got {type(holds).__name__}: "
            "pass the comparison that decides the claim, such as `measured > predicted`"
        )
    made = Claim(str(sentence), bool(holds))
    made._show()
    return made


# ---- comparisons --------------------------------------------------------------------------------


Binds = Literal["cpu"]
"""What the prediction hangs on, where that is known less well than a delay that was set."""

BAND: Final = 0.10
"""How far from 1 measured/predicted may be."""
CPU_BAND: Final = 0.20
"""The same where a processor binds: its price per call drifts with all else the machine does."""


@dataclass(frozen=True)
class Agreement:
    """One main comparison; `why` is a claim that held and explains what lies outside the band."""

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
        return "outside: the lesson shows why" if self.why else "outside"

    def _row(self) -> list[str]:
        numbers = (self.predicted, self.measured)
        shown = [rendering.NONE if n is None else rendering.number(n) for n in numbers]
        ratio = rendering.NONE if math.isnan(self.ratio) else f"{self.ratio:.3f}"
        band = f"±{self.band:.0%}"
        return [self.lesson, self.question_id, self.unit, *shown, ratio, band, self.verdict]


def table(made: Sequence[Agreement], lessons: Iterable[str], *, full: bool) -> str:
    """All main comparisons, one line each, then what is outside and why, and who has none.

    `lessons` are all that ran. What lies outside counts in a `full` run only.
    """
    head = ["lesson", "question", "unit", "predicted", "measured", "ratio", "band", "verdict"]
    lines = [rendering.plain_table(head, (each._row() for each in made))] if made else []
    outside = [each for each in made if not each.within]
    for each in outside:
        lines.append(f"{each.question_id}: outside {each.band:.0%}" + _reason(each))
    have = {each.lesson for each in made}
    lines += [f"{name}: no main comparison" for name in lessons if name not in have]
    unexplained = sum(not each.why for each in outside)
    if full:
        lines.append(
            f"OUTSIDE ITS BAND AND NOT EXPLAINED: {unexplained} of {len(made)}"
            if unexplained
            else f"all {len(made)} main comparisons are within their band, or explained"
        )
    elif outside:
        lines.append("(the bands are meant for --full: a short run may be outside by noise alone)")
    return "\n".join(lines)


def _reason(each: Agreement) -> str:
    return f", because {each.why}" if each.why else ""


MIME_TYPE: Final = "application/vnd.kvstore.comparison+json"
"""Under this type the output carries the numbers of the comparison for programs to read."""

BANDS: Final = (
    (1.10, "spot on: within 10 %"),
    (1.25, "close: within 25 %"),
    (2.0, "the right size: within a factor of 2"),
    (10.0, "the right order of magnitude: within a factor of 10"),
    (math.inf, "more than a factor of 10 off: find the station that you left out"),
)
"""The scale: the larger of guess/measured and measured/guess, and what it is called.

Ratios, not differences: 2 for 1 is as far off as 2,000 for 1,000, and half is as far
off as double. `log_error` is the same as |log10(guess / measured)|: 0 is exact, 0.3 a
factor of 2, 1 a factor of 10.
"""


@runtime_checkable
class HasThroughput(Protocol):
    """What a run must tell to be compared as it is."""

    @property
    def throughput_per_s(self) -> float:
        """Operations answered OK in each second."""
        ...


@dataclass(frozen=True, eq=False)
class Comparison(rendering.Shown):
    """One question after its run; `yours` is None when nothing was predicted."""

    question_id: str
    unit: str
    measured: float
    yours: float | None
    model: float | None
    attempt: int = 1
    late: bool = False
    reason: str = ""
    main: bool = False
    binds: Binds | None = None
    why: str = ""

    @property
    def band(self) -> float:
        """How far from 1 measured/model may be, where this is a main comparison."""
        return CPU_BAND if self.binds == "cpu" else BAND

    @property
    def predicted(self) -> bool:
        """Whether the learner had committed a number before the run."""
        return self.yours is not None

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
        return band(self.log_error)

    def __repr__(self) -> str:
        return f"{self.question_id}: {self.verdict}\n{rendering.plain_table(*self._table())}"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        rows = [("your prediction", self.yours), ("the model's", self.model)]
        return ["", self.unit, "÷ measured"], [
            *([name, _shown(value), _ratio(value, self.measured)] for name, value in rows),
            ["measured", _shown(self.measured), ""],
        ]

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
            + (f"\nThe model: {rendering.as_sentence(self.reason)}" if self.reason else ""),
            "text/html": rendering.headline("Your prediction:", self.verdict + attempt, colour)
            + rendering.table(*self._table())
            + reason,
            MIME_TYPE: {
                "question_id": self.question_id,
                "unit": self.unit,
                "yours": self.yours,
                "model": self.model,
                "measured": self.measured if math.isfinite(self.measured) else None,
                "log_error": self.log_error,
                "main": {"band": self.band, "why": self.why} if self.main else None,
            },
        }


def compare(
    question_id: str,
    measured: Any,
    *more: Any,
    model: HasValue | float | None = None,
    run: object | None = None,
    main: bool = False,
    binds: Binds | None = None,
    why: Claim | None = None,
) -> Comparison:
    """Show the prediction beside the model's and the measured number, and close the question.

    `compare("03.global_lock", run)`: for a question that its lesson registers, pass the runs that
    answer it. The question says how they give the measured number; the model is evaluated only
    when the question is closed. The last run is the one that was predicted: a prediction made
    after it began does not count.

    `compare("03.mine", 24.0, 25.0)`: numbers, for any question. `measured` is a number in the unit
    of the question, or a run, which then stands for its throughput; `model` comes next, or by
    its name. `run` is the run the number was taken from: with it, a prediction
    made after the run began does not count. Without a prediction the comparison is
    shown all the same, marked as not predicted. Compared again, the first result is
    the one that progress remembers.

    All must be in one unit: of model and question times are converted, and calls are taken for
    operations where each call of the run carried one. `questions.UnitError` otherwise, and nothing
    is closed.

    `main=True` marks a comparison that the lesson stands for: `course.py run` lists it with
    measured/model and its band, 10 %, or 20 % where `binds="cpu"`. `why` is a claim of this
    lesson that tells the cause when it lies outside; one that does not hold explains nothing.
    ValueError when a main comparison has no model to be compared with.
    """
    known = questions.registered(question_id)
    from_runs = model is None and not any(map(_is_number, (measured, *more)))
    if known is not None and from_runs:
        runs = (measured, *more)
        run = _with_beginning(runs[-1]) if run is None else run
        measured = known.measured(*runs)
        _number(measured)  # an error here leaves the question open
        progress.ask(question_id, known.unit)
        if known.model is not None and progress.close(question_id).closed:
            model = known.model(*runs)
        main, binds = main or known.main, binds or known.binds
    elif more:
        (model,) = more
    if main and model is None:
        raise ValueError(f"{question_id}: a main comparison needs the model's prediction")
    source = measured if isinstance(measured, HasThroughput) else run
    number = _number(measured)
    held = progress.ask(question_id)
    reason = str(getattr(model, "reason", ""))
    unit = held.unit or getattr(model, "unit", None) or questions.CALLS
    per_call = questions.operations_in_a_call(source)
    if isinstance(measured, HasThroughput):
        given = questions.OPERATIONS
        number *= questions.factor(given, unit, "a run given as it is, its throughput,", per_call)
    elif isinstance(measured, HasValue):
        number *= questions.factor(measured.unit, unit, "the measured number", per_call)
    elif known is not None and from_runs:
        number *= questions.factor(known.unit, unit, "the measured number", per_call)
    if isinstance(model, HasValue):
        model = model.value * questions.factor(model.unit, unit, "the model's prediction", per_call)
    question = progress.reveal(
        question_id,
        number,
        log_error(held.value, number),
        began_at=_began_at(source),
    )
    made = Comparison(
        question_id,
        unit=unit,
        measured=number,
        yours=question.value,
        model=model,
        attempt=question.attempt,
        late=held.value is not None and question.value is None,
        reason=reason,
        main=main,
        binds=binds,
        why=why.sentence if why else "",
    )
    made._show()
    return made


def _is_number(given: object) -> bool:
    return isinstance(given, Real | HasValue)


def _with_beginning(given: object) -> object:
    """The run itself; of several in a list, tuple or mapping, the one that began first."""
    several = given.values() if isinstance(given, Mapping) else given
    if isinstance(several, Iterable) and not isinstance(given, str):
        runs = [each for each in map(_with_beginning, several) if _began_at(each) is not None]
        return min(runs, key=lambda each: _began_at(each) or 0.0, default=None)
    return given


def log_error(guess: float | None, measured: float) -> float | None:
    """|log10(guess / measured)|, None when there is no such ratio."""
    if guess is None or not math.isfinite(measured) or guess <= 0 or measured <= 0:
        return None
    return abs(math.log10(guess / measured))


def band(error: float) -> str:
    """What the scale calls a log error."""
    return next(words for factor, words in BANDS if error <= math.log10(factor) + 1e-12)


def _number(measured: Any) -> float:
    value = measured.throughput_per_s if isinstance(measured, HasThroughput) else measured
    value = value.value if isinstance(value, HasValue) else value
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(
            f"measured must be a number or a run, got {type(measured).__name__}: "
            "pass for example `run.throughput_per_s`"
        ) from None


def _began_at(run: object) -> float | None:
    """When the run began, in seconds since 1970; None when it does not say, or is a recording."""
    said = getattr(run, "started_at", None)
    if said is None or mode.name() == "recorded":
        return None
    whole_seconds = "." not in said  # then it may have begun up to a second later
    return datetime.fromisoformat(said).timestamp() + (1.0 if whole_seconds else 0.0)


def _shown(value: float | None) -> str:
    return rendering.NONE if value is None else rendering.number(value)


def _ratio(value: float | None, measured: float) -> str:
    if value is None or not measured > 0 or not math.isfinite(measured):
        return rendering.NONE
    return f"{rendering.TIMES} {value / measured:.3g}"
