"""What a question is made of: one that asks for a number, and one that offers options."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kvstore.course import units

LETTERS: Final = "abcdefgh"
"""The options of a quiz question are called by these, in the order in which they are written."""


@dataclass(frozen=True)
class PredictionQuestion:
    """A number that the learner commits to before a run, and how the run and the model answer it.

    `measured` and `model` are called with the runs that the lesson passes to `compare`, after the
    question was closed. Both answer in `unit`; a `Prediction` of the model, and a run in place of
    a number (it stands for its throughput), are converted. `text` is shown by `predict`.
    `main` and `binds` are those of `compare`.
    """

    id: str
    text: str = ""
    unit: str = field(default=units.CALLS, kw_only=True)
    measured: Callable[..., Any] = field(kw_only=True)
    model: Callable[..., Any] | None = field(default=None, kw_only=True)
    main: bool = field(default=False, kw_only=True)
    binds: Literal["cpu"] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_id(self.id)
        if self.main and self.model is None:
            raise ValueError(f"{self.id}: a main comparison needs `model`, got none")


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


def _check_id(id: str) -> None:
    if not re.fullmatch(r"\d\d\.[a-z0-9_]+", id):
        raise ValueError(
            f"a question id is the lesson and a name, such as 03.global_lock, got {id!r}"
        )
