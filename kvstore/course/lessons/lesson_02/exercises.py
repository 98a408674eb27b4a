"""Latency in an unlimited queue, and the time until it fills memory."""

import math
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from kvstore.course.exercises import Exercise
from kvstore.course.exercises.grading import Drawn


def latency_of_kth(k: int, sent_per_s: float, answered_per_s: float) -> float:
    """Seconds from sending the k-th call to its answer: answered at k/X, sent at (k-1)/lambda."""
    return max(1 / answered_per_s, k / answered_per_s - (k - 1) / sent_per_s)


LATENCY_INPUTS = st.fixed_dictionaries(
    {
        "k": st.integers(1, 1000),
        "sent_per_s": st.just(math.inf) | st.integers(1, 1000).map(float),
        "answered_per_s": st.integers(1, 1000).map(float),
    }
)
LATENCY_OF_KTH = Exercise(
    id="02.latency_of_kth",
    title="How long does the k-th call take?",
    hints=(
        "Write down two times since the start: when is the k-th call sent, and when is it "
        "answered?",
        "A busy server gives its k-th answer at k/X. The k-th call is sent at (k-1)/λ. Latency "
        "is the difference.",
        "When λ < X the server is idle in between, and the difference falls below 1/X. No call "
        "takes less than 1/X: `max(...)`.",
    ),
    reference=latency_of_kth,
    judge=Drawn(
        latency_of_kth,
        LATENCY_INPUTS,
        mistakes=(
            (
                "That is the time at the lock alone: the earlier calls go through it first.",
                lambda k, sent_per_s, answered_per_s: 1 / answered_per_s,
            ),
            (
                "You count from the start of the run: latency counts from when the call is sent.",
                lambda k, sent_per_s, answered_per_s: k / answered_per_s,
            ),
            (
                "When you send more slowly than the server answers, no call waits for another "
                "one. Then "
                "a call takes 1/X, and no call takes less.",
                lambda k, sent_per_s, answered_per_s: k / answered_per_s - (k - 1) / sent_per_s,
            ),
            (
                "The first call is sent at 0 s, so the k-th is sent at (k-1)/λ.",
                lambda k, sent_per_s, answered_per_s: max(
                    1 / answered_per_s, k / answered_per_s - k / sent_per_s
                ),
            ),
            (
                "The call needs the lock itself, too: k calls of 1/X, not k-1.",
                lambda k, sent_per_s, answered_per_s: max(
                    1 / answered_per_s, (k - 1) / answered_per_s - (k - 1) / sent_per_s
                ),
            ),
            (
                "You multiply by X: a faster server makes its callers wait less.",
                lambda k, sent_per_s, answered_per_s: k * answered_per_s,
            ),
            (
                "That is the mean over all calls: the question is the k-th one.",
                lambda k, sent_per_s, answered_per_s: max(
                    1 / answered_per_s, (k / answered_per_s - (k - 1) / sent_per_s) / 2
                ),
            ),
            (
                "No call takes less than its own time at the lock, 1/X.",
                lambda k, sent_per_s, answered_per_s: max(
                    0.0, k / answered_per_s - (k - 1) / sent_per_s
                ),
            ),
        ),
        right="k/X - (k-1)/λ: while λ > X, each call waits a little longer than the one before it, "
        "without end. Below X no call waits for another one.",
    ),
)


def seconds_until_full(
    ceiling_mb: float, base_mb: float, kb_per_call: float, sent_per_s: float, answered_per_s: float
) -> float:
    """When memory reaches its ceiling: the room, divided by what the backlog adds each second."""
    growth_mb_per_s = kb_per_call / 1000 * (sent_per_s - answered_per_s)
    if growth_mb_per_s <= 0:
        return math.inf
    return (ceiling_mb - base_mb) / growth_mb_per_s


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


UNTIL_FULL = Exercise(
    id="02.seconds_until_full",
    kept="laws.seconds_until_full",
    title="When is memory full?",
    hints=(
        "How many more calls are in flight after each second?",
        "The backlog grows by λ - X calls each second, and memory by that times the memory of a "
        "call. How much room is there for it?",
        "(ceiling - base) / (kB per call / 1000 · (λ - X)); `math.inf` when λ ≤ X.",
    ),
    reference=seconds_until_full,
    judge=Drawn(
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
