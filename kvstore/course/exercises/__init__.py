"""The exercises of the course, one module for each lesson, found by their ids.

To add `NN.my_exercise`, write an `Exercise` at the top level of `lesson_NN.py`. No other file
changes.
"""

import difflib
import functools
import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

from kvstore.course.exercises.base import (
    NOT_ATTEMPTED,
    Exercise,
    Verdict,
    WrongAnswer,
    not_yet,
    passed,
)

__all__ = [
    "NOT_ATTEMPTED",
    "Exercise",
    "Verdict",
    "WrongAnswer",
    "every",
    "find",
    "not_yet",
    "passed",
]


@functools.cache
def every() -> Mapping[str, Exercise]:
    """Return all exercises by id, in the order of lessons; raise ValueError if two share an id."""
    found: dict[str, Exercise] = {}
    for module_info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        if not module_info.name.startswith("lesson_"):
            continue
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for exercise in vars(module).values():
            if not isinstance(exercise, Exercise) or found.get(exercise.id) is exercise:
                continue
            if exercise.id in found:
                raise ValueError(f"two exercises have the id {exercise.id}: rename one of them")
            found[exercise.id] = exercise
    return MappingProxyType(found)


def find(exercise_id: str) -> Exercise:
    """Return the exercise of an id; raise LookupError with the nearest ids if there is none."""
    try:
        return every()[exercise_id]
    except KeyError:
        near = difflib.get_close_matches(exercise_id, every(), n=3, cutoff=0.3) or list(every())
        raise LookupError(
            f"there is no exercise {exercise_id!r}: did you mean {' or '.join(near)}?"
        ) from None
