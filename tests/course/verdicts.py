"""Answers to exercises, with the verdict and the decisive part of its message.

`@known("NN.exercise", "part of the message")`: a known-wrong answer with a sentence of its own. It
is judged in the process of the tests, and hand-ins use it.

`@wrong("NN.exercise", "part of the message")` and `@right("NN.exercise")`: answers that were tried.
Each is judged as a learner's answer is: in a child of the judge's process.
"""

import sys
from typing import NamedTuple

import cloudpickle

from kvstore.course import exercises


class Wrong(NamedTuple):
    """A common mistake, and a part of the message that it must get."""

    answer: object
    expected: str


ANSWERS = []
"""Exercise, answer, outcome, and a part of the message."""


KNOWN = {}
"""Known-wrong answers by exercise, beside those that a judge needs to name a mistake."""


def known(exercise, said):
    def keep(answer):
        KNOWN.setdefault(exercise, []).append(Wrong(answer, said))
        return answer

    return keep


def known_wrong(exercise):
    """All known-wrong answers of an exercise."""
    named = dict(getattr(exercises.find(exercise).judge, "mistakes", ()))
    return [*(Wrong(answer, said) for said, answer in named.items()), *KNOWN.get(exercise, ())]


def known_wrong_in_a_notebook(exercise, number=0):
    """One of them, which a notebook can send to the judge's process."""
    for module in ("answers", "wrong_answers"):
        cloudpickle.register_pickle_by_value(sys.modules[module])
    known = known_wrong(exercise)
    return known[number % len(known)].answer


def wrong(exercise, said):
    def keep(answer):
        ANSWERS.append((exercise, answer, "not yet", said))
        return answer

    return keep


def right(exercise):
    def keep(answer):
        ANSWERS.append((exercise, answer, "passed", ""))
        return answer

    return keep
