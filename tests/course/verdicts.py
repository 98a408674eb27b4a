"""Answers to exercises, with the outcome and the decisive part of the judge's message.

`@known("NN.exercise", "part of the message")`: a wrong answer with a message of its own.
`@right("NN.exercise")`: an answer that differs from the reference and is as right.
`mistakes.diff`: wrong answers that are the reference with pieces replaced. A line has the exercise
and the part of the message. Below it stand pieces that go (-), each with what takes its place (+).
"""

import asyncio
import functools
import itertools
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import cloudpickle
import grpc

from kvstore.course import exercises
from kvstore.course.exercises import solutions
from kvstore.v1 import kvstore_pb2 as pb

NOTEBOOK = {
    "__name__": "__main__",
    "ThreadPoolExecutor": ThreadPoolExecutor,
    "asyncio": asyncio,
    "grpc": grpc,
    "pb": pb,
    "threading": threading,
    "time": time,
}
"""What the answers find in their notebook."""


class Wrong(NamedTuple):
    """A common mistake, and a part of the message that it must get."""

    answer: object
    expected: str


text_of = functools.cache(solutions.text_of)  # many wrong answers are edits of one right answer

RIGHT = []
"""Pairs of an exercise and a right answer."""
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


def known_wrong_in_a_notebook(exercise):
    """One of them, which a notebook can send to the judge's process."""
    cloudpickle.register_pickle_by_value(sys.modules["answers"])
    return known_wrong(exercise)[0].answer


def right(exercise):
    def keep(answer):
        RIGHT.append((exercise, answer))
        return answer

    return keep


def edited(exercise, *pieces):
    """The reference of an exercise, in whose text each first piece is replaced by the next one."""
    text = text_of(exercises.find(exercise)).replace("from my_code", "from kvstore.v1")
    for old, new in zip(pieces[::2], pieces[1::2], strict=True):
        assert old in text, f"the reference of {exercise} has no {old!r}"
        text = text.replace(old, new)
    names = dict(NOTEBOOK)
    exec(compile(text, f"<{exercise}>", "exec"), names)
    return names[exercises.find(exercise).kept.partition(".")[2]]


MISTAKES = Path(__file__).with_name("mistakes.diff").read_text("utf-8")
for block in re.split("^# ", MISTAKES, flags=re.MULTILINE)[1:]:
    head, *lines = block.splitlines()
    exercise, _, said = head.partition(": ")
    signs = itertools.groupby(filter(None, lines), key=lambda line: line[0])
    pieces = ["\n".join(line[1:] for line in group) for _, group in signs]
    known(exercise, said)(edited(exercise, *pieces))
