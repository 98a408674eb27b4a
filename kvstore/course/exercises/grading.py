"""Grading of a learner's answer, and the three verbs of an exercise: check, hint, solution.

Grading always returns a verdict: answers run with a time limit, and their errors are caught.
`marks` is for graders of other projects.
"""

import copy
import dataclasses
import functools
import gc
import inspect
import math
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from queue import SimpleQueue
from random import Random
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvstore.course import progress, rendering
from kvstore.course.exercises import (
    NOT_ATTEMPTED,
    AnswerFailed,
    Exercise,
    StubReached,
    Verdict,
    WrongAnswer,
    client_trials,
    find,
    not_yet,
    passed,
)
from kvstore.course.rendering import fenced, source_of

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


SHOWN: Final = 60
"""The most characters of an answer's result in a message."""


class _Stopped(BaseException):
    """Raised in an answer that takes too long."""


_free: Final[list[SimpleQueue[Any]]] = []
"""The tasks of each thread that has none now. In each new thread, Hypothesis collects all garbage,
which takes a tenth of a second."""


def _judging_thread() -> SimpleQueue[Any]:
    """Return the tasks of a thread that has none now; the task None ends it."""
    if _free:
        return _free.pop()
    tasks = SimpleQueue[Any]()

    def work() -> None:
        while task := tasks.get():
            task()

    threading.Thread(target=work, name="judge of answers", daemon=True).start()
    return tasks


def judged(exercise: Exercise, answer: Any) -> Verdict:
    """Return the judge's verdict on the answer, within `timeout_s` of the exercise.

    Raise only KeyboardInterrupt. An answer of a wrong type is "not yet" right; the message says
    why.
    """
    if answer is None or answer is ... or answer is NOT_ATTEMPTED:
        return _stub()
    if callable(exercise.reference) and not callable(answer):
        return not_yet(
            f"the check calls your function with its own values, so it needs the function itself,"
            f" got {_short(answer)}: pass its name without parentheses, as in the original cell."
        )
    verdicts: list[Verdict] = []
    errors: list[BaseException] = []
    inside: set[int] = set()
    ended = threading.Event()

    def work() -> None:
        inside.add(threading.get_ident())
        try:
            verdicts.append(_judged_here(exercise, answer, inside))
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    # A thread, so that a hanging answer can be abandoned, and so that an answer may use
    # asyncio.run, which the notebook's loop forbids in the main thread. An event, because a
    # thread whose `join` was interrupted reports that it has ended (CPython issue 90882).
    thread = _judging_thread()
    thread.put(work)
    in_time = False
    try:
        in_time = ended.wait(exercise.timeout_s)
    finally:
        if not ended.is_set():  # interrupted by the learner, or timed out
            # Once: a second time could interrupt the end of a `with` block.
            client_trials.raise_in_threads(_Stopped, tuple(inside))
            ended.wait(client_trials.UNWIND_S)
        if in_time:
            _free.append(thread)
        else:  # what is raised in it may come at any moment, so no other answer is judged there
            thread.put(None)
    if not in_time:
        return not_yet(_too_long(exercise, stopped=ended.is_set()))
    if errors:
        raise errors[0]
    return verdicts[0]


def _judged_here(exercise: Exercise, answer: Any, inside: set[int]) -> Verdict:
    called = callable(answer) and not inspect.isclass(answer)
    results: list[Any] = []
    try:
        return exercise.judge(_guarded(exercise, answer, inside, results) if called else answer)
    except (Exception, SystemExit, BaseExceptionGroup, StubReached, AnswerFailed) as error:
        for reason in _reasons(error):
            if isinstance(reason, StubReached):
                return _stub()
            if isinstance(reason, AnswerFailed):
                return reason.verdict
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
    exercise: Exercise, answer: Callable[..., Any], inside: set[int], results: list[Any]
) -> Callable[..., Any]:
    """Return the function with its errors and its stub marked as the learner's.

    `results` gets its last result. `inside` has the threads that are in the function: a run calls
    it from another thread.
    """

    @contextmanager
    def marked() -> Iterator[None]:
        me = threading.get_ident()
        outermost = me not in inside
        inside.add(me)
        try:
            yield
        except (Exception, SystemExit) as error:
            text = _failure(answer, error, f"`{_name(answer)}` could not be called")
            raise AnswerFailed(not_yet(text)) from error
        finally:
            if outermost:
                inside.discard(me)

    def checked(result: Any) -> Any:
        if result is NOT_ATTEMPTED or result is ...:
            raise StubReached
        if result is None and not exercise.may_return_none:
            text = f"`{_name(answer)}` returned None: is its `return` missing?"
            raise AnswerFailed(not_yet(text))
        if isinstance(result, str) and not exercise.may_return_text:
            text = f"`{_name(answer)}` returned the text {_short(result)}: return a value that is"
            raise AnswerFailed(not_yet(f"{text} not text, without quotes or `str`."))
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


def _failure(answer: Any, error: BaseException, otherwise: str) -> str:
    """Return the error and its line of the learner's code; `otherwise` if it has none."""
    own_file = getattr(getattr(answer, "__code__", None), "co_filename", None)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == own_file or "ipykernel_" in frame.filename
    ]
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if not frames:
        return f"{otherwise}: {said}"
    line = f": `{frames[-1].line}`" if frames[-1].line else ""
    return f"`{frames[-1].name}` stopped at line {frames[-1].lineno}{line}\n{said}"


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


def _too_long(exercise: Exercise, *, stopped: bool) -> str:
    left = (
        "It was stopped."
        if stopped
        else "It could not be stopped and still runs: restart the kernel before you measure again."
    )
    return (
        f"no answer within {exercise.timeout_s:g} s: look for a loop or a wait that never ends. "
        f"{left}"
    )


def check(exercise_id: str, answer: Any) -> Verdict:
    """Judge the answer, show the verdict and store it; raise no error of the answer.

    `answer` is the learner's function or value. Raise LookupError for an unknown id.
    """
    exercise = find(exercise_id)
    verdict = dataclasses.replace(judged(exercise, answer), exercise_id=exercise_id)
    progress.record_answer(exercise_id, verdict.outcome, verdict.message)
    verdict._show()
    return verdict


def marks(exercise_id: str, answer: Any, points: float) -> float:
    """Return `points` for a right answer and 0 for any other; print the verdict, store nothing.

    nbgrader takes the number that ends a cell as the mark, and gives 0 for a line on standard
    error, so whatever writes there meanwhile, gRPC's C code included, is not shown.
    """
    with _quiet_errors():
        verdict = judged(find(exercise_id), answer)
    print(verdict)
    return points if verdict.passed else 0.0


@contextmanager
def _quiet_errors() -> Iterator[None]:
    shown, descriptor = sys.stderr, os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        sys.stderr = nowhere
        try:
            yield
        finally:
            sys.stderr = shown
            os.dup2(descriptor, 2)
            os.close(descriptor)


def hint(exercise_id: str) -> None:
    """Show the next hint; the last one says that it is the last."""
    exercise = find(exercise_id)
    count = len(exercise.hints)
    step = progress.take_hint(exercise_id, count)
    after = f'That was the last one: `solution("{exercise_id}")` is next.' if step == count else ""
    text = f"Hint {step} of {count}. {exercise.hints[step - 1]}"
    rendering.show(
        {
            "text/plain": f"{text}\n{after}".rstrip(),
            "text/html": f"<p>{rendering.inline(text)}</p><p>{rendering.inline(after)}</p>",
        }
    )


def solution(exercise_id: str) -> None:
    """Show the source of one right answer, and store that it was shown.

    In the edition for students, say that there is none.
    """
    exercise = find(exercise_id)
    parts = (*exercise.solution_parts, exercise.reference)
    try:
        sources = [source_of(part) if callable(part) else None for part in parts]
    except TypeError:  # see tools/edition.py
        rendering.show({"text/plain": "This edition has no solutions: your teacher has them."})
        return
    text = "\n\n".join(
        repr(part) if source is None else source
        for part, source in zip(parts, sources, strict=True)
    )
    progress.note_solution_seen(exercise_id)
    rendering.show(
        {
            "text/plain": f"# one way to solve {exercise_id}: {exercise.title}\n{text}",
            "text/markdown": f"One way to do it. Run it without its annotations:\n\n{fenced(text)}",
        }
    )


# ---- drawn inputs -------------------------------------------------------------------------------
# Judge a function on drawn inputs: Hypothesis draws them, a reference says what is right.
#
# The verdict shows the smallest input that fails, and the message of a known mistake if the
# answer computes the same as that mistake.


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
        seen = (
            f"With {call} it returned {_short_result(result)}; {_short_result(expected)} is right."
        )
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
    finally:
        _forget_hypothesis()


def _forget_hypothesis() -> None:
    """Remove what Hypothesis calls at each garbage collection: a Ctrl-C in it would be lost."""
    gc.callbacks[:] = [
        each for each in gc.callbacks if "hypothesis" not in str(getattr(each, "__module__", ""))
    ]


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


def _short_result(value: Any) -> str:
    text = _text(value)
    return f"`{text}`" if len(text) <= 60 else f"`{text[:60]}...`"
