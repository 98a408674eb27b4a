"""Answers to exercises, with the outcome and the decisive part of the judge's message.

`@known("NN.exercise", "part of the message")`: a wrong answer with a message of its own.
`@edge("NN.exercise", "part of the message")`: a wrong answer that only a certain trial finds.
`@right("NN.exercise")`: an answer that differs from the reference and is as right.
"""

import sys
from typing import NamedTuple

import cloudpickle

from kvstore.course import exercises


class Wrong(NamedTuple):
    """A common mistake, and a part of the message that it must get."""

    answer: object
    expected: str


RIGHT = []
"""Pairs of an exercise and a right answer."""
EDGES = []
"""Exercise, wrong answer, and a part of its message, which other answers may get as well."""
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


def edge(exercise, said):
    def keep(answer):
        EDGES.append((exercise, answer, said))
        return answer

    return keep


def right(exercise):
    def keep(answer):
        RIGHT.append((exercise, answer))
        return answer

    return keep
