"""Grading of a learner's answer, and the three verbs of an exercise: check, hint, solution.

Grading always returns a verdict: answers run with a time limit, and their errors are caught.
`marks` is for graders of other projects.
"""

import ctypes
import dataclasses
import functools
import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from kvstore.course import progress, rendering
from kvstore.course.exercises import (
    NOT_ATTEMPTED,
    AnswerFailed,
    Exercise,
    StubReached,
    Verdict,
    find,
    not_yet,
)
from kvstore.course.rendering import fenced, source_of

UNWIND_S: Final = 5.0
"""The time for a stopped answer to leave its `with` blocks."""
SHOWN: Final = 60
"""The most characters of an answer's result in a message."""


class _Stopped(BaseException):
    """Raised in an answer that takes too long."""


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
    threading.Thread(target=work, name=f"judge of {exercise.id}", daemon=True).start()
    try:
        in_time = ended.wait(exercise.timeout_s)
    finally:
        if not ended.is_set():  # interrupted by the learner, or timed out
            _stop(inside, ended)
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


def _stop(inside: set[int], ended: threading.Event) -> None:
    """Raise `_Stopped` once in each thread of the answer; it interrupts Python code, no wait in C.

    A second time could interrupt the end of a `with` block.
    """
    for thread_id in tuple(inside):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread_id), ctypes.py_object(_Stopped)
        )
    ended.wait(UNWIND_S)


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
            "text/markdown": f"One way to solve it, not the only one:\n\n{fenced(text)}",
        }
    )
