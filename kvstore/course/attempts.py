"""Runs a judge on a learner's answer: whatever the answer does, a verdict comes back."""

import ctypes
import functools
import inspect
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from kvstore.course.exercises.base import NOT_ATTEMPTED, Exercise, Verdict, not_yet

UNWIND_S: Final = 5.0
"""How long an answer that is stopped may take to leave its `with` blocks."""


SHOWN: Final = 60
"""So many characters of what an answer returned are shown at most."""


class _StubReached(BaseException):
    """The learner's function is still a stub; passes through a judge's `except Exception`."""


class _AnswerFailed(BaseException):
    """The learner's function went wrong; the verdict is ready."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict


class _Stopped(BaseException):
    """Raised inside an answer that takes too long."""


def judged(exercise: Exercise, answer: Any) -> Verdict:
    """What the exercise's judge says of the answer, within its `timeout_s`.

    Only KeyboardInterrupt is raised. An answer of a kind the judge cannot use is not yet
    right either: its message says what went wrong.
    """
    if answer is None or answer is ... or answer is NOT_ATTEMPTED:
        return _stub()
    if callable(exercise.reference) and not callable(answer):
        return not_yet(
            f"the check wants your function itself, to call it with values of its own, and got"
            f" {_short(answer)}: give its name without parentheses, as the cell did at first."
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

    # A thread, so that a hanging answer can be left behind, and so that an answer may use
    # asyncio.run, which the notebook's own loop forbids in the main thread. An event, since
    # a thread whose `join` was interrupted says that it has ended (CPython issue 90882).
    threading.Thread(target=work, name=f"judge of {exercise.id}", daemon=True).start()
    try:
        in_time = ended.wait(exercise.timeout_s)
    finally:
        if not ended.is_set():  # the learner pressed stop, or the time is up
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
    except (Exception, SystemExit, BaseExceptionGroup, _StubReached, _AnswerFailed) as error:
        for reason in _reasons(error):
            if isinstance(reason, _StubReached):
                return _stub()
            if isinstance(reason, _AnswerFailed):
                return reason.verdict
        what = (
            f"what `{_name(answer)}` returned, {_short(results[-1])}" if results else "your answer"
        )
        return not_yet(_failure(answer, error, f"the check could not use {what}"))


def _reasons(error: BaseException | None) -> Iterator[BaseException]:
    """The error and all that led to it: a run wraps what its strategy raised."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                yield from _reasons(each)
        error = error.__cause__


def _guarded(
    exercise: Exercise, answer: Callable[..., Any], inside: set[int], results: list[Any]
) -> Callable[..., Any]:
    """The same function, with its failures and its stub marked as the learner's own.

    The last of what it returned stands in `results`. The threads that are in it stand in
    `inside`: a run calls it from a thread of its own.
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
            raise _AnswerFailed(not_yet(text)) from error
        finally:
            if outermost:
                inside.discard(me)

    def checked(result: Any) -> Any:
        if result is NOT_ATTEMPTED or result is ...:
            raise _StubReached
        if result is None and not exercise.may_return_none:
            text = f"`{_name(answer)}` returned None: is its `return` missing?"
            raise _AnswerFailed(not_yet(text))
        if isinstance(result, str) and not exercise.may_return_text:
            text = f"`{_name(answer)}` returned the text {_short(result)}: no text is asked for,"
            raise _AnswerFailed(not_yet(f"{text} so leave out the quotes, or the `str`."))
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
    """What was raised, and on which line of the learner's own code; `otherwise` if on none."""
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
    """The value as Python writes it, cut where it goes on for too long."""
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
        f"no answer within {exercise.timeout_s:g} s: look for a loop that never ends, or a wait "
        f"for something that never comes. {left}"
    )


def _stop(inside: set[int], ended: threading.Event) -> None:
    """Raise once in each thread of the answer: it reaches Python code, not a wait in C.

    Once, because a second time could interrupt a `with` block on its way out.
    """
    for thread_id in tuple(inside):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread_id), ctypes.py_object(_Stopped)
        )
    ended.wait(UNWIND_S)
