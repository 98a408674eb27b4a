"""The learner commits to a number before the run, and sees afterwards how far off it was."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Protocol, runtime_checkable

from kvstore.course import progress, questions, rendering, units


class PredictionError(ValueError):
    """What was given as a prediction is not a number that can be scored."""


@runtime_checkable
class HasValue(Protocol):
    """What `kvstore.model` returns: a number with its unit."""

    @property
    def value(self) -> float:
        """The number."""
        ...

    @property
    def unit(self) -> str:
        """What it is measured in."""
        ...


Status = Literal["not predicted", "kept", "unchanged", "refused"]


@dataclass(frozen=True)
class Guess(rendering.Shown):
    """What is committed for one question: `value` is None when nothing is."""

    question_id: str
    value: float | None
    unit: str
    status: Status
    message: str

    def __repr__(self) -> str:
        return self.message

    def _forms(self) -> dict[str, Any]:
        mark, colour = {
            "not predicted": ("○ Not predicted.", rendering.QUIET),
            "kept": ("✔ Kept.", rendering.GOOD),
            "unchanged": ("✔ It stands.", rendering.GOOD),
            "refused": ("✘ Refused.", rendering.BAD),
        }[self.status]
        return {
            "text/plain": f"{mark} {self.message}",
            "text/html": rendering.headline(mark, self.message, colour),
        }


def predict(
    question_id: str, value: float | HasValue | None = None, unit: str | None = None
) -> Guess:
    """Commit a number before the run; None leaves the question open, and the run still goes.

    A question that its lesson registers has its text and its unit from there; one that is not
    registered is in `unit`, or in calls/s. The model is never evaluated here.

    Once the run has begun or was compared, only the number that is already committed
    is accepted: another one is refused on the page and the earlier one stands. A
    prediction of the model may be given as it is: its times are converted, and its calls
    taken for operations, one in each. PredictionError when `value` is not
    a number above zero, or `unit` is not that of the registered question.
    """
    known = questions.registered(question_id)
    if known is not None and unit not in (None, known.unit):
        raise PredictionError(
            f"{question_id} is a question in {known.unit}, got unit={unit!r}: leave `unit` out"
        )
    unit = known.unit if known else unit or units.CALLS
    if value is None:
        guess = _left_open(progress.ask(question_id, unit), unit, known)
    else:
        number = _checked(value, unit)
        outcome, question = progress.keep_prediction(question_id, number, unit)
        guess = _answered(question, number, unit, outcome)
    guess._show()
    return guess


def again(question_id: str) -> None:
    """Open a fresh attempt at a question whose result has been seen; the first one is kept."""
    question = progress.start_again(question_id)
    text = (
        f"Attempt {question.attempt} at `{question_id}` is open: put your number in place of "
        "None in its `predict` cell, then run that cell and the ones after it."
    )
    rendering.show({"text/plain": text, "text/html": rendering.inline(text)})


def _checked(value: object, unit: str) -> float:
    if isinstance(value, HasValue):
        try:
            value = value.value * units.factor(value.unit, unit, "the prediction")
        except units.UnitError as other:
            raise PredictionError(str(other)) from None
    if isinstance(value, str):
        raise PredictionError(
            f"a prediction is a number of {unit}, got the text {value!r}: "
            "write the number alone, without quotes and without a unit, such as 12.5"
        )
    if isinstance(value, bool) or not isinstance(value, Real):
        raise PredictionError(
            f"a prediction is a number of {unit}, got {value!r}: write a number such as 12.5"
        )
    number = float(value)
    if not math.isfinite(number):
        raise PredictionError(
            f"a prediction must be a finite number of {unit}, got {number}: "
            "check the arithmetic that led to it"
        )
    if number <= 0:
        raise PredictionError(
            f"a prediction must be more than 0 {unit}, got {number:g}: "
            "the score is a ratio, so choose a small number rather than 0"
        )
    if _is_share(unit) and number > 1:
        raise PredictionError(
            f"a share {unit} is a number from 0 to 1, got {number:g}: write 0.2 for 20 %"
        )
    return number


def _is_share(unit: str) -> bool:
    return unit.startswith("of the ")


def _left_open(
    question: progress.Question, unit: str, known: questions.PredictionQuestion | None
) -> Guess:
    if question.value is not None:
        held = _with_unit(question.value, question.unit or unit)
        message = f"You predicted {held} before, and it is kept."
        return Guess(question.question_id, question.value, unit, "unchanged", message)
    if question.closed:
        message = (
            "The result has been shown without a prediction. To predict after all, run "
            f'`again("{question.question_id}")` in a cell of your own first.'
        )
    elif known is None:
        message = f"Put your number ({unit}) in place of None and run this cell before the next."
    else:
        text = f"{known.text}\n" if known.text else ""
        such = (
            f'`predict("{known.id}", 0.25)` commits 0.25 {unit}.'
            if _is_share(unit)
            else f'`predict("{known.id}", 123)` commits 123 {unit}.'
        )
        message = f"{text}Add your number, in {unit}, and run this cell again: {such}"
    return Guess(question.question_id, None, unit, "not predicted", message)


def _answered(
    question: progress.Question, number: float, unit: str, outcome: progress.Kept
) -> Guess:
    if outcome == "refused":
        earlier = (
            "it counts as not predicted"
            if question.value is None
            else f"your earlier {_with_unit(question.value, question.unit or unit)} stands"
        )
        message = (
            f"{_with_unit(number, unit)} came after the run, so {earlier}. "
            f'To try again, run `again("{question.question_id}")` in a cell of your own first.'
        )
    else:
        message = f"Your prediction: {_with_unit(number, unit)}."
    return Guess(question.question_id, question.value, unit, outcome, message)


def _with_unit(value: float, unit: str) -> str:
    return f"{value:,.10g} {unit}"
