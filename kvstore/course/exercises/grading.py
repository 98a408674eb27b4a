"""Grading of a learner's answer, and of functions on drawn inputs.

Grading always returns a verdict: errors of answers are caught. `kvstore/course/judging.py` runs
it in a process of its own, with a time limit.
"""

import asyncio
import copy
import functools
import inspect
import math
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from random import Random
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvstore.course.exercises import (
    NOT_ATTEMPTED,
    AnswerFailed,
    Exercise,
    StubReached,
    Verdict,
    Wrong,
    limits,
    not_yet,
    passed,
)

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


SHOWN: Final = 60
"""The most characters of an answer's result in a message."""


def judged(exercise: Exercise, answer: Any) -> Verdict:
    """Return the judge's verdict on the answer, in this process and without a time limit.

    Raise KeyboardInterrupt, and no error of the answer. An answer of a wrong type is "not yet"
    right; the message says why. For an answer of a learner use `judging.judge`.
    """
    if answer is None or answer is ... or answer is NOT_ATTEMPTED:
        return _stub()
    if not callable(answer):
        return not_yet(
            f"the check calls your function with its own values, so it needs the function itself,"
            f" got {_short(answer)}: pass its name without parentheses, as in the original cell."
        )
    called = callable(answer) and not inspect.isclass(answer)
    results: list[Any] = []
    try:
        return exercise.judge(_guarded(exercise, answer, results) if called else answer)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        for reason in _reasons(error):
            if isinstance(reason, StubReached):
                return _stub()
            if isinstance(reason, AnswerFailed):
                return reason.verdict
            if isinstance(reason, Wrong):
                return not_yet(str(reason))
        what = (
            f"what `{_name(answer)}` returned, {_short(results[-1])}" if results else "your answer"
        )
        return not_yet(_failure(answer, error, f"the check could not use {what}"))


def _reasons(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and its causes: a run wraps the error of its strategy."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                yield from _reasons(each)
        error = error.__cause__


def _guarded(
    exercise: Exercise, answer: Callable[..., Any], results: list[Any]
) -> Callable[..., Any]:
    """Return the function with its errors and its stub marked as the learner's.

    `results` gets its last result.
    """

    @contextmanager
    def marked() -> Iterator[None]:
        try:
            yield
        except (KeyboardInterrupt, StubReached, AnswerFailed):
            raise
        except (asyncio.CancelledError, GeneratorExit):  # from the judge, who ends a call
            raise
        except BaseException as error:
            if isinstance(error, MemoryError):
                traceback.clear_frames(error.__traceback__)  # or there is none left to report it
            text = _failure(answer, error, f"`{_name(answer)}` could not be called")
            raise AnswerFailed(not_yet(text)) from error

    def checked(result: Any) -> Any:
        if result is NOT_ATTEMPTED or result is ...:
            raise StubReached
        if result is None and not exercise.may_return_none:
            text = f"`{_name(answer)}` returned None: is its `return` missing?"
            raise AnswerFailed(not_yet(text))
        if isinstance(result, str) and not exercise.may_return_text:
            text = f"`{_name(answer)}` returned the text {_short(result)}: return a value that is"
            raise AnswerFailed(not_yet(f"{text} not text, without quotes or `str`."))
        result = _plain(result)
        results[:] = [result]
        return result

    @functools.wraps(answer)
    def call(*arguments: Any, **named: Any) -> Any:
        with marked():
            result = answer(*arguments, **named)
        return checked(result)

    @functools.wraps(answer)
    async def call_async(*arguments: Any, **named: Any) -> Any:
        with marked():
            result = await answer(*arguments, **named)
        return checked(result)

    return call_async if inspect.iscoroutinefunction(answer) else call


def _plain(result: Any) -> Any:
    """Return the result without the types of numpy; an iterator of values becomes their list."""
    if isinstance(result, np.generic) or (isinstance(result, np.ndarray) and not result.ndim):
        return result.item()
    if isinstance(result, np.ndarray):
        return result.tolist()
    lazy = isinstance(result, Iterator) and type(result).__module__ in ("builtins", "itertools")
    return list(result) if lazy else result


def _failure(answer: Any, error: BaseException, otherwise: str) -> str:
    """Return the error and its line of the learner's code; `otherwise` if it has none."""
    own_file = getattr(getattr(answer, "__code__", None), "co_filename", None)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == own_file or "ipykernel_" in frame.filename
    ]
    error_text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, MemoryError):
        error_text += f": an answer may use {limits.MEMORY_BYTES >> 30} GB here."
    if not frames:
        return f"{otherwise}: {error_text}"
    line = f": `{frames[-1].line}`" if frames[-1].line else ""
    return f"`{frames[-1].name}` stopped at line {frames[-1].lineno}{line}\n{error_text}"


def _short(value: Any) -> str:
    """Return the value as Python writes it, cut after `SHOWN` characters."""
    text = repr(value)
    return f"`{text}`" if len(text) <= SHOWN else f"`{text[:SHOWN]}...`"


def _name(answer: Callable[..., Any]) -> str:
    return getattr(answer, "__name__", type(answer).__name__)


def _stub() -> Verdict:
    return Verdict(
        "not attempted",
        "Put your answer in place of NOT_ATTEMPTED, then run that cell and the check again.",
    )


# Judge a function on drawn inputs: Hypothesis draws them, a reference says what is right.
#
# The verdict shows the smallest input that fails, and the message of a known mistake if the
# answer computes the same as that mistake.


EXAMPLES: Final = 200
"""So many inputs are drawn before an answer counts as right."""
COMPARED: Final = 40
"""A mistake is recognised when it computes the same as the answer on so many drawn inputs."""

Function = Callable[..., Any]


def same_result(result: Any, expected: Any) -> bool:
    """Return whether two results are equal; numbers may differ by rounding."""
    if isinstance(expected, Real) and not isinstance(expected, bool):
        if isinstance(result, bool) or not isinstance(result, Real):
            return False
        return math.isclose(result, expected, rel_tol=1e-6, abs_tol=1e-12)
    return bool(type(result) is type(expected) and result == expected)


@dataclass(frozen=True)
class Drawn:
    """A judge that compares an answer with the reference on drawn inputs.

    `inputs` draws the arguments, as a tuple or by name, over the whole domain that the exercise
    states. `shown` writes the arguments; `same` compares two results. What it says is in
    `lesson.toml`: `right` is the message of a right answer, and `mistakes` are sentences, each with
    the wrong function that gets it. Their formulas may call the reference and the `helpers`, by
    their names without underscores.
    """

    reference: Function
    inputs: "SearchStrategy[Any]"
    _: KW_ONLY
    helpers: Sequence[Function] = ()
    mistakes: Sequence[tuple[str, Function]] = ()
    right: str = ""
    shown: Callable[..., str] | None = None
    same: Callable[[Any, Any], bool] = same_result

    def saying(self, right: str, mistakes: Iterable[Mapping[str, str]]) -> "Drawn":
        """Return this judge with its sentences; each mistake `says` one, and `computes` a formula.

        A formula has the parameters of the reference, by their names.
        """
        functions = (self.reference, *self.helpers)
        names = {"math": math, **{each.__name__.lstrip("_"): each for each in functions}}
        parameters = ", ".join(inspect.signature(self.reference).parameters)
        known = tuple(
            (each["says"], eval(f"lambda {parameters}: {each['computes']}", names))
            for each in mistakes
        )
        return replace(self, right=right, mistakes=known)

    @functools.cached_property
    def arguments(self) -> "SearchStrategy[tuple[Any, ...]]":
        """What draws the arguments in the order of the reference's parameters."""
        names = tuple(inspect.signature(self.reference).parameters)
        return self.inputs.map(
            lambda drawn: tuple(drawn[name] for name in names) if isinstance(drawn, dict) else drawn
        )

    @functools.cached_property
    def compared_on(self) -> Sequence[tuple[Any, ...]]:
        """The inputs on which mistakes are compared."""
        return drawn_inputs(self.arguments, COMPARED)

    def __call__(self, answer: Function) -> Verdict:
        """Return whether the answer agrees with the reference on every drawn input."""
        smallest = _smallest(
            self.arguments,
            lambda arguments: (
                not self.same(_result(answer, arguments), self.reference(*copy.deepcopy(arguments)))
            ),
        )
        if smallest is None:
            return passed(self.right)
        call = self.shown(*smallest) if self.shown else _arguments(self.reference, smallest)
        result, expected = _result(answer, smallest), self.reference(*copy.deepcopy(smallest))
        if isinstance(result, AnswerFailed):
            outcome = f"With {call}: {result.verdict.message}"
        else:
            outcome = (
                f"With {call} it returned {_short_result(result)};"
                f" {_short_result(expected)} is right."
            )
        return not_yet(f"{self._hint(answer)}{outcome}")

    def _hint(self, answer: Function) -> str:
        """Return the sentence of the first mistake that computes the same, or ""."""

        def alike(result: Any, wrong: Any) -> bool:
            if isinstance(result, AnswerFailed) or wrong is _FAILED:  # on the same inputs only
                return isinstance(result, AnswerFailed) and wrong is _FAILED
            return _both_nan(result, wrong) or self.same(result, wrong)

        for sentence, mistake in self.mistakes:
            pairs = ((_result(answer, each), _mistaken(mistake, each)) for each in self.compared_on)
            if all(alike(result, wrong) for result, wrong in pairs):
                return f"{sentence} "
        return ""


def drawn_inputs(inputs: "SearchStrategy[tuple[Any, ...]]", count: int) -> list[tuple[Any, ...]]:
    """Return up to `count` drawn inputs, the same ones in each call."""
    drawn: list[tuple[Any, ...]] = []

    def keep(arguments: tuple[Any, ...]) -> bool:
        if len(drawn) < count:  # Hypothesis runs the last one again
            drawn.append(copy.deepcopy(arguments))
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


def _result(answer: Function, arguments: tuple[Any, ...]) -> Any:
    """Return what the answer returns for a copy of the input, or its failure."""
    try:
        with np.errstate(all="ignore"):  # no warning for each of many inputs
            return answer(*copy.deepcopy(arguments))
    except AnswerFailed as failure:
        if isinstance(failure.__cause__, MemoryError):
            raise  # one is enough: each takes long
        return failure


_FAILED: Final = object()
"""In place of a result: the known mistake raises an error on this input."""


def _mistaken(mistake: Function, arguments: tuple[Any, ...]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return mistake(*copy.deepcopy(arguments))
    except Exception:
        return _FAILED


def _both_nan(result: Any, wrong: Any) -> bool:
    return all(isinstance(each, Real) and math.isnan(each) for each in (result, wrong))


def _arguments(function: Function, arguments: tuple[Any, ...]) -> str:
    """Return the arguments with the names that the function gives them."""
    named = zip(inspect.signature(function).parameters, arguments, strict=True)
    return f"`{', '.join(f'{name}={_text(value)}' for name, value in named)}`"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{float(f'{value:.6g}'):.15g}"  # as Python reads it, without an exponent
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_text(each)}" for key, each in value.items()) + "}"
    return repr(value)


def _short_result(value: Any) -> str:
    text = _text(value)
    return f"`{text}`" if len(text) <= 60 else f"`{text[:60]}...`"
