"""The two kinds of questions, and how one is found by its id.

To add one to lesson NN, write it into `lessons/lesson_NN/lesson.toml`: `[[prediction]]` or
`[[quiz]]`; `[[part_quiz]]` has the quiz over a part, in its last lesson. How the runs and the model
answer a prediction is in `ANSWERS` of `lesson_NN/questions.py`, by its id. Without an entry there,
the notebook computes both numbers and passes them to `compare`.
A file is read when one of its questions is needed, and not before.
"""

import difflib
import functools
import importlib.util
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Literal, NamedTuple, TypeVar

from kvstore import numbers
from kvstore.course.lessons import parts, tables
from kvstore.course.progress import lesson_of

__all__ = [
    "Answer",
    "Camp",
    "Curve",
    "NumberQuestion",
    "Option",
    "PredictionQuestion",
    "QuizQuestion",
    "ask",
    "asked",
    "predictions_of",
    "quiz_of",
    "registered",
    "registered_quiz",
]


# Conversion of units between a question, a prediction and a result.
#
# There are two units of a rate. `calls/s` counts calls with any status: an offered rate, or the
# capacity of a station. `operations/s` counts operations answered OK: the throughput of a run.
# They are equal if each call has one operation and is answered OK. A call of a batch has many.


CALLS, OPERATIONS = "calls/s", "operations/s"
RATES: Final = (CALLS, OPERATIONS)

_SECONDS: Final = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}


T = TypeVar("T", "PredictionQuestion", "QuizQuestion")


class UnitError(ValueError):
    """Two numbers cannot be compared, because their units differ."""


def factor(unit: str, wanted: str, what: str, per_call: float = 1.0) -> float:
    """Return the factor from `unit` to the unit `wanted`.

    Times convert. The two rates are equal if a call has one operation (`per_call` is the number of
    operations in a call). Raise UnitError otherwise; `what` names the number in its message.
    """
    if unit == wanted:
        return 1.0
    if unit in _SECONDS and wanted in _SECONDS:
        return _SECONDS[unit] / _SECONDS[wanted]
    if {unit, wanted} != set(RATES):
        raise UnitError(
            f"the question asks for {wanted}, but {what} is in {unit}: "
            "give the quantity that the question names"
        )
    if abs(per_call - 1) > 1e-9:
        raise UnitError(
            f"the question asks for {wanted}, but {what} is in {unit}, and a call of this run "
            f"has {numbers.number(per_call)} operations: multiply calls by it to get operations"
        )
    return 1.0


def operations_in_a_call(run: object) -> float:
    """Return the mean number of operations in a call of this run; 1 if it is unknown."""
    sent: Any = getattr(run, "issued_operations", None)
    calls: Any = getattr(run, "issued", None)
    return sent / calls if sent and calls else 1.0


# What a question is made of: one that asks for a number, and one that offers options.


SAME: Final = 0.03
"""A prediction that is this near to a known mistake is that mistake."""
LETTERS: Final = "abcdefgh"
"""The options of a quiz question are called by these, in the order in which they are written."""


class Camp(NamedTuple):
    """Those who predict about the same number, and why they do."""

    camp: float | str
    """A number in the question's unit; a shape or a formula is for the run sheets alone."""
    thinks: str = ""
    lacks: str = ""
    """What the learner is told after the run: only a wrong number has it."""
    ask: str = ""
    """What the teacher asks this camp."""


class Answer(NamedTuple):
    """How the runs that the lesson passes to `compare`, and the model, answer a question.

    Both are called with these runs, after the question was closed, and return a number in its
    unit; a `Prediction` of the model is converted.
    """

    measured: Callable[..., Any]
    model: Callable[..., Any] | None = None


COMPUTED: Final = Answer(
    lambda measured, *_: measured, lambda _measured, predicted=None, *_: predicted
)
"""The notebook computes both numbers and passes them to `compare`."""


@dataclass(frozen=True)
class PredictionQuestion:
    """A number that the learner commits to before a run, and how the run and the model answer it.

    `measured` and `model` are those of an `Answer`. `text` is shown by `predict`. `main` and
    `binds` are those of `compare`. `far_off` takes the place of the scale's last words.
    ValueError for a camp that cannot be predicted, or that thinks nothing.
    """

    id: str
    text: str = ""
    unit: str = field(default=CALLS, kw_only=True)
    measured: Callable[..., Any] = field(default=COMPUTED.measured, kw_only=True)
    model: Callable[..., Any] | None = field(default=COMPUTED.model, kw_only=True)
    main: bool = field(default=False, kw_only=True)
    binds: Literal["cpu"] | None = field(default=None, kw_only=True)
    camps: tuple[Camp, ...] = field(default=(), kw_only=True)
    far_off: str = field(default="", kw_only=True)

    @property
    def mistakes(self) -> tuple[tuple[float, str], ...]:
        """Wrong numbers that learners are known to give, and what each of them leaves out."""
        return tuple((float(each.camp), each.lacks) for each in self.camps if each.lacks)

    def mistake(self, value: float) -> str:
        """Return what is to be said of a number within `SAME` of a known mistake; else ""."""
        near = min(self.mistakes, key=lambda each: abs(math.log(value / each[0])), default=(0, ""))
        return near[1] if abs(value - near[0]) <= SAME * near[0] else ""

    def __post_init__(self) -> None:
        _check_id(self.id)
        for camp, thinks, lacks, _ in self.camps:
            if not (lacks or thinks) or (not camp > 0 if not isinstance(camp, str) else lacks):
                raise ValueError(f"{self.id}: a camp is a number above 0 and what it thinks")
        if self.main and self.model is None:
            raise ValueError(f"{self.id}: a main comparison needs `model`, got none")


@dataclass(frozen=True)
class Curve(PredictionQuestion):
    """A law that the learner draws before the runs: a line over `over`, through a value at each x.

    `measured` and `model` return values in `unit` by x, and not one number; a value that was
    measured between two x is compared with the line between them. The y axis goes from `least` to
    `most`; with `log` both axes are logarithmic, and from 0 and linear without it.
    """

    over: str = field(kw_only=True)
    """The x axis, with its unit."""
    xs: Sequence[float] = field(kw_only=True)
    most: float = field(kw_only=True)
    least: float = field(default=0.0, kw_only=True)
    log: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class Option:
    """One answer that a quiz question offers. `why` is shown to the learner who chooses it."""

    text: str
    right: bool = False
    why: str = ""


@dataclass(frozen=True)
class QuizQuestion:
    """A question with two or more options, of which exactly one is right.

    ValueError for another number of right options, and for an option without its explanation.
    """

    id: str
    text: str
    options: tuple[Option, ...]

    def __post_init__(self) -> None:
        _check_id(self.id)
        texts = [option.text for option in self.options]
        if not 2 <= len(texts) <= len(LETTERS) or len(set(texts)) < len(texts):
            raise ValueError(
                f"{self.id}: a quiz question needs two to {len(LETTERS)} different options, "
                f"got {texts}"
            )
        if (right := sum(option.right for option in self.options)) != 1:
            raise ValueError(f"{self.id}: exactly one option must be right, got {right}")
        if silent := [option.text for option in self.options if not option.why]:
            raise ValueError(f"{self.id}: every option needs `why`, got none for {silent}")

    @property
    def lettered(self) -> dict[str, Option]:
        """The options by their letters."""
        return dict(zip(LETTERS, self.options, strict=False))


@dataclass(frozen=True)
class NumberQuestion(QuizQuestion):
    """A quiz question that is answered by a number; `number_question` makes one.

    Its options are the right number, the known mistakes and "another number". A page or a vote,
    where nobody types, asks it as any other quiz question.
    """

    values: tuple[float, ...]
    """The number of each option but the last."""
    drawn: Callable[[str], "NumberQuestion"]
    """Returns the question with the parameters of one learner, always the same ones."""

    def letter_of(self, number: float) -> str:
        """Return the letter of the option that this number is: the last one for any other."""
        near = [abs(number - value) <= SAME * abs(value) for value in self.values]
        return LETTERS[near.index(True) if any(near) else len(near)]


def number_question(
    id: str,
    text: str,
    unit: str,
    draws: Mapping[str, Sequence[float]],
    option: Sequence[Mapping[str, Any]],
    other: str = "Write down the law first, and then its numbers.",
) -> NumberQuestion:
    """Return a quiz question that is answered by a number of `unit`, drawn for each learner.

    `draws` has the values of each parameter; where nobody types, the first of each counts. `text`
    and the explanations have parameters in braces, such as "{n} calls in flight". The `value` of an
    option is a formula of the parameters, in Python, such as "x * r / 1e3"; one option is `right`.
    ValueError for a mistake that is as good as right for some parameters.
    """

    def value(of: Mapping[str, Any], parameters: Mapping[str, float]) -> float:
        return float(eval(of["value"], {"__builtins__": {}}, dict(parameters)))

    first = {name: values[0] for name, values in draws.items()}
    answers = sorted(option, key=lambda each: value(each, first))

    def ask_with(parameters: Mapping[str, float]) -> NumberQuestion:
        values = tuple(value(each, parameters) for each in answers)
        options = (
            Option(
                f"{numbers.number(number)} {unit}",
                each.get("right", False),
                each["why"].format(**parameters),
            )
            for number, each in zip(values, answers, strict=True)
        )
        asked = text.format(**parameters)
        return NumberQuestion(
            id, asked, (*options, Option("another number", why=other)), values, draw
        )

    def draw(learner: str) -> NumberQuestion:
        chance = Random(f"{learner} {id}")
        return ask_with({name: chance.choice(values) for name, values in draws.items()})

    for drawn in itertools.product(*draws.values()):
        parameters = dict(zip(draws, drawn, strict=True))
        right = [value(each, parameters) for each in answers if each.get("right")]
        wrong = [value(each, parameters) for each in answers if not each.get("right")]
        if any(abs(at - goal) <= 2 * SAME * abs(goal) for goal in right for at in wrong):
            raise ValueError(f"{id}: a mistake is as good as right for {parameters}")
        ask_with(parameters)  # two mistakes that are one option are refused
    return ask_with(first)


def _check_id(id: str) -> None:
    if not re.fullmatch(r"\d\d\.[a-z0-9_]+", id):
        raise ValueError(
            f"a question id is the lesson and a name, such as 03.global_lock, got {id!r}"
        )


def registered(question_id: str) -> PredictionQuestion:
    """Return the prediction question with this id; LookupError, with the nearest ids, if none."""
    return _written.get(question_id) or _by_id(question_id, predictions_of, "question")


_written: dict[str, PredictionQuestion] = {}
"""The questions that a notebook asks itself."""


def ask(
    id: str,
    text: str,
    unit: str = CALLS,
    *,
    measured: Callable[..., Any] | None = None,
    model: Callable[..., Any] | None = None,
) -> PredictionQuestion:
    """Ask a question that stands in a notebook alone: `predict(id)` and `compare(id, ...)` know it.

    `measured` and `model` are functions of the runs that `compare` gets, as in an `Answer`. Without
    them, `compare` takes the measured number and, where there is one, the model's.
    Raises ValueError for an id that is none, or that a lesson has.
    """
    if any(each.id == id for each in predictions_of(lesson_of(id))):
        raise ValueError(f"lesson {lesson_of(id)} has a question {id}: choose another name")
    answer = COMPUTED if measured is None else Answer(measured, model)
    _written[id] = PredictionQuestion(id, text, unit=unit, **answer._asdict())
    return _written[id]


def registered_quiz(question_id: str) -> QuizQuestion:
    """Return the quiz question with this id; LookupError, with the nearest ids, if none."""
    return _by_id(question_id, _all_quizzes_of, "quiz question")


def asked(name: str) -> tuple[QuizQuestion, ...]:
    """Return the quiz questions of a lesson ("03"), of a part ("part 1"), or the one with this id.

    LookupError, with what to do, if there is none.
    """
    if not isinstance(name, str) or not re.fullmatch(r"\d\d|part \d+", name):
        return (registered_quiz(name),)
    if not name.startswith("part "):
        questions, where = quiz_of(name), "look up its number in the map of lesson 00"
        name = f"lesson {name}"
    else:
        quizzes = [_quizzes_of(lessons[-1], "part_quiz") for lessons in parts().values()]
        questions = dict(enumerate(quizzes, start=1)).get(int(name.removeprefix("part ")), ())
        where = f"parts 1 to {sum(map(bool, quizzes))} have one"
    if not questions:
        raise LookupError(f"{name} has no quiz: {where}")
    return questions


def _by_id(question_id: str, of: Callable[[str], tuple[T, ...]], what: str) -> T:
    if not isinstance(question_id, str):
        raise TypeError(
            'first comes the name of the question in quotes, such as "03.global_lock", '
            f"got {question_id!r}"
        )
    known = {each.id: each for each in of(lesson_of(question_id))}
    if question_id not in known:
        near = " or ".join(difflib.get_close_matches(question_id, known, n=2, cutoff=0.3))
        raise LookupError(
            f"there is no {what} {question_id!r}: "
            + (
                f"did you mean {near}?"
                if near
                else "its name stands in its cell of the lesson, and `ask` makes a new one"
            )
        )
    return known[question_id]


@functools.cache
def predictions_of(lesson: str) -> tuple[PredictionQuestion, ...]:
    """The prediction questions of a lesson, such as "03", in their order."""
    written = tables(lesson, "prediction")
    module = f"kvstore.course.lessons.lesson_{lesson}.questions"
    has_answers = written and importlib.util.find_spec(module)
    answers = dict(importlib.import_module(module).ANSWERS) if has_answers else {}

    def build(table: Mapping[str, Any]) -> PredictionQuestion:
        facts = dict(table)
        camps = tuple(Camp(**camp) for camp in facts.pop("camp", ()))
        kind = Curve if "over" in facts else PredictionQuestion
        answer = answers.pop(facts["id"], COMPUTED)
        return kind(**facts, **answer._asdict(), camps=camps)

    questions = tuple(_from_tables(lesson, "prediction", build))
    if answers:
        raise ValueError(f"lesson.toml of lesson {lesson} does not ask {', '.join(answers)}")
    return questions


@functools.cache
def _quizzes_of(lesson: str, kind: str) -> tuple[QuizQuestion, ...]:
    def build(table: Mapping[str, Any]) -> QuizQuestion:
        if "draws" in table:
            return number_question(**table)
        options = tuple(Option(**option) for option in table["option"])
        return QuizQuestion(table["id"], table["text"], options)

    return tuple(_from_tables(lesson, kind, build))


def _from_tables(lesson: str, kind: str, build: Callable[[Mapping[str, Any]], T]) -> Iterator[T]:
    """Yield a question for each table of this kind; ValueError, with its id, for a wrong one."""
    for table in tables(lesson, kind):
        try:
            yield build(table)
        except (KeyError, TypeError, SyntaxError, NameError) as error:
            where = f"lesson.toml of lesson {lesson}, {kind} {table['id']}"
            raise ValueError(f"{where}: {error}, see docs/write_your_own.md") from error


def quiz_of(lesson: str) -> tuple[QuizQuestion, ...]:
    """The quiz questions of a lesson, such as "03", in their order."""
    return _quizzes_of(lesson, "quiz")


def _all_quizzes_of(lesson: str) -> tuple[QuizQuestion, ...]:
    return quiz_of(lesson) + _quizzes_of(lesson, "part_quiz")
