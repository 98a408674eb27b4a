"""The exercises of the course, in modules named after their lessons, found by their ids.

To add `NN.my_exercise`, write its title and hints into `lesson.toml` in the room of lesson NN, and
its judge, with `@judges("NN.my_exercise")`, into a module `exercises*.py` there.
"""

import difflib
import functools
import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar, final

from kvstore.course import my_code, rendering
from kvstore.course.lessons import LESSONS, tables

__all__ = [
    "NOT_ATTEMPTED",
    "Exercise",
    "Verdict",
    "Wrong",
    "every",
    "expect",
    "find",
    "judges",
    "not_yet",
    "passed",
]


# Exercises and the verdicts on their answers.


Judge = TypeVar("Judge")
Outcome = Literal["passed", "not yet", "not attempted"]

MIME_TYPE: Final = "application/vnd.kvstore.verdict+json"
"""The MIME type under which the output has exercise, outcome and message for programs."""


@final
class NotAttempted:
    """The type of `NOT_ATTEMPTED`, which an unwritten function returns."""

    def __repr__(self) -> str:
        return "not attempted"

    def __reduce__(self) -> str:
        return "NOT_ATTEMPTED"  # the one that is here, also in another process


NOT_ATTEMPTED: Final = NotAttempted()
"""The result of a stub, so that an untouched notebook runs from top to bottom."""


@dataclass(frozen=True)
class Verdict(rendering.Shown):
    """The outcome of an answer, and the reason."""

    outcome: Outcome
    message: str
    exercise_id: str = ""

    @property
    def passed(self) -> bool:
        """Return whether the answer is right."""
        return self.outcome == "passed"

    def __repr__(self) -> str:
        return f"{_MARKS[self.outcome][0]} {self._sentence}"

    @property
    def _sentence(self) -> str:
        """Return the message with a capital letter: it stands after the outcome's full stop."""
        return rendering.capitalised(self.message)

    def _forms(self) -> dict[str, Any]:
        mark, colour = _MARKS[self.outcome]
        return {
            "text/plain": repr(self),
            "text/html": rendering.headline(mark, self._sentence, colour),
            MIME_TYPE: {
                "exercise_id": self.exercise_id,
                "outcome": self.outcome,
                "message": self.message,
            },
        }


_MARKS: Final = {
    "passed": ("✔ Passed.", rendering.GOOD),
    "not yet": ("✘ Not yet.", rendering.BAD),
    "not attempted": ("○ Not attempted.", rendering.QUIET),
}


def passed(message: str) -> Verdict:
    """Return the verdict on a right answer; the message says what the answer shows."""
    return Verdict("passed", message)


def not_yet(message: str) -> Verdict:
    """Return the verdict on a wrong answer; the message says what is wrong and where to look.

    A message may have "1 calls were": it is "1 call was" in the verdict.
    """
    return Verdict("not yet", _ONE.sub(_singular, message))


_ONE: Final = re.compile(
    r"(?<![\d.,])1 (call|channel|code|connection|item|key|operation|piece|request|server|slot|user"
    r"|value)s\b( were| are)?"
)


def _singular(match: re.Match[str]) -> str:
    verb = {" were": " was", " are": " is", None: ""}[match[2]]
    return f"1 {match[1]}{verb}"


def near(number: float, expected: float, share: float = 1e-9) -> bool:
    """Return whether two numbers differ by at most a share of the expected one."""
    return abs(number - expected) <= share * abs(expected)


class Wrong(BaseException):
    """An answer is wrong; the text says what, and where to look."""


def expect(condition: object, sentence: str) -> None:
    """Raise `Wrong` with the sentence unless the condition is true: the verdict is "not yet"."""
    if not condition:
        raise Wrong(sentence)


class StubReached(BaseException):
    """The learner's function is still a stub; passes through a judge's `except Exception`."""


class AnswerFailed(BaseException):
    """The learner's function raised an error; the verdict is ready."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict


@dataclass(frozen=True)
class Exercise:
    """A task, its hints, and the judge of its answers. `lesson.toml` has all but the judge.

    The judge gets the learner's function or class. Errors of the function, a hang, and
    `NOT_ATTEMPTED` are handled before the judge. A function that returns None is wrong, unless
    `may_return_none`; a function that returns text is wrong, unless `may_return_text`.
    """

    id: str
    judge: Callable[[Any], Verdict]
    title: str
    kept: str
    """Where a right answer is kept in `my_code/`, such as "clients.bounded"."""
    hints: tuple[str, ...]
    timeout_s: float = 20.0
    may_return_none: bool = False
    may_return_text: bool = False
    may_pause: bool = False
    """Whether a pause of an answer, such as before a second attempt, is no mistake."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d\d\.[a-z0-9_]+", self.id):
            raise ValueError(
                f"id must be the lesson and a name, such as 00.utilisation, got {self.id!r}"
            )
        if not self.timeout_s > 0:
            raise ValueError(f"timeout_s must be more than 0 seconds, got {self.timeout_s}")

    @property
    def reference(self) -> Any:
        """The course's version of the function or class."""
        return my_code.course_version(self.kept)


_judges: dict[str, Any] = {}


def judges(exercise_id: str) -> Callable[[Judge], Judge]:
    """Return a decorator of the function, or of the `Drawn`, that judges answers to an exercise."""

    def keep(judge: Judge) -> Judge:
        _judges[exercise_id] = judge
        return judge

    return keep


@functools.cache
def every() -> Mapping[str, Exercise]:
    """Return all exercises by id, in the order of lessons.

    Raise ValueError if an exercise of a `lesson.toml` has no judge, or a judge no exercise.
    """
    for name in _modules():
        importlib.import_module(name)
    facts = {each["id"]: dict(each) for lesson in LESSONS for each in tables(lesson, "exercise")}
    if without := {*facts} ^ {*_judges}:
        raise ValueError(f"{', '.join(sorted(without))}: an exercise and its judge need each other")
    return MappingProxyType({id: _exercise(_judges[id], of) for id, of in facts.items()})


def _exercise(judge: Any, facts: dict[str, Any]) -> Exercise:
    if "mistake" in facts:  # of a judge on drawn inputs
        judge = judge.saying(facts.pop("right"), facts.pop("mistake"))
    return Exercise(judge=judge, **{**facts, "hints": tuple(facts["hints"])})


def _modules() -> list[str]:
    """The modules of exercises in the rooms of all lessons."""
    rooms = Path(__file__).parents[1] / "lessons"
    return [
        f"kvstore.course.lessons.{file.parent.name}.{file.stem}"
        for file in sorted(rooms.glob("lesson_*/exercises*.py"))
    ]


def find(exercise_id: str) -> Exercise:
    """Return the exercise of an id; raise LookupError with the nearest ids if there is none."""
    if not isinstance(exercise_id, str):
        raise TypeError(
            'first comes the name of the exercise in quotes, such as "00.utilisation", '
            f"got {exercise_id!r}"
        )
    try:
        return every()[exercise_id]
    except KeyError:
        near = difflib.get_close_matches(exercise_id, every(), n=2, cutoff=0.3)
        raise LookupError(
            f"there is no exercise {exercise_id!r}: "
            + (f"did you mean {' or '.join(near)}?" if near else "its name stands in its cell")
        ) from None
