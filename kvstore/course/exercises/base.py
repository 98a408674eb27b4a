"""What an exercise is made of, the three ways an answer can come out, and a number that is near."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, final

from kvstore.course import rendering

Outcome = Literal["passed", "not yet", "not attempted"]

MIME_TYPE: Final = "application/vnd.kvstore.verdict+json"
"""Under this type the output carries exercise, outcome and message for programs to read."""


@final
class NotAttempted:
    """The type of `NOT_ATTEMPTED`: what a function returns that is still to be written."""

    def __repr__(self) -> str:
        return "not attempted"


NOT_ATTEMPTED: Final = NotAttempted()
"""A stub returns this, so that an untouched notebook runs from top to bottom."""


@dataclass(frozen=True)
class Verdict(rendering.Shown):
    """What the judge says of an answer, and why."""

    outcome: Outcome
    message: str
    exercise_id: str = ""

    @property
    def passed(self) -> bool:
        """Whether the answer is right."""
        return self.outcome == "passed"

    def __repr__(self) -> str:
        return f"{_MARKS[self.outcome][0]} {self.message}"

    def _forms(self) -> dict[str, Any]:
        mark, colour = _MARKS[self.outcome]
        return {
            "text/plain": repr(self),
            "text/html": rendering.headline(mark, self.message, colour),
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
    """The answer is right; the message says what it shows."""
    return Verdict("passed", message)


def not_yet(message: str) -> Verdict:
    """The answer is not right yet; the message says what was seen and where to look."""
    return Verdict("not yet", message)


def near(found: float, expected: float, share: float = 1e-9) -> bool:
    """Whether two numbers are the same but for rounding, up to a share of the expected one."""
    return abs(found - expected) <= share * abs(expected)


@dataclass(frozen=True)
class WrongAnswer:
    """A mistake that learners make, and a part of the message that must meet it."""

    answer: Any
    expected: str


@dataclass(frozen=True)
class Exercise:
    """A task, the help with it, and the judge of its answers.

    `answer` of the judge is a function the learner wrote, or a value. A judge never
    needs to guard against the learner's function: what it raises, a hang, and
    `NOT_ATTEMPTED` are dealt with before the judge sees them. A function that returns
    None is told so, unless `may_return_none`; one that returns text, unless `may_return_text`.
    """

    id: str
    title: str
    statement: str
    hints: tuple[str, ...]
    reference: Any
    wrong: tuple[WrongAnswer, ...]
    judge: Callable[[Any], Verdict]
    timeout_s: float = 20.0
    may_return_none: bool = False
    may_return_text: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d\d\.[a-z0-9_]+", self.id):
            raise ValueError(
                f"an exercise id is the lesson and a name, such as 00.utilisation, got {self.id!r}"
            )
        if not self.timeout_s > 0:
            raise ValueError(f"timeout_s must be more than 0 seconds, got {self.timeout_s}")
