"""Yours, the model's and the measured number side by side, scored by their ratio."""

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol, runtime_checkable

from kvstore.course import agreement, progress, rendering, units
from kvstore.course.claims import Claim
from kvstore.course.predictions import HasValue

MIME_TYPE: Final = "application/vnd.kvstore.comparison+json"
"""Under this type the output carries the numbers of the comparison for programs to read."""

BANDS: Final = (
    (1.10, "spot on: within 10 %"),
    (1.25, "close: within 25 %"),
    (2.0, "the right size: within a factor of 2"),
    (10.0, "the right order of magnitude: within a factor of 10"),
    (math.inf, "more than a factor of 10 off: one of the parts was of another kind"),
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


@dataclass(frozen=True)
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
    binds: agreement.Binds | None = None
    why: str = ""

    @property
    def band(self) -> float:
        """How far from 1 measured/model may be, where this is a main comparison."""
        return agreement.CPU_BAND if self.binds == "cpu" else agreement.BAND

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
            return "not scored: the run measured nothing to compare with"
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
        reason = f"<p>The model: {rendering.inline(self.reason)}</p>" if self.reason else ""
        good = self.log_error is not None and self.log_error <= math.log10(1.25)
        colour = rendering.GOOD if good else rendering.QUIET
        return {
            "text/plain": repr(self) + (f"\nThe model: {self.reason}" if self.reason else ""),
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
    measured: float | HasThroughput,
    model: HasValue | float | None = None,
    *,
    run: object | None = None,
    main: bool = False,
    binds: agreement.Binds | None = None,
    why: Claim | None = None,
) -> Comparison:
    """Show the prediction beside the model's and the measured number, and close the question.

    `measured` is a number in the unit of the question, or a run, which then stands for
    its throughput. `run` is the run the number was taken from: with it, a prediction
    made after the run began does not count. Without a prediction the comparison is
    shown all the same, marked as not predicted. Compared again, the first result is
    the one that progress remembers.

    All must be in one unit: of model and question times are converted, and calls are taken for
    operations where each call of the run carried one. `units.UnitError` otherwise, and nothing
    is closed.

    `main=True` marks a comparison that the lesson stands for: `course.py run` lists it with
    measured/model and its band, 10 %, or 20 % where `binds="cpu"`. `why` is a claim of this
    lesson that tells the cause when it lies outside; one that does not hold explains nothing.
    ValueError when a main comparison has no model to be compared with.
    """
    if main and model is None:
        raise ValueError(f"{question_id}: a main comparison needs the model's prediction")
    source = measured if isinstance(measured, HasThroughput) else run
    number = _number(measured)
    held = progress.ask(question_id)
    reason = str(getattr(model, "reason", ""))
    unit = held.unit or getattr(model, "unit", None) or units.CALLS
    per_call = units.operations_in_a_call(source)
    if isinstance(measured, HasThroughput):
        given = units.OPERATIONS
        number *= units.factor(given, unit, "a run given as it is, its throughput,", per_call)
    if isinstance(model, HasValue):
        model = model.value * units.factor(model.unit, unit, "the model's prediction", per_call)
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


def log_error(guess: float | None, measured: float) -> float | None:
    """|log10(guess / measured)|, None when there is no such ratio."""
    if guess is None or not math.isfinite(measured) or guess <= 0 or measured <= 0:
        return None
    return abs(math.log10(guess / measured))


def band(error: float) -> str:
    """What the scale calls a log error."""
    return next(words for factor, words in BANDS if error <= math.log10(factor) + 1e-12)


def _number(measured: float | HasThroughput) -> float:
    value = measured.throughput_per_s if isinstance(measured, HasThroughput) else measured
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(
            f"measured must be a number or a run, got {type(measured).__name__}: "
            "pass for example `run.throughput_per_s`"
        ) from None


def _began_at(run: object) -> float | None:
    """When the run began, in seconds since 1970; None when it does not say."""
    said = getattr(run, "started_at", None)
    if said is None:
        return None
    whole_seconds = "." not in said  # then it may have begun up to a second later
    return datetime.fromisoformat(said).timestamp() + (1.0 if whole_seconds else 0.0)


def _shown(value: float | None) -> str:
    return rendering.NONE if value is None else rendering.number(value)


def _ratio(value: float | None, measured: float) -> str:
    if value is None or not measured > 0 or not math.isfinite(measured):
        return rendering.NONE
    return f"{rendering.TIMES} {value / measured:.3g}"
