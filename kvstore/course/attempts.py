"""Runs a judge on a learner's answer: whatever the answer does, a verdict comes back."""

import ctypes
import functools
import inspect
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Final

from kvstore.course.exercises.base import NOT_ATTEMPTED, Exercise, Verdict, not_yet

UNWIND_S: Final = 5.0
"""How long an answer that is stopped may take to leave its `with` blocks."""


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
    outcome: list[Verdict | BaseException] = []

    def work() -> None:
        try:
            outcome.append(_judged_here(exercise, answer))
        except BaseException as error:
            outcome.append(error)

    # A thread, so that a hanging answer can be left behind, and so that an answer may use
    # asyncio.run, which the notebook's own loop forbids in the main thread.
    thread = threading.Thread(target=work, name=f"judge of {exercise.id}", daemon=True)
    thread.start()
    try:
        thread.join(exercise.timeout_s)
        hung = thread.is_alive()
    finally:
        _stop(thread)  # also when the learner presses stop
    if hung:
        return not_yet(_too_long(exercise, thread.is_alive()))
    result = outcome[0]
    if isinstance(result, BaseException):
        raise result
    return result


def _judged_here(exercise: Exercise, answer: Any) -> Verdict:
    called = callable(answer) and not inspect.isclass(answer)
    try:
        return exercise.judge(_guarded(exercise, answer) if called else answer)
    except (Exception, SystemExit, BaseExceptionGroup, _StubReached, _AnswerFailed) as error:
        for reason in _reasons(error):
            if isinstance(reason, _StubReached):
                return _stub()
            if isinstance(reason, _AnswerFailed):
                return reason.verdict
        return not_yet(_failure(answer, error, "the check could not use your answer"))


def _reasons(error: BaseException | None) -> Iterator[BaseException]:
    """The error and all that led to it: a run wraps what its strategy raised."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                yield from _reasons(each)
        error = error.__cause__


def _guarded(exercise: Exercise, answer: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with its failures and its stub marked as the learner's own."""
    uncallable = f"`{_name(answer)}` could not be called"

    @functools.wraps(answer)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            result = answer(*arguments, **named)
        except (Exception, SystemExit) as error:
            raise _AnswerFailed(not_yet(_failure(answer, error, uncallable))) from error
        if result is NOT_ATTEMPTED or result is ...:
            raise _StubReached
        if result is None and not exercise.may_return_none:
            text = f"`{_name(answer)}` returned None: is its `return` missing?"
            raise _AnswerFailed(not_yet(text))
        return result

    @functools.wraps(answer)
    async def call_async(*arguments: Any, **named: Any) -> Any:
        async def once() -> Any:
            return await answer(*arguments, **named)

        try:
            result = await once()
        except (Exception, SystemExit) as error:
            raise _AnswerFailed(not_yet(_failure(answer, error, uncallable))) from error
        if result is NOT_ATTEMPTED or result is ...:
            raise _StubReached
        return result

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


def _name(answer: Callable[..., Any]) -> str:
    return getattr(answer, "__name__", type(answer).__name__)


def _stub() -> Verdict:
    return Verdict("not attempted", "Write your answer in the cell above, and run both again.")


def _too_long(exercise: Exercise, still_alive: bool) -> str:
    left = (
        " It could not be stopped and still runs: restart the kernel before you measure again."
        if still_alive
        else " It was stopped."
    )
    return (
        f"no answer within {exercise.timeout_s:g} s: look for a loop that never ends, or a wait "
        f"for something that never comes.{left}"
    )


def _stop(thread: threading.Thread) -> None:
    """Raise once inside the thread: it reaches Python code, but not a blocking wait in C.

    Once, because a second time could interrupt a `with` block on its way out.
    """
    if thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_Stopped)
        )
        thread.join(UNWIND_S)
