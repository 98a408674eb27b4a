"""Lesson 02: the time until a sender without a limit fills its memory."""

from typing import Any

from hypothesis import strategies as st

from kvstore.course import my_code
from kvstore.course.exercises import judges
from kvstore.course.exercises.grading import Drawn

seconds_until_full = my_code.course_version("laws.seconds_until_full")


def _with_room(drawn: dict[str, Any]) -> dict[str, Any]:
    room = drawn.pop("room_mb")
    return {"ceiling_mb": drawn["base_mb"] + room, **drawn}


FULL_INPUTS = st.fixed_dictionaries(
    {
        "base_mb": st.integers(1, 500).map(float),
        "room_mb": st.integers(1, 2000),
        "kb_per_call": st.integers(1, 200).map(float),
        "sent_per_s": st.integers(0, 50).map(lambda n: 100.0 * n),
        "answered_per_s": st.integers(0, 50).map(lambda n: 100.0 * n),
    }
).map(_with_room)


judges("02.seconds_until_full")(Drawn(seconds_until_full, FULL_INPUTS))
