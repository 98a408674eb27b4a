"""Judge a function on drawn inputs: Hypothesis draws them, a reference says what is right.

The verdict shows the smallest input that fails, and the message of a known mistake if the answer
computes the same as that mistake.
"""

import copy
import functools
import inspect
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from random import Random
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvstore.course.exercises import AnswerFailed, Verdict, WrongAnswer, not_yet, passed

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

EXAMPLES: Final = 200
"""So many inputs are drawn before an answer counts as right."""
COMPARED: Final = 40
"""A mistake is recognised when it computes the same as the answer on so many drawn inputs."""

Function = Callable[..., Any]

_INPUTS: "dict[tuple[Function, str], SearchStrategy[tuple[Any, ...]]]" = {}
"""The strategy of each reference: Hypothesis checks and prepares each strategy at its first use."""


def judge_drawn(
    answer: Function,
    reference: Function,
    inputs: "SearchStrategy[tuple[Any, ...]]",
    *,
    mistakes: Sequence[WrongAnswer] = (),
    right: str,
    shown: Callable[..., str] | None = None,
    same: Callable[[Any, Any], bool] | None = None,
) -> Verdict:
    """Return whether the answer agrees with the reference on every drawn input.

    `inputs` draws the tuples of arguments, over the whole domain that the exercise states. `right`
    is the message of a right answer. `shown` writes the arguments; `same` compares two results.
    """
    same = same or same_result
    inputs = _INPUTS.setdefault((reference, repr(inputs)), inputs)
    smallest = _smallest(inputs, lambda given: not same(_result(answer, given), reference(*given)))
    if smallest is None:
        return passed(right)
    call = (shown or _arguments)(*smallest)
    result, expected = _result(answer, smallest), reference(*copy.deepcopy(smallest))
    if isinstance(result, AnswerFailed):
        seen = f"With {call}: {result.verdict.message}"
    else:
        seen = f"With {call} it returned {_short(result)}; {_short(expected)} is right."
    return not_yet(f"{_hint(answer, inputs, mistakes, same)}{seen}")


def in_order_of(function: Function) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Return what brings arguments drawn by name into the order of the function's parameters."""
    names = tuple(inspect.signature(function).parameters)
    return lambda arguments: tuple(arguments[name] for name in names)


def same_result(found: Any, expected: Any) -> bool:
    """Return whether two results are equal; numbers may differ by rounding."""
    if isinstance(expected, Real) and not isinstance(expected, bool):
        if isinstance(found, bool) or not isinstance(found, Real):
            return False
        return math.isclose(found, expected, rel_tol=1e-6, abs_tol=1e-12)
    return bool(type(found) is type(expected) and found == expected)


def drawn_inputs(inputs: "SearchStrategy[tuple[Any, ...]]", count: int) -> list[tuple[Any, ...]]:
    """Return up to `count` drawn inputs, the same ones in each call."""
    drawn: list[tuple[Any, ...]] = []

    def keep(given: tuple[Any, ...]) -> bool:
        if len(drawn) < count:  # Hypothesis runs the last one again
            drawn.append(copy.deepcopy(given))
        return len(drawn) >= count

    _smallest(inputs, keep, shrink=False)
    return drawn


def _smallest(
    inputs: "SearchStrategy[tuple[Any, ...]]",
    fails: Callable[[tuple[Any, ...]], bool],
    *,
    shrink: bool = True,
) -> tuple[Any, ...] | None:
    """Return the smallest drawn input for which `fails` is true; None when there is none."""
    from hypothesis import HealthCheck, Phase, configuration, find, settings
    from hypothesis.errors import NoSuchExample

    configuration.set_hypothesis_home_dir(tempfile.gettempdir())  # not the learner's folder
    how = settings(
        database=None,
        deadline=None,
        derandomize=True,
        max_examples=EXAMPLES,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    try:
        return find(inputs, fails, settings=how, random=Random(0))  # the same draws each time
    except NoSuchExample:
        return None


def _result(answer: Function, given: tuple[Any, ...]) -> Any:
    """Return what the answer returns for a copy of the input, or its failure."""
    try:
        with np.errstate(all="ignore"):  # no warning for each of many inputs
            return answer(*copy.deepcopy(given))
    except AnswerFailed as failure:
        return failure


@functools.cache
def _compared_on(inputs: "SearchStrategy[tuple[Any, ...]]") -> Sequence[tuple[Any, ...]]:
    """Return the inputs on which mistakes are compared; drawn once for each strategy."""
    return drawn_inputs(inputs, COMPARED)


def _hint(
    answer: Function,
    inputs: "SearchStrategy[tuple[Any, ...]]",
    mistakes: Sequence[WrongAnswer],
    same: Callable[[Any, Any], bool],
) -> str:
    """Return the message of the first mistake that computes what the answer computes, or ""."""

    def alike(found: Any, wrong: Any) -> bool:
        if isinstance(found, AnswerFailed) or wrong is _FAILED:  # on the same inputs only
            return isinstance(found, AnswerFailed) and wrong is _FAILED
        return _both_nan(found, wrong) or same(found, wrong)

    drawn = _compared_on(inputs)
    for mistake in mistakes:
        pairs = ((_result(answer, each), _mistaken(mistake.answer, each)) for each in drawn)
        if all(alike(found, wrong) for found, wrong in pairs):
            return f"{mistake.expected} "
    return ""


_FAILED: Final = object()
"""In place of a result: the known mistake raises an error on this input."""


def _mistaken(mistake: Function, given: tuple[Any, ...]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return mistake(*copy.deepcopy(given))
    except Exception:
        return _FAILED


def _both_nan(found: Any, wrong: Any) -> bool:
    return all(isinstance(each, Real) and math.isnan(each) for each in (found, wrong))


def _arguments(*given: Any) -> str:
    return f"`{', '.join(map(_text, given))}`"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_text(each)}" for key, each in value.items()) + "}"
    return repr(value)


def _short(value: Any) -> str:
    text = _text(value)
    return f"`{text}`" if len(text) <= 60 else f"`{text[:60]}...`"
