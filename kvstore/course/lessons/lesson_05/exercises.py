"""Replies in order, and the commit index of a log: the exercises of further lessons."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from kvstore.course import my_code
from kvstore.course.exercises import judges
from kvstore.course.exercises.grading import Drawn

# 05.in_order (further/05_order_of_replies) -------------------------------------------------------


in_order = my_code.course_version("laws.in_order")


def _served_in_turn(calls: pd.DataFrame) -> list[float]:
    free_s, times = 0.0, []
    for sent_s, done_s in zip(calls["sent_s"], calls["done_s"], strict=True):
        free_s = max(free_s, sent_s) + done_s - sent_s
        times.append(free_s)
    return times


def _drawn_calls() -> Any:
    """Return up to eight calls in the order of sending, with times in whole milliseconds."""
    from hypothesis import strategies as st

    pair = st.tuples(st.integers(0, 20), st.integers(1, 60))
    pairs = st.lists(pair, max_size=8) | st.lists(pair, min_size=30, max_size=40)

    def frame(drawn: list[tuple[int, int]]) -> tuple[pd.DataFrame]:
        sent_ms, rows = 0, []
        for gap_ms, took_ms in drawn:
            sent_ms += gap_ms
            rows.append((sent_ms / 1e3, (sent_ms + took_ms) / 1e3))
        return (pd.DataFrame(rows, columns=["sent_s", "done_s"], dtype=float),)

    return pairs.map(frame)


def _listed(returned: Any) -> list[Any]:
    """Return what a learner returned as a list; empty when it is none."""
    return list(returned) if isinstance(returned, list | tuple | pd.Series | np.ndarray) else []


def _same_times(returned: Any, expected: Any) -> bool:
    times = _listed(returned)
    return (
        hasattr(returned, "__len__")
        and len(times) == len(expected)
        and all(math.isclose(a, b, abs_tol=1e-9) for a, b in zip(times, expected, strict=True))
    )


def _shown_calls(calls: pd.DataFrame) -> str:
    done_ms = ", ".join(f"{1e3 * done_s:.0f}" for done_s in calls["done_s"])
    return f"{len(calls)} calls, ready at ({done_ms}) ms,"


judges("05.in_order")(
    Drawn(
        in_order, _drawn_calls(), helpers=(_served_in_turn,), same=_same_times, shown=_shown_calls
    )
)


# 05.commit_index (further/05_replicated_log) -----------------------------------------------------


commit_indices = my_code.course_version("laws.commit_indices")


def _one_step_each(acknowledged: Sequence[int]) -> list[int]:
    entries: set[int] = set()
    index, over_time = 0, []
    for entry in acknowledged:
        entries.add(entry)
        if index + 1 in entries:
            index += 1
        over_time.append(index)
    return over_time


def _next_only(acknowledged: Sequence[int]) -> list[int]:
    index, over_time = 0, []
    for entry in acknowledged:
        if entry == index + 1:
            index = entry
        over_time.append(index)
    return over_time


def _drawn_entries() -> Any:
    from hypothesis import strategies as st

    many = st.permutations(range(1, 60)).map(list)
    return st.tuples(st.lists(st.integers(1, 9), max_size=14) | many)


judges("05.commit_index")(
    Drawn(
        commit_indices,
        _drawn_entries(),
        helpers=(_next_only, _one_step_each),
        same=lambda returned, expected: (
            _listed(returned) == expected and hasattr(returned, "__len__")
        ),
    )
)
