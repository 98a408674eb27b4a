"""What a learner commits to: a number or a curve before the run, the first choice in a quiz."""

import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from random import Random
from typing import Any, Final, Literal

from IPython.core.getipython import get_ipython

from kvstore import numbers
from kvstore.course import curves, in_class, progress, questions, rendering
from kvstore.course.questions import Curve, NumberQuestion, PredictionQuestion, QuizQuestion
from kvstore.course.rendering import HasValue


class PredictionError(ValueError):
    """What was given as a prediction is not a number that can be scored."""


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


@dataclass(frozen=True)
class DrawnGuess(Guess):
    """What is committed for a question that asks for a curve; `value` is its last point."""

    known: Curve
    curve: Mapping[float, float]

    def _forms(self) -> dict[str, Any]:
        question = progress.ask(self.question_id)
        shown = curves.facts(self.known, self.curve, locked=question.closed, message=self.message)
        bundle = super()._forms()
        if self.curve or not question.closed:
            bundle["text/html"] = curves.picture({**shown, "locked": True}, self.message)
        if not question.closed and _has_widgets():
            bundle |= curves.widget(self.known, shown, self._keep)
        return bundle

    def _keep(self, heights: Sequence[float]) -> dict[str, Any]:
        """Keep a line that was drawn; return what is shown then."""
        guess = _commit_curve(self.known, heights)
        question = progress.ask(self.question_id)
        return curves.facts(
            self.known, question.drawn, locked=question.closed, message=guess.message
        )


def predict(question_id: str, value: Any = None, *more: object) -> Guess:
    """Commit a number before the run; None leaves the question open, and the run still goes.

    Text and unit of the question are those that its lesson registers. The model is never evaluated
    here. Once the run has begun or was compared, only the number that is already committed
    is accepted: another one is refused on the page and the earlier one stands. A
    prediction of the model may be given as it is: its times are converted, and its calls
    taken for operations, one in each. A question that asks for a curve takes a list of numbers, or
    a line that is drawn on the page. `(40, 60)` is an interval: the learner is 90 % sure that the
    result lies in it; its middle is what is scored. PredictionError when `value` is not
    a number above zero; LookupError for an unknown question.
    """
    known = questions.registered(question_id)
    if isinstance(known, Curve):
        heights = [value, *more] if more else value
        guess = _left_open(known) if heights is None else _commit_curve(known, heights)
    elif more:
        raise PredictionError(_with_a_comma(known, (value, *more)))
    elif value is None:
        guess = _left_open(known)
    else:
        interval = _interval(value, known.unit)
        number = math.sqrt(math.prod(interval)) if interval else _checked(value, known.unit)
        outcome, question = progress.keep_prediction(
            question_id, number, known.unit, interval=interval
        )
        typed = _typed(number, interval, known.unit)
        guess = _answered(known, question, outcome, typed, f"Your prediction: {typed}.")
    guess._show()
    return guess


def again(question_id: str) -> None:
    """Open a fresh attempt at a question whose result has been seen; the first one is kept."""
    question = progress.start_again(questions.registered(question_id).id)
    rendering.say(
        f"Attempt {question.attempt} at `{question_id}` is open: put your new number into "
        "its `predict` cell, then run that cell and the ones after it."
    )


def _with_a_comma(known: PredictionQuestion, parts: Sequence[object]) -> str:
    """Say what 2,450 and 1,5 are to Python; the number that was meant, where it is certain."""
    written = ", ".join(map(repr, parts))
    text = f"a comma makes {len(parts)} numbers of one ({written}), so nothing was committed"
    if all(type(each) is int for each in parts):
        first, *others = (str(each) for each in parts)
        meant = f"`{first}{''.join(others)}` for thousands"
        decimal = f"`{first}.{''.join(others)}` for a decimal"
        return f"{text}: write {meant if all(len(o) == 3 for o in others) else decimal}"
    return f'{text}: write one number, such as `predict("{known.id}", 12.5)`'


def _interval(value: object, unit: str) -> tuple[float, float] | None:
    """The two ends of an interval; None for what is none."""
    if not isinstance(value, tuple) or len(value) != 2:
        return None
    low, high = (_checked(each, unit) for each in value)
    if not low < high:
        raise PredictionError(
            f"an interval goes from its lower to its upper end, got {value!r}: such as (40, 60)"
        )
    return low, high


def _typed(number: float, interval: tuple[float, float] | None, unit: str) -> str:
    """What the learner typed, with its unit."""
    if interval is None:
        return _with_unit(number, unit)
    return f"{interval[0]:,.10g} to {_with_unit(interval[1], unit)}, with 90 %"


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
    if isinstance(value, tuple):
        raise PredictionError(
            f"a prediction is one number of {unit}, got {value!r}: a comma makes several of one"
        )
    if isinstance(value, bool) or not isinstance(value, Real):
        raise PredictionError(
            f"a prediction is a number of {unit}, got {value!r}: write a number such as 12.5"
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise PredictionError(
            f"a prediction must be a finite number of {unit}, got "
            f"{'one of hundreds of digits' if isinstance(value, int) else number}: "
            "check the arithmetic that led to it"
        )
    if number <= 0:
        raise PredictionError(
            f"a prediction must be more than 0 {unit}, got {numbers.number(number)}: "
            "the score is a ratio, so choose a small number rather than 0"
        )
    if _is_share(unit) and number > 1:
        raise PredictionError(
            f"a share {unit} is a number from 0 to 1, got {numbers.number(number)}: "
            "write 0.2 for 20 %"
        )
    return number


def _is_share(unit: str) -> bool:
    return unit.startswith("of the ")


def _left_open(known: PredictionQuestion) -> Guess:
    question = progress.ask(known.id, known.unit)
    status: Status = "not predicted"
    if question.value is not None:
        status = "unchanged"
        held = _held(known, question, question.value)
        message = f"You predicted {held} before, and it is kept."
        if isinstance(known, Curve):
            message = "Your line is kept." if question.closed else LINE_KEPT
    elif question.closed:
        message = (
            "The result has been shown without a prediction. To predict after all, run "
            f'`again("{known.id}")` in a cell of your own first.'
        )
    elif isinstance(known, Curve):
        message = f"{known.text} {_how_to_type(known)}"
    else:
        text = f"{known.text}\n" if known.text else ""
        asked, such = (
            ("as a share", "0.25") if _is_share(known.unit) else (f"in {known.unit}", "123")
        )
        message = (
            f"{text}Add your number, {asked}, and run this cell again: "
            f'`predict("{known.id}", {such})` commits {such} {known.unit}.'
        )
    return _guess(known, question, status, message)


def _answered(
    known: PredictionQuestion,
    question: progress.Question,
    outcome: progress.Kept,
    prediction: str,
    accepted: str,
) -> Guess:
    """Say that the `prediction` came too late, or the sentence for what is `accepted`."""
    in_class.predicted(question)
    if outcome != "refused":
        return _guess(known, question, outcome, accepted)
    if question.value is None:
        earlier = "it counts as not predicted"
    elif isinstance(known, Curve):
        earlier = "your earlier line stands"
    else:
        earlier = f"your earlier {_held(known, question, question.value)} stands"
    message = (
        f"{prediction} came after the run, so {earlier}. "
        f'To try again, run `again("{known.id}")` in a cell of your own first.'
    )
    return _guess(known, question, outcome, message)


def _held(known: PredictionQuestion, question: progress.Question, value: float) -> str:
    return _typed(value, question.interval, question.unit or known.unit)


def _guess(
    known: PredictionQuestion, question: progress.Question, status: Status, message: str
) -> Guess:
    if not isinstance(known, Curve):
        return Guess(known.id, question.value, known.unit, status, message)
    return DrawnGuess(known.id, question.value, known.unit, status, message, known, question.drawn)


LINE_KEPT: Final = "Your line is kept. You can change it until the run."


def _commit_curve(known: Curve, line: Any) -> Guess:
    if isinstance(line, str | Mapping) or not isinstance(line, Iterable):
        raise PredictionError(f"a curve is a list of numbers, got {line!r}: {_how_to_type(known)}")
    heights = [_checked(each, known.unit) for each in line]
    if len(heights) != len(known.xs):
        raise PredictionError(
            f"this curve has {len(known.xs)} points, got {numbers.count(len(heights), 'number')}: "
            f"{_how_to_type(known)}"
        )
    points = dict(zip(known.xs, heights, strict=True))
    outcome, question = progress.keep_prediction(known.id, heights[-1], known.unit, points)
    return _answered(known, question, outcome, "This line", LINE_KEPT)


def _how_to_type(known: Curve) -> str:
    places = ", ".join(map(numbers.number, known.xs))
    dots = ", ".join(["..."] * len(known.xs))
    return (
        f"Draw the line, or type a number of {known.unit} for each of {places} ({known.over}): "
        f'`predict("{known.id}", [{dots}])`'
    )


def _has_widgets() -> bool:
    return hasattr(get_ipython(), "kernel")


def _with_unit(value: float, unit: str) -> str:
    """Write the number that was typed, with all its digits."""
    return f"{value:,.10g} {unit}" if value < 1e10 else f"{value:,.0f} {unit}"


# Questions with options: the first choice counts, and each option is explained. Each learner sees
# the options in an order of their own, always the same one. What is kept is the letter that the
# option has in the lesson's questions, so the choices of a class add up. A question that is
# answered by a number has parameters of each learner's own; what is kept is which option it is.


def _learner() -> str:
    return f"{platform.node()} {progress.path().absolute()}"


def _with_drawn_numbers(question: QuizQuestion) -> QuizQuestion:
    return question.drawn(_learner()) if isinstance(question, NumberQuestion) else question


def _lettered(question: QuizQuestion) -> dict[str, str]:
    """The letters that this learner sees, in their order, and those of the lesson's questions."""
    letters = list(question.lettered)
    if isinstance(question, NumberQuestion):
        return dict(zip(letters, letters, strict=True))
    shown = Random(f"{_learner()} {question.id}").sample(letters, len(letters))
    return dict(zip(letters, shown, strict=True))


def quiz(question_id: str, choice: str | float | None = None) -> None:
    """Ask the quiz questions of a lesson or of a part, or answer one of them.

    `quiz("03")` shows the questions of lesson 03, `quiz("part 1")` those over the first part,
    `quiz("03.double")` one question: as radio buttons where the notebook shows widgets, as text
    elsewhere. `quiz("03.double", "b")` chooses option b, `quiz("01.hundred", 12)` answers by a
    number.
    The first choice is kept and scored; a later one only shows its explanation.
    LookupError for an unknown question, ValueError for a letter that is none of its options.
    """
    if choice is None:
        _ask([_with_drawn_numbers(each) for each in questions.asked(question_id)])
    else:
        rendering.show(
            _verdict(_with_drawn_numbers(questions.registered_quiz(question_id)), choice)
        )


def _ask(asked: Sequence[QuizQuestion]) -> None:
    """Show the questions; where one was answered already, with what became of it."""
    chosen = progress.choices()
    plain, rich = [], []
    for question in asked:
        how = f'Answer with a letter, such as `quiz("{question.id}", "a")`.'
        letters = [f"{letter}) {text}" for letter, text in _options(question)]
        if isinstance(question, NumberQuestion):
            how, letters = f'Answer with a number, such as `quiz("{question.id}", 12.5)`.', []
        done = [_words(question, chosen[question.id])] if question.id in chosen else []
        plain.append("\n".join([question.text, *(f"  {each}" for each in letters), how, *done]))
        rich.append(
            f"<p><b>{rendering.inline(question.text)}</b><br>"
            f"{'<br>'.join(map(rendering.inline, letters))}<br>{rendering.inline(how)}</p>"
            + (_html(question, chosen[question.id]) if done else "")
        )
    bundle: dict[str, Any] = {"text/plain": "\n\n".join(plain), "text/html": "".join(rich)}
    if _has_widgets():
        bundle |= _widget(asked, chosen)
    rendering.show(bundle)


def _options(question: QuizQuestion) -> list[tuple[str, str]]:
    """The options as this learner sees them, by their letters."""
    return [(letter, question.lettered[kept].text) for letter, kept in _lettered(question).items()]


def _widget(asked: Sequence[QuizQuestion], chosen: Mapping[str, str]) -> dict[str, Any]:
    """One group of radio buttons for each question, and below it what is said of the choice.

    Only the texts of questions and options go to the page: verdicts come when one is chosen.
    """
    import ipywidgets as widgets  # late: it takes memory, and a plain Python needs none

    def group(question: QuizQuestion) -> Any:
        buttons: Any = (
            widgets.Text(placeholder="your number", continuous_update=False)
            if isinstance(question, NumberQuestion)
            else widgets.RadioButtons(
                options=[(f"{letter}) {text}", letter) for letter, text in _options(question)],
                value=_letter(question, chosen.get(question.id)),
                layout={"width": "auto"},
            )
        )
        feedback = widgets.HTML(
            _html(question, chosen[question.id]) if question.id in chosen else ""
        )

        def choose(change: Mapping[str, Any]) -> None:
            if change["new"] is not None:
                try:
                    feedback.value = _verdict(question, change["new"])["text/html"]
                except ValueError as error:  # a text where a number is asked for
                    feedback.value = rendering.inline(str(error))

        buttons.observe(choose, names="value")
        text = widgets.HTML(f'<b style="{rendering.LINES}">{rendering.inline(question.text)}</b>')
        return widgets.VBox([text, buttons, feedback])

    return dict(widgets.VBox([group(each) for each in asked])._repr_mimebundle_())


def _verdict(question: QuizQuestion, choice: object) -> dict[str, str]:
    """Keep the choice if it is the first, and say what is to be said of it."""
    letter = _lettered(question).get(str(choice).strip().lower())
    if isinstance(question, NumberQuestion):
        try:
            letter = question.letter_of(float(str(choice).replace(",", "")))
        except ValueError:
            raise ValueError(
                f"{question.id} is answered by a number, such as 12.5, got {choice!r}"
            ) from None
    if letter is None:
        raise ValueError(
            f"{question.id} has the options {', '.join(question.lettered)}, got {choice!r}: "
            "write one of these letters in quotes"
        )
    first = progress.keep_choice(question.id, letter, question.lettered[letter].right)
    in_class.chose(question.id, letter, first)
    return {
        "text/plain": _words(question, letter, first),
        "text/html": _html(question, letter, first),
    }


def _letter(question: QuizQuestion, kept: str | None) -> str | None:
    """The letter that this learner sees for one that was kept; None if there is no such option."""
    return {kept: letter for letter, kept in _lettered(question).items()}.get(kept or "")


def _parts(question: QuizQuestion, kept: str, first: str | None) -> tuple[str, str]:
    letter, option = _letter(question, kept), question.lettered.get(kept)
    if option is None:  # the question was changed since
        return "○", "You chose what is no longer an option."
    if isinstance(question, NumberQuestion):
        counts = "" if first == kept else " (Your first number is the one that counts.)"
        return "✔ Yes." if option.right else "✘ No.", f"{option.why}{counts}"
    counts = f" (Your first choice, {_letter(question, first)}, is the one that counts.)"
    later = counts if first != kept else ""
    again = "" if option.right else " Choose again, to see the explanation of another option."
    return "✔ Yes." if option.right else "✘ No.", f"{letter}) {option.why}{later}{again}"


def _words(question: QuizQuestion, letter: str, first: str | None = None) -> str:
    return " ".join(_parts(question, letter, first or letter))


def _html(question: QuizQuestion, letter: str, first: str | None = None) -> str:
    mark, text = _parts(question, letter, first or letter)
    colour = rendering.GOOD if mark.startswith("✔") else rendering.BAD
    return f'<p style="line-height: 1.45">{rendering.headline(mark, text, colour)}</p>'
