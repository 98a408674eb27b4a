"""Exercises and the verdicts on their answers."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, final

from kvstore.course import rendering

Outcome = Literal["passed", "not yet", "not attempted"]

MIME_TYPE: Final = "application/vnd.kvstore.verdict+json"
"""The MIME type under which the output has exercise, outcome and message for programs."""


@final
class NotAttempted:
    """The type of `NOT_ATTEMPTED`, which an unwritten function returns."""

    def __repr__(self) -> str:
        return "not attempted"


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
        return self.message[:1].upper() + self.message[1:]

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
    """Return the verdict on a wrong answer; the message says what is wrong and where to look."""
    return Verdict("not yet", message)


def near(found: float, expected: float, share: float = 1e-9) -> bool:
    """Return whether two numbers differ by at most a share of the expected one."""
    return abs(found - expected) <= share * abs(expected)


class StubReached(BaseException):
    """The learner's function is still a stub; passes through a judge's `except Exception`."""


class AnswerFailed(BaseException):
    """The learner's function raised an error; the verdict is ready."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict


@dataclass(frozen=True)
class WrongAnswer:
    """A common mistake, and a part of the message that it must get."""

    answer: Any
    expected: str


@dataclass(frozen=True)
class Exercise:
    """A task, its hints, its solution, and the judge of its answers.

    The judge gets the learner's function or value. Errors of the function, a hang, and
    `NOT_ATTEMPTED` are handled before the judge. A function that returns None is wrong, unless
    `may_return_none`; a function that returns text is wrong, unless `may_return_text`.
    """

    id: str
    title: str
    hints: tuple[str, ...]
    reference: Any
    wrong: tuple[WrongAnswer, ...]
    judge: Callable[[Any], Verdict]
    timeout_s: float = 20.0
    may_return_none: bool = False
    may_return_text: bool = False
    solution_parts: tuple[Any, ...] = ()
    """Classes and functions that the reference uses; `solution` shows them before it."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d\d\.[a-z0-9_]+", self.id):
            raise ValueError(
                f"id must be the lesson and a name, such as 00.utilisation, got {self.id!r}"
            )
        if not self.timeout_s > 0:
            raise ValueError(f"timeout_s must be more than 0 seconds, got {self.timeout_s}")
