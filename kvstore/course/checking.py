"""What a learner can ask of an exercise: is it right, a hint, the solution."""

import dataclasses
from typing import Any

from kvstore.course import progress, rendering
from kvstore.course.attempts import judged
from kvstore.course.exercises import Verdict, find
from kvstore.course.source import fenced, source_of


def check(exercise_id: str, answer: Any) -> Verdict:
    """Judge the answer, show the verdict and keep it; never raises what the answer raises.

    `answer` is the function the learner wrote, or a value. LookupError for an unknown id.
    """
    exercise = find(exercise_id)
    verdict = dataclasses.replace(judged(exercise, answer), exercise_id=exercise_id)
    progress.record_answer(exercise_id, verdict.outcome, verdict.message)
    verdict._show()
    return verdict


def hint(exercise_id: str) -> None:
    """Show one hint more than the last time; the last one says that it is the last."""
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
    """Show the source of one right answer, and keep that it was asked for."""
    exercise = find(exercise_id)
    source = source_of(exercise.reference) if callable(exercise.reference) else None
    text = repr(exercise.reference) if source is None else source
    progress.note_solution_seen(exercise_id)
    rendering.show(
        {
            "text/plain": f"# one way to solve {exercise_id}: {exercise.title}\n{text}",
            "text/markdown": f"One way to solve it, not the only one:\n\n{fenced(text)}",
        }
    )
