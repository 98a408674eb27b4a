"""The questions of the course: one module for each lesson, questions found by their ids.

To add one to lesson NN, write it into `PREDICTIONS` or `QUIZ` of `lesson_NN.py`: tuples of
`PredictionQuestion` and of `QuizQuestion`. Such a module is imported when one of its questions is
needed, and not before. A lesson without a module has no registered questions.
"""

import difflib
import functools
import importlib.util
from types import ModuleType
from typing import Any

from kvstore.course.progress import lesson_of
from kvstore.course.questions.base import Option, PredictionQuestion, QuizQuestion

__all__ = [
    "Option",
    "PredictionQuestion",
    "QuizQuestion",
    "predictions_of",
    "quiz_of",
    "registered",
    "registered_quiz",
]


def registered(question_id: str) -> PredictionQuestion | None:
    """The prediction question with this id; None where its lesson registers none of that id."""
    if not isinstance(question_id, str):
        return None  # `progress` says what is wrong with such an id
    found = predictions_of(lesson_of(question_id))
    return next((each for each in found if each.id == question_id), None)


def registered_quiz(question_id: str) -> QuizQuestion:
    """The quiz question with this id; LookupError, with the nearest ids, where there is none."""
    known = {each.id: each for each in quiz_of(lesson_of(question_id))}
    if question_id not in known:
        near = " or ".join(difflib.get_close_matches(question_id, known, n=2, cutoff=0.3))
        raise LookupError(
            f"there is no quiz question {question_id!r}: "
            + (f"did you mean {near}?" if near else "look up its id in the quiz of the lesson")
        )
    return known[question_id]


def predictions_of(lesson: str) -> tuple[PredictionQuestion, ...]:
    """The prediction questions of a lesson, such as "03", in their order."""
    return _checked(lesson, "PREDICTIONS", PredictionQuestion)


def quiz_of(lesson: str) -> tuple[QuizQuestion, ...]:
    """The quiz questions of a lesson, such as "03", in their order."""
    return _checked(lesson, "QUIZ", QuizQuestion)


@functools.cache
def _checked(lesson: str, name: str, kind: type[Any]) -> tuple[Any, ...]:
    """The questions in one tuple of a lesson's module, each with an id of that lesson."""
    found = getattr(_module(lesson), name, ())
    ids = [getattr(each, "id", None) for each in found]
    wrong = [each for each in ids if each is None or lesson_of(each) != lesson]
    if wrong or len(set(ids)) < len(ids) or not all(isinstance(each, kind) for each in found):
        raise ValueError(
            f"{name} of lesson_{lesson}.py must hold objects of {kind.__name__}, each with an id "
            f"of its own that begins with {lesson}, got the ids {ids}"
        )
    return tuple(found)


def _module(lesson: str) -> ModuleType | None:
    name = f"{__name__}.lesson_{lesson}"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None
