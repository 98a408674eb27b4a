"""Lesson 03: what binds behind the limit: the lock of the hottest key."""

import math
from collections.abc import Mapping
from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed


def hot_key_bound(
    key_shares: Mapping[str, float], write_share: float, write_delay_s: float
) -> float:
    """Calls per second that the hottest key allows: one write of it at a time."""
    hottest = max(key_shares.values()) * write_share
    return 1 / (hottest * write_delay_s)


SHARES = {"page": 0.5, "cart": 0.3, "user": 0.2}


def _judge_hot_key(answer: Any) -> Verdict:
    found = float(answer(dict(SHARES), 0.8, 0.050))
    reasons = {
        1 / (0.5 * 0.8 * 0.050): "",
        1 / (0.8 * 0.050 / 3): "that takes the keys for equally hot: one of them gets half.",
        1 / (0.5 * 0.050): "a read takes no lock: only the writes of the hottest key queue up.",
        1 / 0.050: "that is what one lock serves: but not every call wants that lock.",
        1 / (0.2 * 0.8 * 0.050): "that is the coldest key: it has time to spare.",
    }
    near = [why for value, why in reasons.items() if math.isclose(found, value, rel_tol=1e-9)]
    why = (
        near[0]
        if near
        else (
            f"half of all calls go to one key, 80 % are writes of 50 ms, got {found:.4g} calls/s: "
            "how much time does that key's lock spend on a call, averaged over all calls?"
        )
    )
    if why:
        return not_yet(why)
    one = float(answer({"only": 1.0}, 1.0, 0.050))
    if not math.isclose(one, 20.0, rel_tol=1e-9):
        return not_yet(f"one key, writes only: that is the global lock again, 20/s, got {one:.4g}.")
    return passed("The demand on the hottest lock is p_max·S, and 1/D_max is the whole rest.")


HOT_KEY = Exercise(
    id="03.hot_key",
    title="The hottest key",
    statement=(
        "Write `hot_key_bound(key_shares, write_share, write_delay_s)`: the most calls per second "
        "that a server can answer when each write holds its key's lock through the disk. "
        "`key_shares` says which share of the calls goes to each key, `write_share` which share "
        "are writes."
    ),
    hints=(
        "Each key's lock is a station of its own. Which one is busiest?",
        "The demand D of a station is its service time, averaged over all calls, those that "
        "never come there included.",
        "Of all calls the share `max(key_shares.values()) * write_share` comes to the busiest "
        "lock, and each stays `write_delay_s`. X ≤ 1/D_max.",
    ),
    reference=hot_key_bound,
    wrong=(
        WrongAnswer(lambda keys, writes, s: len(keys) / (writes * s), "equally hot"),
        WrongAnswer(lambda keys, writes, s: 1 / (max(keys.values()) * s), "a read takes no lock"),
        WrongAnswer(lambda keys, writes, s: 1 / s, "what one lock serves"),
        WrongAnswer(lambda keys, writes, s: 1 / (min(keys.values()) * writes * s), "coldest"),
    ),
    judge=_judge_hot_key,
)
