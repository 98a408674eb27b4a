"""Lesson 10: how many servers a target needs, and how often a quorum waits for a slow one."""

import math
from math import comb
from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, near, not_yet, passed


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


ASKED = "3 copies, each standing still a quarter of the time, and 2 answers needed"


def waits_for_quorum(stalled: float, copies: int, needed: int) -> float:
    """It waits when more than copies - needed stand still at once."""
    return sum(
        comb(copies, down) * stalled**down * (1 - stalled) ** (copies - down)
        for down in range(copies - needed + 1, copies + 1)
    )


def _judge_waits_for_quorum(answer: Any) -> Verdict:
    # Of 3 copies with 1/4 each: exactly two stand still 9/64 of the time, all three 1/64.
    found = float(answer(0.25, 3, 2))
    if not near(found, 10 / 64):
        return not_yet(_why_not_10_of_64(found))
    for copies, needed, share in ((3, 1, 1 / 64), (3, 3, 37 / 64), (1, 1, 1 / 4)):
        found = float(answer(0.25, copies, needed))
        if not near(found, share):
            return not_yet(
                f"right for 2 of 3, but for {needed} of {copies} it is {share:.4g} and you say"
                f" {found:.4g}: how many copies may stand still before it waits?"
            )
    # Of 5 with 1/10 each, three or more: 10 · 0.00081 + 5 · 0.00009 + 0.00001.
    found = float(answer(0.1, 5, 3))
    if not near(found, 0.00856):
        return not_yet(
            f"5 copies that stand still a tenth of the time, 3 needed: 0.00856, and you say"
            f" {found:.4g}. In how many ways can three of five stand still?"
        )
    return passed(
        "One of three waits for 2 % of its writes, two of three for 16 %, all three for 58 %, and"
        " one server alone for 25 %: a majority is better than no copies at all, and all of them"
        " are worse."
    )


def _why_not_10_of_64(found: float) -> str:
    if near(found, 0.25):
        return f"{ASKED}: 0.25 is one server by itself. It takes two of three to hold a write up."
    if near(found, 37 / 64):
        return (
            f"{ASKED}: you say how often *any* copy stands still, but with one the other two"
            " answer, and nobody waits."
        )
    if near(found, 1 / 16):
        return (
            f"{ASKED}: that is the chance for two *particular* copies. There are three pairs, and"
            " all three may stand still."
        )
    if near(found, 9 / 64):
        return f"{ASKED}: exactly two stand still so often; when all three do, it waits as well."
    if near(found, 54 / 64):
        return f"{ASKED}: so often it does *not* wait. The rest was asked for."
    return f"{ASKED}: {found:.4g} is not it. How often do two or three stand still at once?"


def _exactly(stalled: float, copies: int, needed: int) -> float:
    down = copies - needed + 1
    return comb(copies, down) * stalled**down * (1 - stalled) ** (copies - down)


WAITS_FOR_QUORUM = Exercise(
    id="10.waits_for_quorum",
    title="Who waits for a quorum?",
    hints=(
        "2 of 3 are needed. One stands still: does the write wait? And when two do?",
        "It waits when copies - needed + 1 servers stand still, or more than that.",
        "Exactly k of n stand still with the chance comb(n, k) · p^k · (1 - p)^(n - k), with `comb`"
        " from `math`. Add that up for k = n - w + 1, ..., n.",
    ),
    reference=waits_for_quorum,
    wrong=(
        WrongAnswer(lambda p, n, w: p, "one server by itself"),
        WrongAnswer(lambda p, n, w: 1 - (1 - p) ** n, "how often *any* copy stands still"),
        WrongAnswer(lambda p, n, w: p ** (n - w + 1), "two *particular* copies"),
        WrongAnswer(_exactly, "exactly two stand still"),
        WrongAnswer(lambda p, n, w: 1 - waits_for_quorum(p, n, w), "it does *not* wait"),
        WrongAnswer(
            lambda p, n, w: waits_for_quorum(p, 3, 2), "how many copies may stand still before"
        ),
        WrongAnswer(
            lambda p, n, w: waits_for_quorum(p, n, w) if n < 5 else _exactly(p, n, w),
            "In how many ways",
        ),
    ),
    judge=_judge_waits_for_quorum,
)
