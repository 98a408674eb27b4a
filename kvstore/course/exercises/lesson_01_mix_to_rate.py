"""Lesson 01: from what was sent to calls per second."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, near, not_yet, passed

SENT = {"create": 16, "retrieve": 8, "update": 8, "delete": 8}
READ_MS, WRITE_MS = 10, 50


def calls_per_s(sent: Mapping[str, int], read_s: float, write_s: float) -> float:
    """Calls per second of a client with one call in flight that sends these operations."""
    reads = sent.get("retrieve", 0)
    writes = sum(sent.values()) - reads
    mean_s = (reads * read_s + writes * write_s) / (reads + writes)
    return 1 / mean_s


def _judge_calls_per_s(answer: Any) -> Verdict:
    rate = answer(dict(SENT), READ_MS / 1e3, WRITE_MS / 1e3)
    if not isinstance(rate, Real):
        return not_yet(f"a number of calls per second is asked for, got {rate!r}.")
    for value, why in _LIKELY_RATES.items():
        if near(float(rate), value, share=1e-6):
            return not_yet(why)
    if not near(float(rate), 1 / 0.042, share=1e-6):
        return not_yet(
            f"16 creates, 8 retrieves, 8 updates and 8 deletes gave {float(rate):.4g} calls/s. "
            "How long do all 40 calls take together, one after the other?"
        )
    few = answer({"retrieve": 3, "update": 1}, READ_MS / 1e3, WRITE_MS / 1e3)
    if not near(float(few), 50.0, share=1e-6):
        return not_yet(
            f"right for four kinds, but 3 retrieves and 1 update take 80 ms together, so 50 "
            f"calls/s, and you say {float(few):.4g}: a kind that is not named was not sent."
        )
    return passed(
        "X = 1/W, and W weighs each delay with the share of the calls that had it. "
        "Times are what adds up when one call waits for the other; rates do not."
    )


_LIKELY_RATES = {
    20.0: "that is the rate if every call were the slowest one: the reads are faster.",
    25.0: "that holds for a quarter of each kind: count what `sent` says was really sent.",
    40.0: "you average the rates, 100 and three times 20: add up the times instead.",
    36.0: "you weigh the rates by their shares: a second filled with slow calls holds fewer "
    "calls, so weigh the times.",
    1 / 0.030: "that takes as many reads as writes: three of the four kinds are writes.",
    0.042: "that is W, seconds for one call: how many of those fit into a second?",
}


def _weighted_rates(sent: Mapping[str, int], read_s: float, write_s: float) -> float:
    reads = sent.get("retrieve", 0) / sum(sent.values())
    return reads / read_s + (1 - reads) / write_s


MIX_TO_RATE = Exercise(
    id="01.mix_to_rate",
    title="From what was sent to calls per second",
    statement=(
        "Write `calls_per_s(sent, read_s, write_s)`: the throughput of a client with one call in "
        "flight. `sent` counts the calls of each kind, such as `{'create': 16, 'retrieve': 8}`; "
        "a retrieve takes `read_s` seconds, any other kind `write_s`."
    ),
    hints=(
        "Lay all the calls end to end. How long is the row, and how many calls are in it?",
        "Count the reads: `sent.get('retrieve', 0)`. All the others are writes.",
        "W = (reads · read_s + writes · write_s) / (reads + writes), and X = 1/W.",
    ),
    reference=calls_per_s,
    wrong=(
        WrongAnswer(
            lambda sent, read_s, write_s: 1 / max(read_s, write_s), "every call were the slowest"
        ),
        WrongAnswer(
            lambda sent, read_s, write_s: 4 / (read_s + 3 * write_s), "a quarter of each kind"
        ),
        WrongAnswer(
            lambda sent, read_s, write_s: (1 / read_s + 3 / write_s) / 4, "average the rates"
        ),
        WrongAnswer(_weighted_rates, "weigh the rates"),
        WrongAnswer(lambda *given: 1 / calls_per_s(*given), "that is W"),
        WrongAnswer(
            lambda sent, read_s, write_s: 2 / (read_s + write_s), "as many reads as writes"
        ),
    ),
    judge=_judge_calls_per_s,
)
