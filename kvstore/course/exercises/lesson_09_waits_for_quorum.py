"""Lesson 09: how often a quorum has to wait for a server that stands still."""

from math import comb
from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, near, not_yet, passed

ASKED = "3 copies, each standing still a quarter of the time, and 2 answers needed"


def waits_for_quorum(stalled: float, copies: int, needed: int) -> float:
    """It waits when more than copies - needed stand still at once."""
    return sum(
        comb(copies, down) * stalled**down * (1 - stalled) ** (copies - down)
        for down in range(copies - needed + 1, copies + 1)
    )


def _judge(answer: Any) -> Verdict:
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
    id="09.waits_for_quorum",
    title="Who waits for a quorum?",
    statement=(
        "Write `waits_for_quorum(stalled, copies, needed)`: each of `copies` servers stands still"
        " for the share `stalled` of the time, whatever the others do. A write is sent to all and"
        " is done when `needed` have answered. Which share of the writes has to wait for a server"
        " that stands still?"
    ),
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
    judge=_judge,
)
