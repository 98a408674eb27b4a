"""The verbs of an exercise: check, hint, solution; and marks, for graders of other projects."""

import dataclasses
from typing import Any, Final

from kvstore.course import judging, my_code, progress, rendering
from kvstore.course.exercises import Verdict, find, not_yet, solutions
from kvstore.course.rendering import fenced

FROM_FILE: Final = object()
"""In place of an answer: the one in the learner's file."""


def check(exercise_id: str, answer: Any = FROM_FILE) -> Verdict:
    """Judge the answer, show the verdict and store it; raise no error of the answer.

    `answer` is the learner's function or class. A right one is kept in its file of `my_code/`.
    Without an answer, what the file holds is judged. Raise LookupError for an unknown id.
    """
    place = find(exercise_id).kept
    if answer is FROM_FILE:
        try:
            answer = my_code.part(place)
        except my_code.CannotKeep as error:
            verdict = not_yet(str(error))
            verdict._show()
            return verdict
    my_code.by_value()
    verdict = dataclasses.replace(judging.judge(exercise_id, answer), exercise_id=exercise_id)
    if verdict.passed:
        verdict = dataclasses.replace(verdict, message=f"{verdict.message} {_kept(place, answer)}")
    progress.record_answer(exercise_id, verdict.outcome, verdict.message)
    verdict._show()
    return verdict


def _kept(place: str, answer: Any) -> str:
    try:
        return my_code.keep(place, answer)
    except my_code.CannotKeep as error:
        return f"Not kept in my_code: {error}"


def marks(exercise_id: str, answer: Any, points: float) -> float:
    """Return `points` for a right answer and 0 for any other; print the verdict, store nothing.

    nbgrader takes the number that ends a cell as the mark.
    """
    verdict = judging.judge(exercise_id, answer)
    print(verdict)
    return points if verdict.passed else 0.0


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
    try:
        text = solutions.text_of(exercise)
    except solutions.NoSolutions as none:
        rendering.show({"text/plain": str(none)})
        return
    progress.note_solution_seen(exercise_id)
    rendering.show(
        {
            "text/plain": f"# one way to solve {exercise_id}: {exercise.title}\n{text}",
            "text/markdown": f"One way to do it:\n\n{fenced(text)}",
        }
    )
