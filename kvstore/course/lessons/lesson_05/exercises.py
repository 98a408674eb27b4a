"""Replies in order, and the commit index of a log: the exercises of further lessons."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from kvstore.course import my_code
from kvstore.course.exercises import Exercise
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


def _listed(found: Any) -> list[Any]:
    """Return what a learner returned as a list; empty when it is none."""
    return list(found) if isinstance(found, list | tuple | pd.Series | np.ndarray) else []


def _same_times(found: Any, expected: Any) -> bool:
    original, found = found, _listed(found)
    return (
        hasattr(original, "__len__")
        and len(found) == len(expected)
        and all(math.isclose(a, b, abs_tol=1e-9) for a, b in zip(found, expected, strict=True))
    )


def _shown_calls(calls: pd.DataFrame) -> str:
    done_ms = ", ".join(f"{1e3 * done_s:.0f}" for done_s in calls["done_s"])
    return f"{len(calls)} calls, ready at ({done_ms}) ms,"


IN_ORDER_REPLIES = Exercise.of(
    "05.in_order",
    Drawn(
        in_order,
        _drawn_calls(),
        mistakes=(
            (
                "You sort the times: then a reply leaves at the time of another one.",
                lambda calls: sorted(calls["done_s"]),
            ),
            (
                "You add up how long the calls took: but the server worked on them at the same "
                "time.",
                lambda calls: list((calls["done_s"] - calls["sent_s"]).cumsum()),
            ),
            (
                "You let each request begin when the one before it has left: that is a lock, "
                "which delays "
                "the work. Here only the replies wait.",
                _served_in_turn,
            ),
            (
                "You let all replies wait for the slowest: the first one has nothing before it.",
                lambda calls: [max(calls["done_s"])] * len(calls),
            ),
            (
                "These are the times at which the replies were ready: a later one may not "
                "overtake.",
                lambda calls: list(calls["done_s"]),
            ),
            (
                "You compare how long the calls took: compare the times at which they were ready.",
                lambda calls: list((calls["done_s"] - calls["sent_s"]).cummax()),
            ),
            (
                "You look at one earlier reply only: a reply waits for *all* earlier ones.",
                lambda calls: list(calls["done_s"].rolling(2, min_periods=1).max()),
            ),
            (
                "You let a reply leave as soon as a later one is ready: it waits for the earlier "
                "ones.",
                lambda calls: list(calls["done_s"][::-1].cummin()[::-1]),
            ),
        ),
        same=_same_times,
        shown=_shown_calls,
        right="It is the running maximum: a slow request holds back all replies behind it, and "
        "none before it.",
    ),
)


# 05.commit_index (further/05_replicated_log) -----------------------------------------------------


commit_indices = my_code.course_version("laws.commit_indices")


def _one_step_each(acknowledged: Sequence[int]) -> list[int]:
    seen: set[int] = set()
    index, over_time = 0, []
    for entry in acknowledged:
        seen.add(entry)
        if index + 1 in seen:
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


COMMIT_INDEX = Exercise.of(
    "05.commit_index",
    Drawn(
        commit_indices,
        _drawn_entries(),
        mistakes=(
            (
                "That is the highest one: an entry below it may be missing, and would be lost if "
                "the "
                "leader died now.",
                lambda acknowledged: [max(acknowledged[: n + 1]) for n in range(len(acknowledged))],
            ),
            (
                "You count acknowledgements: a count does not see a gap, and some come twice.",
                lambda acknowledged: list(range(1, len(acknowledged) + 1)),
            ),
            (
                "You count different entries: a count does not see a gap.",
                lambda acknowledged: [
                    len(set(acknowledged[: n + 1])) for n in range(len(acknowledged))
                ],
            ),
            (
                "One acknowledgement that closes a gap can move the index by several steps.",
                _one_step_each,
            ),
            (
                "An entry that came early must be remembered: it counts when the gap before it "
                "closes.",
                _next_only,
            ),
            (
                "Entries count from 1: with nothing committed the index is 0.",
                lambda acknowledged: [index - 1 for index in commit_indices(acknowledged)],
            ),
            (
                "That is the first entry that is missing: the index is the last one that is there.",
                lambda acknowledged: [index + 1 for index in commit_indices(acknowledged)],
            ),
            (
                "Return one number after *each* acknowledgement, not the last one alone.",
                lambda acknowledged: commit_indices(acknowledged)[-1:],
            ),
        ),
        same=lambda found, expected: _listed(found) == expected and hasattr(found, "__len__"),
        right="The index never moves over a gap. When the gap closes, it catches up at once. So "
        "replies out of order become a log in order.",
    ),
)
