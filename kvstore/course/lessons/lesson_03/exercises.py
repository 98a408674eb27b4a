"""Lesson 03: the calls per second that a hot key allows."""

import math
from collections.abc import Sequence

from hypothesis import strategies as st

from kvstore.course import my_code
from kvstore.course.exercises import Exercise
from kvstore.course.exercises.grading import Drawn

hot_key_bound = my_code.course_version("laws.hot_key_bound")


def _shares(weights: Sequence[int]) -> dict[str, float]:
    return {f"key {n}": weight / sum(weights) for n, weight in enumerate(weights)}


HOT_KEY_INPUTS = st.fixed_dictionaries(
    {
        "key_shares": (
            st.lists(st.sampled_from([1, 2, 5]), min_size=1, max_size=3)
            | st.lists(st.sampled_from([1, 2, 5]), min_size=20, max_size=30)
        ).map(_shares),
        "write_share": st.integers(0, 20).map(lambda n: n / 20),
        "write_delay_s": st.integers(1, 200).map(lambda n: n / 1000),
    }
)
HOT_KEY = Exercise.of(
    "03.hot_key",
    Drawn(
        hot_key_bound,
        HOT_KEY_INPUTS,
        mistakes=(
            (
                "You take all keys for equally hot: look for the busiest one.",
                lambda key_shares, write_share, write_delay_s: (
                    len(key_shares) / (write_share * write_delay_s) if write_share else math.inf
                ),
            ),
            (
                "A read takes no lock: only the writes of the hottest key queue.",
                lambda key_shares, write_share, write_delay_s: (
                    1 / (max(key_shares.values()) * write_delay_s)
                ),
            ),
            (
                "That is what one lock serves, but not every call needs that lock.",
                lambda key_shares, write_share, write_delay_s: 1 / write_delay_s,
            ),
            (
                "That is the coldest key: its lock is the last one to be busy.",
                lambda key_shares, write_share, write_delay_s: (
                    1 / (min(key_shares.values()) * write_share * write_delay_s)
                    if write_share
                    else math.inf
                ),
            ),
            (
                "Without any write no lock limits the rate: return `math.inf`.",
                lambda key_shares, write_share, write_delay_s: (
                    1 / (max(key_shares.values()) * write_share * write_delay_s)
                ),
            ),
            (
                "You multiply by the share where you have to divide: a hotter key makes the rate "
                "lower.",
                lambda key_shares, write_share, write_delay_s: (
                    max(key_shares.values()) * write_share / write_delay_s
                ),
            ),
        ),
        right="The demand on the hottest lock is p_max·S, and X ≤ 1/D_max is the rest.",
    ),
)
