"""A limit that a client finds itself, from the times of its calls."""

from typing import Any

from kvstore.course import my_code
from kvstore.course.exercises import judges
from kvstore.course.exercises.grading import Drawn

TOLERATED = 2
"""So many calls may queue while the limit grows, as in TCP Vegas (Brakmo and Peterson, 1995)."""


def queued(limit: int, shortest_s: float, typical_s: float) -> float:
    """Return how many of the calls in flight queue, by Little's law."""
    return limit * (1 - shortest_s / typical_s)


next_limit = my_code.course_version("laws.next_limit")


def _times() -> Any:
    from hypothesis import strategies as st

    drawn = st.tuples(st.integers(1, 300), st.floats(0.001, 0.5), st.floats(1, 50))
    times = drawn.map(lambda each: (each[0], each[1], each[1] * each[2]))
    return times.filter(lambda each: abs(queued(*each) - TOLERATED) > 1e-6)  # no draw hangs on it


judges("09.next_limit")(Drawn(next_limit, _times(), helpers=(queued,)))
