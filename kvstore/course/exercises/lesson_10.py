"""Lesson 10: how many servers a target needs."""

import math
from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed


def servers_needed(
    target_per_s: float, lock_s: float, hottest_share: float, cpu_s: float, cores: float
) -> float:
    """Enough locks for the target, if neither the hottest key nor the cores forbid it."""
    if target_per_s * hottest_share * lock_s > 1 or target_per_s * cpu_s > cores:
        return math.inf
    return max(1, math.ceil(target_per_s * lock_s))


def _judge_servers_needed(answer: Any) -> Verdict:
    for arguments, expected, wrong in _CASES:
        found = answer(*arguments)
        if found != expected or isinstance(found, bool):
            return not_yet(f"servers_needed{arguments} gave {found!r}: {wrong}")
    return passed("ceil(X·S) locks, as long as q·X·S ≤ 1 for the hottest key and X·d ≤ cores.")


_CASES = (
    (
        (150, 0.020, 0.01, 0.0004, 3),
        3,
        "each server's lock lets 1 / 20 ms = 50 calls/s through, and 150 are wanted: three do it.",
    ),
    (
        (300, 0.020, 0.01, 0.0004, 2),
        6,
        "six locks let 300 calls/s through, and servers that wait need no core each.",
    ),
    (
        (160, 0.020, 0.01, 0.0004, 2),
        4,
        "three locks let 150 through; 160 are wanted, and there are only whole servers.",
    ),
    ((5, 0.020, 0.01, 0.0004, 2), 1, "even a small target needs one server."),
    (
        (1000, 0.020, 0.1, 0.0004, 2),
        math.inf,
        "the hottest key gets 100 calls/s, all at one server, whose lock lets 50 through.",
    ),
    (
        (400, 0.020, 0.1, 0.0004, 2),
        8,
        "the hottest key gets 40 calls/s, and the server that keeps it has room for 50.",
    ),
    (
        (6000, 0.020, 0.001, 0.0004, 2),
        math.inf,
        "6,000 calls of 0.4 ms want 2.4 cores, and the machine has 2 for all its processes.",
    ),
)

SERVERS_NEEDED = Exercise(
    id="10.servers_needed",
    title="How many servers?",
    hints=(
        "Three stations could bind: the locks, the lock that the hottest key is behind, the cores.",
        "Two of them do not care how many servers there are: look at these first, and return "
        "`math.inf` where one is too slow.",
        "Hottest: `target_per_s * hottest_share * lock_s <= 1`. Cores: `target_per_s * cpu_s <= "
        "cores`. And s locks let `s / lock_s` through: round up.",
    ),
    reference=servers_needed,
    wrong=(
        WrongAnswer(lambda x, s, q, d, c: round(x * s), "only whole servers"),
        WrongAnswer(lambda x, s, q, d, c: math.ceil(x * s), "all at one server"),
        WrongAnswer(lambda x, s, q, d, c: math.floor(x * s) + 1, "three do it"),
        WrongAnswer(lambda x, s, q, d, c: min(c, math.ceil(x * s)), "need no core each"),
        WrongAnswer(
            lambda x, s, q, d, c: max(1, math.ceil(x * s)) if x * q * s <= 1 else math.inf,
            "2.4 cores",
        ),
        WrongAnswer(
            lambda x, s, q, d, c: math.inf if q > 0.05 or x * d > c else max(1, math.ceil(x * s)),
            "has room for 50",
        ),
        WrongAnswer(lambda x, s, q, d, c: 0 if x < 50 else math.ceil(x * s), "needs one server"),
    ),
    judge=_judge_servers_needed,
)
