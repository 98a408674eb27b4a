"""Lesson 02: the time until a sender without a limit fills its memory."""

import math
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from kvstore.course import my_code
from kvstore.course.exercises import Exercise
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


def _growing(seconds: Callable[..., float]) -> Callable[..., float]:
    """A mistake that is one only while the backlog grows."""

    def answer(
        ceiling_mb: float,
        base_mb: float,
        kb_per_call: float,
        sent_per_s: float,
        answered_per_s: float,
    ) -> float:
        if sent_per_s <= answered_per_s:
            return math.inf
        return seconds(ceiling_mb, base_mb, kb_per_call, sent_per_s, answered_per_s)

    return answer


def _no_inf_when_equal(
    ceiling_mb: float, base_mb: float, kb_per_call: float, sent_per_s: float, answered_per_s: float
) -> float:
    if sent_per_s < answered_per_s:
        return math.inf
    return (ceiling_mb - base_mb) / (kb_per_call / 1000 * (sent_per_s - answered_per_s))


UNTIL_FULL = Exercise.of(
    "02.seconds_until_full",
    Drawn(
        seconds_until_full,
        FULL_INPUTS,
        mistakes=(
            (
                "You leave out the answers: a call that was answered gives its memory back.",
                _growing(lambda c, b, kb, sent, x: (c - b) / (kb / 1000 * sent)),
            ),
            (
                "You start from nothing: the process uses `base_mb` before the first call.",
                _growing(lambda c, b, kb, sent, x: c / (kb / 1000 * (sent - x))),
            ),
            (
                "The room is in MB and a call in kB: 1 MB is 1,000 kB.",
                _growing(lambda c, b, kb, sent, x: (c - b) / (kb * (sent - x))),
            ),
            (
                "Here 1 MB is 1,000 kB, not 1,024.",
                _growing(lambda c, b, kb, sent, x: (c - b) / (kb / 1024 * (sent - x))),
            ),
            (
                "You add the answers: each of them makes room, so subtract them.",
                _growing(lambda c, b, kb, sent, x: (c - b) / (kb / 1000 * (sent + x))),
            ),
            (
                "Your fraction is upside down: more room lasts longer, faster growth does not.",
                _growing(lambda c, b, kb, sent, x: kb / 1000 * (sent - x) / (c - b)),
            ),
            ("When λ = X the backlog does not grow either: `math.inf`.", _no_inf_when_equal),
            (
                "When the server answers faster than you send, memory never fills: `math.inf`.",
                lambda ceiling_mb, base_mb, kb_per_call, sent_per_s, answered_per_s: (
                    (ceiling_mb - base_mb) / (kb_per_call / 1000 * abs(sent_per_s - answered_per_s))
                    if sent_per_s != answered_per_s
                    else math.inf
                ),
            ),
        ),
        right="(ceiling - base) / (memory per call · (λ - X)). The only sender that never gets "
        "there has λ ≤ X, and a sender without a limit does not look at X.",
    ),
)
