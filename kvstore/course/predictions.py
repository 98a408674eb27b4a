"""What a learner commits to: a number before the run, the first choice in a question."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Protocol, runtime_checkable

from IPython.core.getipython import get_ipython

from kvstore.course import progress, questions, rendering
from kvstore.course.questions import QuizQuestion


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
    unit = known.unit if known else unit or questions.CALLS
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
            value = value.value * questions.factor(value.unit, unit, "the prediction")
        except questions.UnitError as other:
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


# ---- quizzes ------------------------------------------------------------------------------------
# Questions with options: the first choice counts, and each option is explained.


def quiz(
    question: str,
    options: str | Sequence[str] | Mapping[str, str] | None = None,
    answer: str | int | None = None,
    why: str = "",
) -> None:
    """Ask the quiz questions of a lesson, or answer one of them.

    `quiz("03")` shows the questions of lesson 03, `quiz("03.double")` one of them: as radio buttons
    where the notebook shows widgets, as text elsewhere. `quiz("03.double", "b")` chooses option b.
    The first choice is kept and scored; a later one only shows its explanation.
    LookupError for an unknown question, ValueError for a letter that is none of its options.

    With `answer` it shows a question that is not registered, and says of each option that is
    unfolded whether it is right, and `why`; see `_folded`.
    """
    if answer is not None:
        if options is None or isinstance(options, str):
            raise ValueError(f"a quiz needs two or more different options, got {options!r}")
        _folded(question, options, answer, why)
    elif options is None:
        _ask(_meant(question))
    elif isinstance(options, str):
        rendering.show(_verdict(questions.registered_quiz(question), options))
    else:
        raise ValueError(f'the option chosen is one letter, as in `quiz("{question}", "a")`')


# ---- questions by their ids ----------------------------------------------------------------------


def _meant(name: str) -> tuple[QuizQuestion, ...]:
    if not re.fullmatch(r"\d\d", name):
        return (questions.registered_quiz(name),)
    found = questions.quiz_of(name)
    if not found:
        raise LookupError(f"lesson {name} has no quiz: look up its number in the map of lesson 00")
    return found


def _ask(asked: Sequence[QuizQuestion]) -> None:
    """Show the questions; where one was answered already, with what became of it."""
    chosen = progress.choices()
    plain, rich = [], []
    for question in asked:
        how = f'Answer with a letter, such as `quiz("{question.id}", "a")`.'
        letters = [f"{letter}) {option.text}" for letter, option in question.lettered.items()]
        done = [_words(question, chosen[question.id])] if question.id in chosen else []
        plain.append("\n".join([question.text, *(f"  {each}" for each in letters), how, *done]))
        rich.append(
            f"<p><b>{rendering.inline(question.text)}</b><br>"
            f"{'<br>'.join(map(rendering.inline, letters))}<br>{rendering.inline(how)}</p>"
            + (_html(question, chosen[question.id]) if done else "")
        )
    bundle: dict[str, Any] = {"text/plain": "\n\n".join(plain), "text/html": "".join(rich)}
    if hasattr(get_ipython(), "kernel"):
        bundle |= _widget(asked, chosen)
    rendering.show(bundle)


def _widget(asked: Sequence[QuizQuestion], chosen: Mapping[str, str]) -> dict[str, Any]:
    """One group of radio buttons for each question, and below it what is said of the choice.

    Only the texts of questions and options go to the page: verdicts come when one is chosen.
    """
    import ipywidgets as widgets  # late: it takes memory, and a plain Python needs none

    def group(question: QuizQuestion) -> Any:
        buttons = widgets.RadioButtons(
            options=[(f"{letter}) {o.text}", letter) for letter, o in question.lettered.items()],
            value=chosen.get(question.id),
            layout={"width": "auto"},
        )
        said = widgets.HTML(_html(question, chosen[question.id]) if question.id in chosen else "")

        def choose(change: Mapping[str, Any]) -> None:
            if change["new"] is not None:
                said.value = _verdict(question, change["new"])["text/html"]

        buttons.observe(choose, names="value")
        text = widgets.HTML(f'<b style="{rendering.LINES}">{rendering.inline(question.text)}</b>')
        return widgets.VBox([text, buttons, said])

    return dict(widgets.VBox([group(each) for each in asked])._repr_mimebundle_())


def _verdict(question: QuizQuestion, letter: str) -> dict[str, str]:
    """Keep the choice if it is the first, and say what is to be said of it."""
    option = question.lettered.get(letter)
    if option is None:
        raise ValueError(
            f"{question.id} has the options {', '.join(question.lettered)}, got {letter!r}: "
            "write one of these letters in quotes"
        )
    first = progress.keep_choice(question.id, letter, option.right)
    return {
        "text/plain": _words(question, letter, first),
        "text/html": _html(question, letter, first),
    }


def _parts(question: QuizQuestion, letter: str, first: str | None) -> tuple[str, str]:
    option = question.lettered.get(letter)
    if option is None:  # the question was changed since
        return "○", f"You chose {letter}, which is no longer an option."
    later = f" (Your first choice, {first}, is the one that counts.)" if first != letter else ""
    again = "" if option.right else " Choose again, to see the explanation of another option."
    return "✔ Yes." if option.right else "✘ No.", f"{letter}) {option.why}{later}{again}"


def _words(question: QuizQuestion, letter: str, first: str | None = None) -> str:
    return " ".join(_parts(question, letter, first or letter))


def _html(question: QuizQuestion, letter: str, first: str | None = None) -> str:
    mark, text = _parts(question, letter, first or letter)
    colour = rendering.GOOD if mark.startswith("✔") else rendering.BAD
    return f'<p style="line-height: 1.45">{rendering.headline(mark, text, colour)}</p>'


# ---- questions that the cell holds ---------------------------------------------------------------


def _folded(
    question: str, options: Sequence[str] | Mapping[str, str], answer: str | int, why: str
) -> None:
    """Show the question; unfolding an option says whether it is right, and why.

    `answer` is the right option, or its place counted from 0. `options` may map each
    option to what is said of it when it is wrong. Folding is plain HTML: it needs no
    JavaScript and no trusted notebook. ValueError when `answer` is not an option.
    """
    texts = list(options)
    if len(texts) < 2 or len(set(texts)) != len(texts):
        raise ValueError(f"a quiz needs two or more different options, got {texts}")
    right = _place(texts, answer)
    said = dict(options) if isinstance(options, Mapping) else {}
    rows = [
        _option(text, place == right, why if place == right else said.get(text, ""))
        for place, text in enumerate(texts)
    ]
    letters = [f"  {chr(97 + place)}) {text}" for place, text in enumerate(texts)]
    rendering.show(
        {
            "text/plain": "\n".join([question, *letters, f"Answer: {chr(97 + right)}) {why}"]),
            "text/html": f"<p><b>{rendering.inline(question)}</b></p>{''.join(rows)}",
        }
    )


def _place(texts: Sequence[str], answer: str | int) -> int:
    if isinstance(answer, str) and answer in texts:
        return texts.index(answer)
    if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < len(texts):
        return answer
    raise ValueError(f"answer must be one of the options or its place from 0, got {answer!r}")


def _option(text: str, right: bool, reason: str) -> str:
    mark, colour = ("✔ Yes.", rendering.GOOD) if right else ("✘ No.", rendering.BAD)
    verdict = rendering.headline(mark, reason or "Try another one.", colour)
    return f"<details><summary>{rendering.inline(text)}</summary><p>{verdict}</p></details>"
