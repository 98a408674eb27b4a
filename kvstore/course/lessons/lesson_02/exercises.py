"""Latency in an unlimited queue, and the time until it fills memory."""

import math
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from kvstore.course.exercises import Exercise, Verdict, WrongAnswer
from kvstore.course.exercises.grading import in_order_of, judge_drawn


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
LATENCY_MISTAKES = (
    WrongAnswer(
        lambda k, sent_per_s, answered_per_s: 1 / answered_per_s,
        "That is the time at the lock alone: the earlier calls go through it first.",
    ),
    WrongAnswer(
        lambda k, sent_per_s, answered_per_s: k / answered_per_s,
        "You count from the start of the run: latency counts from when the call is sent.",
    ),
    WrongAnswer(
        lambda k, sent_per_s, answered_per_s: k / answered_per_s - (k - 1) / sent_per_s,
        "When you send more slowly than the server answers, no call waits for another one. Then "
        "a call takes 1/X, and no call takes less.",
    ),
    WrongAnswer(
        lambda k, sent_per_s, answered_per_s: max(
            1 / answered_per_s, k / answered_per_s - k / sent_per_s
        ),
        "The first call is sent at 0 s, so the k-th is sent at (k-1)/λ.",
    ),
    WrongAnswer(
        lambda k, sent_per_s, answered_per_s: max(
            1 / answered_per_s, (k - 1) / answered_per_s - (k - 1) / sent_per_s
        ),
        "The call needs the lock itself, too: k calls of 1/X, not k-1.",
    ),
    WrongAnswer(
        lambda k, sent_per_s, answered_per_s: k * answered_per_s,
        "You multiply by X: a faster server makes its callers wait less.",
    ),
    WrongAnswer(
        lambda k, sent_per_s, answered_per_s: max(
            1 / answered_per_s, (k / answered_per_s - (k - 1) / sent_per_s) / 2
        ),
        "That is the mean over all calls: the question is the k-th one.",
    ),
    WrongAnswer(
        lambda k, sent_per_s, answered_per_s: max(0.0, k / answered_per_s - (k - 1) / sent_per_s),
        "No call takes less than its own time at the lock, 1/X.",
    ),
)


def _judge_latency(answer: Any) -> Verdict:
    return judge_drawn(
        answer,
        latency_of_kth,
        LATENCY_INPUTS.map(in_order_of(latency_of_kth)),
        mistakes=LATENCY_MISTAKES,
        right="k/X - (k-1)/λ: while λ > X, each call waits a little longer than the one before it, "
        "without end. Below X no call waits for another one.",
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
    wrong=LATENCY_MISTAKES,
    judge=_judge_latency,
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


FULL_MISTAKES = (
    WrongAnswer(
        _growing(lambda c, b, kb, sent, x: (c - b) / (kb / 1000 * sent)),
        "You leave out the answers: a call that was answered gives its memory back.",
    ),
    WrongAnswer(
        _growing(lambda c, b, kb, sent, x: c / (kb / 1000 * (sent - x))),
        "You start from nothing: the process uses `base_mb` before the first call.",
    ),
    WrongAnswer(
        _growing(lambda c, b, kb, sent, x: (c - b) / (kb * (sent - x))),
        "The room is in MB and a call in kB: 1 MB is 1,000 kB.",
    ),
    WrongAnswer(
        _growing(lambda c, b, kb, sent, x: (c - b) / (kb / 1024 * (sent - x))),
        "Here 1 MB is 1,000 kB, not 1,024.",
    ),
    WrongAnswer(
        _growing(lambda c, b, kb, sent, x: (c - b) / (kb / 1000 * (sent + x))),
        "You add the answers: each of them makes room, so subtract them.",
    ),
    WrongAnswer(
        _growing(lambda c, b, kb, sent, x: kb / 1000 * (sent - x) / (c - b)),
        "Your fraction is upside down: more room lasts longer, faster growth does not.",
    ),
    WrongAnswer(
        _no_inf_when_equal,
        "When λ = X the backlog does not grow either: `math.inf`.",
    ),
    WrongAnswer(
        lambda ceiling_mb, base_mb, kb_per_call, sent_per_s, answered_per_s: (
            (ceiling_mb - base_mb) / (kb_per_call / 1000 * abs(sent_per_s - answered_per_s))
            if sent_per_s != answered_per_s
            else math.inf
        ),
        "When the server answers faster than you send, memory never fills: `math.inf`.",
    ),
)


def _judge_until_full(answer: Any) -> Verdict:
    return judge_drawn(
        answer,
        seconds_until_full,
        FULL_INPUTS.map(in_order_of(seconds_until_full)),
        mistakes=FULL_MISTAKES,
        right="(ceiling - base) / (memory per call · (λ - X)). The only sender that never gets "
        "there has λ ≤ X, and a sender without a limit does not look at X.",
    )


UNTIL_FULL = Exercise(
    id="02.seconds_until_full",
    title="When is memory full?",
    hints=(
        "How many more calls are in flight after each second?",
        "The backlog grows by λ - X calls each second, and memory by that times the memory of a "
        "call. How much room is there for it?",
        "(ceiling - base) / (kB per call / 1000 · (λ - X)); `math.inf` when λ ≤ X.",
    ),
    reference=seconds_until_full,
    wrong=FULL_MISTAKES,
    judge=_judge_until_full,
)
