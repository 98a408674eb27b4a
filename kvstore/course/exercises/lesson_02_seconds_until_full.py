"""Lesson 02: when a queue that nobody limits fills memory."""

import math
from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed


def seconds_until_full(
    ceiling_mb: float, base_mb: float, kb_per_call: float, sent_per_s: float, answered_per_s: float
) -> float:
    """When memory meets its ceiling: the room, over what the backlog adds each second."""
    growth_mb_per_s = kb_per_call / 1000 * (sent_per_s - answered_per_s)
    if growth_mb_per_s <= 0:
        return math.inf
    return (ceiling_mb - base_mb) / growth_mb_per_s


def _judge_until_full(answer: Any) -> Verdict:
    # 400 MB of room; 50 kB for each of 600 calls more in each second: 30 MB/s.
    found = float(answer(500.0, 100.0, 50.0, 1000.0, 400.0))
    reasons = {
        400 / 30: "",
        400 / 50: "you leave out the answers: a call that was answered gives its memory back.",
        500 / 30: "you start from nothing: the process uses 100 MB before the first call.",
        400 / 30_000: "the room is in MB and a call in kB: 1 MB is 1,000 kB.",
        400 / 70: "answers make room: they are taken off, not added.",
        30 / 400: "that is turned round: more room lasts longer, faster growth does not.",
    }
    near = [why for value, why in reasons.items() if math.isclose(found, value, rel_tol=1e-9)]
    if not near:
        return not_yet(
            f"400 MB of room, 50 kB for each of 600 calls more in each second, gave {found:.4g} s: "
            "by how many MB does memory grow in one second?"
        )
    if near[0]:
        return not_yet(near[0])
    found = float(answer(500.0, 100.0, 50.0, 20.0, 25.0))
    if found != math.inf:
        return not_yet(
            f"the server answers faster than you send, and you say it is full after {found:.4g} s. "
            "It never is: `math.inf`."
        )
    return passed(
        "(ceiling - base) / (bytes per call · (λ - X)). The only way never to get there is λ ≤ X, "
        "and without a limit nothing sees to that."
    )


UNTIL_FULL = Exercise(
    id="02.seconds_until_full",
    title="When is memory full?",
    statement=(
        "Write `seconds_until_full(ceiling_mb, base_mb, kb_per_call, sent_per_s, answered_per_s)`: "
        "seconds until a process that uses `base_mb` at its start reaches the ceiling, or "
        "`math.inf` when it never does."
    ),
    hints=(
        "How many calls more are in flight after each second?",
        "The backlog grows by λ - X calls each second, and memory by that times the cost of a "
        "call. How much room is there for it?",
        "(ceiling - base) / (cost · (λ - X)), with 1 MB = 1,000 kB; `math.inf` when λ ≤ X.",
    ),
    reference=seconds_until_full,
    wrong=(
        WrongAnswer(lambda c, b, kb, sent, x: (c - b) / (kb / 1000 * sent), "leave out"),
        WrongAnswer(lambda c, b, kb, sent, x: c / (kb / 1000 * (sent - x)), "start from nothing"),
        WrongAnswer(lambda c, b, kb, sent, x: (c - b) / (kb * (sent - x)), "1,000 kB"),
        WrongAnswer(lambda c, b, kb, sent, x: (c - b) / (kb / 1000 * (sent + x)), "not added"),
        WrongAnswer(lambda c, b, kb, sent, x: kb / 1000 * (sent - x) / (c - b), "turned round"),
        WrongAnswer(lambda c, b, kb, sent, x: (c - b) / (kb / 1000 * (sent - x)), "never is"),
    ),
    judge=_judge_until_full,
)
