"""Helpers of the tests of the judge: cases, and what a client reaches in a computed run."""

import random

from kvstore.course.lessons.lesson_15.judge.cases import MOST_IN_FLIGHT, STATIONS, draw
from kvstore.course.lessons.lesson_15.judge.traffic import Load, plan, simulate

PAIRS = [(first, then) for first in STATIONS for then in (*STATIONS, None) if first != then]
"""Every bottleneck with every station that may be close to it."""


def case_of(first, then, seed=7):
    """The case of a seed with these stations; all else follows from the seed."""
    return draw(random.Random(seed), first, then)


def reached(case, changes=(), **load):
    """The result of a closed loop, computed at once."""
    given = Load(**{"in_flight": MOST_IN_FLIGHT, **load})
    network = case.network(changes, given.proxy_attempts)
    return simulate(network, plan(given, 4.0, random.Random(1)), given)
