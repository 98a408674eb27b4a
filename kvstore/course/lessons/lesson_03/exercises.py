"""Lesson 03: the calls per second that a hot key allows."""

from collections.abc import Sequence

from hypothesis import strategies as st

from kvstore.course import my_code
from kvstore.course.exercises import judges
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
judges("03.hot_key")(Drawn(hot_key_bound, HOT_KEY_INPUTS))
