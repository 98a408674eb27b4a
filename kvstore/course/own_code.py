"""The learner's code in the runs of the course.

`client = yours("03.bounded", bounded, ours=strategies.bounded)` is the client of the next runs.
"""

import functools
import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from kvstore.client.strategies import Strategy, supports
from kvstore.course import checks, rendering
from kvstore.measure import Run

T = TypeVar("T")

YOUR: Final = "your "
"""How the name of a run begins that the learner's client made."""


class YourCodeFailed(RuntimeError):
    """The learner's code was judged right, and raised an error in a run."""


def yours(exercise_id: str, answer: T, ours: T) -> T:
    """Return the learner's answer if its check has passed, else `ours`; one line says which.

    A function that computes a setting of the runs returns what the learner's returns. A client is a
    strategy, `answer(stub, operations, in_flight)`. Its runs are named after it,
    such as "your bounded". Raise LookupError for an unknown exercise.
    """
    name = getattr(answer, "__name__", exercise_id)
    if not checks.passed(exercise_id, answer):
        _say(
            exercise_id,
            f"`{name}` has not passed its check, so the runs have the course's `{_name(ours)}`."
            " When it has, run this cell again.",
        )
        return ours
    _say(exercise_id, f"from here on, the runs have your `{name}`.", good=True)
    return _named(answer, ours) if inspect.isfunction(answer) else answer  # type: ignore[return-value]


def is_yours(made_by: Run | Callable[..., Any]) -> bool:
    """Return whether a run was made by the learner's client, or this function is the learner's."""
    name = made_by.strategy if isinstance(made_by, Run) else _name(made_by)
    return name.startswith(YOUR)


def _name(ours: object) -> str:
    return str(getattr(ours, "__name__", "version"))


def _say(exercise_id: str, text: str, *, good: bool = False) -> None:
    colour = rendering.GOOD if good else rendering.QUIET
    rendering.show(
        {
            "text/plain": f"{exercise_id}: {text}",
            "text/html": rendering.headline(f"{exercise_id}:", text, colour),
        }
    )


def _named(answer: Callable[..., Any], ours: object) -> Strategy:
    """Return the learner's function under the name "your ...", with its errors explained."""

    @functools.wraps(answer)
    def call(*arguments: Any, **named: Any) -> Any:
        with explained(answer):
            return answer(*arguments, **named)

    @functools.wraps(answer)
    async def call_async(*arguments: Any, **named: Any) -> Any:
        with explained(answer):
            return await answer(*arguments, **named)

    made: Any = call_async if inspect.iscoroutinefunction(answer) else call
    made.__name__ = f"{YOUR}{answer.__name__}"
    made.supports = supports(ours)  # type: ignore[arg-type]
    return made  # type: ignore[no-any-return]


@contextmanager
def explained(answer: Callable[..., Any]) -> Iterator[None]:
    """Raise YourCodeFailed, with the line, for an error that the learner's code raises."""
    try:
        yield
    except Exception as error:
        its_file = answer.__code__.co_filename
        lines = traceback.extract_tb(error.__traceback__)
        at = [each.lineno for each in lines if each.filename == its_file]
        where = f" in line {at[-1]} of its cell" if at else ""
        raise YourCodeFailed(
            f"your `{answer.__name__}` passed its check and failed under load:"
            f" {type(error).__name__}{where}: {error}"
        ) from None
