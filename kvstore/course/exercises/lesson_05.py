"""Lesson 05: keep a window open, know which reply is whose, and commit in order."""

import math
import random
from collections.abc import Sequence
from typing import Any

import pandas as pd

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed
from kvstore.course.stories.link import Link, LinkError, linked
from kvstore.server import serving

# ---- a window of reads ---------------------------------------------------------------------

VALUES = {b"key %d" % number: b"value %d" % number for number in range(6)}
SLOW = {b"key 2": 4}
"""This key takes four reads' time, so that others overtake it."""
ASKED = [b"key %d" % number for number in (0, 1, 2, 3, 4, 1, 5, 0, 2, 3, 3, 4, 5, 1)]
"""With keys asked for twice, while the first request for them may still be unanswered."""
WINDOW = 4


def reads_in_a_window(link: Link, keys: Sequence[bytes], window: int) -> list[bytes]:
    """The value of each key in the order of `keys`, with at most `window` reads in flight."""
    values = [b""] * len(keys)
    sent = 0
    for answered in range(len(keys)):
        while sent < len(keys) and sent - answered < window:
            link.send(sent, keys[sent])
            sent += 1
        number, value = link.receive()
        values[number] = value
    return values


class _NoLink:
    """Stands for a link over which nothing should be asked."""

    def send(self, number: int, key: bytes) -> None:
        raise LinkError("there are no keys, so there is nothing to send")

    def receive(self) -> tuple[int, bytes]:
        raise LinkError("there are no keys, so there is nothing to receive")


def _judge_reads(answer: Any) -> Verdict:
    expected = [VALUES[key] for key in ASKED]
    if list(answer(_NoLink(), [], WINDOW)):  # also spares a stub the start of a server
        return not_yet("for no keys at all, the list of values is empty.")
    with (
        serving(read_delay_s=0.004, write_delay_s=0, locking="per_key", use_asyncio=True) as server,
        linked(server, VALUES, SLOW) as link,
    ):
        values = answer(link, list(ASKED), WINDOW)
    try:
        values = list(values)
    except TypeError:
        return not_yet(f"a list with one value for each key is asked for, got {values!r:.80}.")
    if len(link.sent) < len(ASKED):
        return not_yet(
            f"{len(ASKED)} keys were asked for, but {len(link.sent)} requests were sent. Some keys"
            " stand in the list twice: each place in it needs a request of its own."
        )
    if link.most_open > WINDOW:
        return not_yet(
            f"the window is {WINDOW}, but {link.most_open} requests were unanswered at once: look"
            " at what your counter holds at the moment *before* you send."
        )
    if len(values) < len(ASKED) or not all(values):
        missing = len(ASKED) - sum(map(bool, values))
        return not_yet(
            f"{missing} of {len(ASKED)} values are missing at the end: when the last request is"
            " sent, a window full of replies is still to come."
        )
    if values != expected:
        if sorted(values) == sorted(expected):
            return not_yet(
                "all values are there, at the wrong places: a slow read was overtaken. The reply"
                " carries a number: whose is it?"
            )
        return not_yet(f"the values are not those of the keys: {values[:4]} and so on.")
    if link.most_open == 1:
        return not_yet(
            "every value is right, but never was more than one request in flight: that is the"
            f" blocking client. Send until {WINDOW} are unanswered, then wait for one."
        )
    if link.most_open < WINDOW:
        return not_yet(
            f"at most {link.most_open} requests were in flight where {WINDOW} are allowed: the"
            f" throughput is {link.most_open}/{WINDOW} of what it could be."
        )
    return passed(
        f"{len(ASKED)} reads, never more than {WINDOW} in flight and as many as that when it was"
        " allowed, each value at its place although a slow read was overtaken."
    )


def _in_order_of_arrival(link: Link, keys: Sequence[bytes], window: int) -> list[bytes]:
    values: list[bytes] = []
    for number, key in enumerate(keys):
        if number >= window:
            values.append(link.receive()[1])
        link.send(number, key)
    while len(values) < len(keys):
        values.append(link.receive()[1])
    return values


def _one_request_for_each_key(link: Link, keys: Sequence[bytes], window: int) -> list[bytes]:
    distinct = list(dict.fromkeys(keys))
    values = dict(zip(distinct, reads_in_a_window(link, distinct, window), strict=True))
    return [values[key] for key in keys]


def _without_the_last_replies(link: Link, keys: Sequence[bytes], window: int) -> list[bytes]:
    values = [b""] * len(keys)
    for number, key in enumerate(keys):
        if number >= window:
            answered, value = link.receive()
            values[answered] = value
        link.send(number, key)
    return values


READS_IN_A_WINDOW = Exercise(
    id="05.reads_in_a_window",
    title="Keep a window open",
    statement=(
        "Write `reads_in_a_window(link, keys, window)`: the list of values, one for each key and in"
        " the order of `keys`, with as many requests in flight as `window` allows and never more."
        " `link.send(number, key)` sends and does not wait; `link.receive()` waits for the next"
        " reply, whichever it is, and returns `(number, value)`."
    ),
    hints=(
        "How many are in flight? Those that were sent less those that were answered. Keep both.",
        "Two steps take turns: send while fewer than `window` are unanswered and keys are left;"
        " then receive exactly one.",
        "Make room for all values first, `values = [b''] * len(keys)`, and use the place of a key"
        " in the list as the number of its request: the reply then says where its value belongs.",
    ),
    reference=reads_in_a_window,
    wrong=(
        WrongAnswer(_in_order_of_arrival, "at the wrong places"),
        WrongAnswer(_one_request_for_each_key, "each place in it needs a request of its own"),
        WrongAnswer(lambda link, keys, window: reads_in_a_window(link, keys, 1), "blocking client"),
        WrongAnswer(
            lambda link, keys, window: reads_in_a_window(link, keys, window + 1),
            "at the moment *before* you send",
        ),
        WrongAnswer(
            lambda link, keys, window: reads_in_a_window(link, keys, window - 1),
            "of what it could be",
        ),
        WrongAnswer(_without_the_last_replies, "still to come"),
    ),
    judge=_judge_reads,
)

# ---- the commit index ----------------------------------------------------------------------

# Entry 2 comes late, 4 twice (its stream broke in between), 7 never.
ACKNOWLEDGED = (1, 3, 4, 2, 4, 6, 5, 8, 9)
COMMITTED = [1, 1, 1, 4, 4, 4, 6, 6, 6]


def commit_indices(acknowledged: Sequence[int]) -> list[int]:
    """After each acknowledgement, the highest index up to which no entry is missing."""
    seen: set[int] = set()
    index = 0
    over_time = []
    for entry in acknowledged:
        seen.add(entry)
        while index + 1 in seen:
            index += 1
        over_time.append(index)
    return over_time


def _judge_commit(answer: Any) -> Verdict:
    found = list(answer(list(ACKNOWLEDGED)))
    if len(found) != len(ACKNOWLEDGED):
        return not_yet(
            f"{len(ACKNOWLEDGED)} acknowledgements came, and after each the commit index is asked"
            f" for: {len(ACKNOWLEDGED)} numbers, got {len(found)}."
        )
    if found == COMMITTED:
        shuffled = list(range(1, 201))
        random.Random(5).shuffle(shuffled)
        if list(answer(shuffled)) != commit_indices(shuffled):
            return not_yet("right for nine entries, and wrong for 200 in an order of chance.")
        return passed(
            "It never moves over a gap, and when the gap closes it catches up at once: that is how"
            " replies out of order become a log in order."
        )
    at = next(
        place for place, pair in enumerate(zip(found, COMMITTED, strict=True)) if _differ(*pair)
    )
    so_far = f"after the acknowledgements {list(ACKNOWLEDGED[: at + 1])} you say {found[at]}"
    if found[at] == max(ACKNOWLEDGED[: at + 1]):
        return not_yet(
            f"{so_far}, the highest one: an entry below it is not acknowledged yet, and would be"
            " lost if the leader died now."
        )
    if found[at] == at + 1 or found[at] == len(set(ACKNOWLEDGED[: at + 1])):
        return not_yet(
            f"{so_far}, which is how many came: but which ones? A count does not see the gap."
        )
    if found[at] == COMMITTED[at] - 1 and found[0] == 0:
        return not_yet(
            f"{so_far}: entries count from 1, and with nothing committed the index is 0."
        )
    if found[at] < COMMITTED[at]:
        return not_yet(
            f"{so_far}: entries up to {COMMITTED[at]} are all there. One acknowledgement that"
            " closes a gap can move the index by several steps."
        )
    return not_yet(f"{so_far}, but up to {COMMITTED[at]} nothing is missing, and no further.")


def _differ(one: Any, other: Any) -> bool:
    return bool(one != other)


def _one_step_each(acknowledged: Sequence[int]) -> list[int]:
    seen: set[int] = set()
    index, over_time = 0, []
    for entry in acknowledged:
        seen.add(entry)
        if index + 1 in seen:
            index += 1
        over_time.append(index)
    return over_time


COMMIT_INDEX = Exercise(
    id="05.commit_index",
    title="How far is the log safe?",
    statement=(
        "Write `commit_indices(acknowledged)`: entries are numbered 1, 2, 3, and the list says in"
        " which order their acknowledgements came, some of them twice. Return a list: after each"
        " acknowledgement, the highest index up to which *every* entry is acknowledged (0 if none)."
    ),
    hints=(
        "After 1 and 3 the index is 1: entry 2 is missing. What happens when 2 comes?",
        "Keep a set of all indices that were acknowledged; a second acknowledgement then does"
        " no harm.",
        "After each acknowledgement: `while index + 1 in seen: index += 1`, not `if`.",
    ),
    reference=commit_indices,
    wrong=(
        WrongAnswer(
            lambda acknowledged: [max(acknowledged[: n + 1]) for n in range(len(acknowledged))],
            "the highest one",
        ),
        WrongAnswer(lambda acknowledged: list(range(1, len(acknowledged) + 1)), "how many came"),
        WrongAnswer(_one_step_each, "by several steps"),
        WrongAnswer(
            lambda acknowledged: [index - 1 for index in commit_indices(acknowledged)],
            "entries count from 1",
        ),
        WrongAnswer(
            lambda acknowledged: commit_indices(acknowledged)[-1:], "after each the commit"
        ),
    ),
    judge=_judge_commit,
)

# ---- replies kept in order -----------------------------------------------------------------

# In the order of sending; the second is slow, the sixth a little.
CALLS = pd.DataFrame(
    {
        "sent_s": [0.000, 0.001, 0.002, 0.003, 0.012, 0.062, 0.063],
        "done_s": [0.010, 0.051, 0.013, 0.012, 0.022, 0.085, 0.074],
    }
)
IN_ORDER = [0.010, 0.051, 0.051, 0.051, 0.051, 0.085, 0.085]


def in_order(calls: pd.DataFrame) -> list[float]:
    """When each reply leaves, if none may leave before the replies to all earlier requests."""
    leaves_s, times = -math.inf, []
    for done_s in calls["done_s"]:
        leaves_s = max(leaves_s, done_s)
        times.append(leaves_s)
    return times


def _judge_in_order(answer: Any) -> Verdict:
    found = [float(time_s) for time_s in answer(CALLS.copy())]
    if len(found) != len(CALLS):
        return not_yet(f"{len(CALLS)} calls were made, so {len(CALLS)} times, got {len(found)}.")
    if _close(found, IN_ORDER):
        return passed(
            "The running maximum: one slow request holds back all behind it, and not one before."
            " The last reply leaves when it would have anyway: throughput is the same, latency not."
        )
    if _close(found, sorted(CALLS["done_s"])):
        return not_yet(
            "you sort the times: then the third reply leaves as third, but it is the reply to"
            " another request. Request 3 may not leave before request 2, which takes until 51 ms."
        )
    residence_s = CALLS["done_s"] - CALLS["sent_s"]
    if _close(found, residence_s.cumsum()) or _close(found, _served_in_turn()):
        return not_yet(
            "you let each request begin only when the one before it has left: that is a lock, which"
            " delays the work. Here all the work was done in time, and only the replies wait."
        )
    if _close(found, [max(CALLS["done_s"])] * len(CALLS)):
        return not_yet(
            "you let all replies wait for the slowest: the first one has nothing before it and"
            " leaves at 10 ms."
        )
    if _close(found, CALLS["done_s"]):
        return not_yet("these are the times as they were: reply 3 left before reply 2.")
    if _close(found, residence_s.cummax()):
        return not_yet(
            "you compare how long the calls took: what matters is at what time each was ready."
        )
    return not_yet(
        "look at the second call, ready at 51 ms, and at the third, ready at 13 ms: when may the"
        f" third leave? You say {1e3 * found[2]:.4g} ms."
    )


def _served_in_turn() -> list[float]:
    free_s, times = 0.0, []
    for sent_s, done_s in zip(CALLS["sent_s"], CALLS["done_s"], strict=True):
        free_s = max(free_s, sent_s) + done_s - sent_s
        times.append(free_s)
    return times


def _close(found: Sequence[float], expected: Any) -> bool:
    return all(math.isclose(a, b, abs_tol=1e-9) for a, b in zip(found, expected, strict=True))


IN_ORDER_REPLIES = Exercise(
    id="05.in_order",
    title="What would order have cost?",
    statement=(
        "Write `in_order(calls)`: `calls` has a row for each call, in the order of sending, with"
        " `sent_s` and `done_s`. Return a list: when each reply would have left a server that does"
        " the same work at the same times, but sends its replies in the order of the requests."
    ),
    hints=(
        "The first reply is not held back by anything. The second: by the first only.",
        "A reply leaves when it is ready *and* the one before it has left: the later of the two.",
        "That is the running maximum of `done_s`. Pandas has it: `cummax()`.",
    ),
    reference=in_order,
    wrong=(
        WrongAnswer(lambda calls: sorted(calls["done_s"]), "you sort the times"),
        WrongAnswer(
            lambda calls: list((calls["done_s"] - calls["sent_s"]).cumsum()), "that is a lock"
        ),
        WrongAnswer(lambda calls: [max(calls["done_s"])] * len(calls), "wait for the slowest"),
        WrongAnswer(lambda calls: list(calls["done_s"]), "the times as they were"),
        WrongAnswer(
            lambda calls: list((calls["done_s"] - calls["sent_s"]).cummax()), "how long the calls"
        ),
    ),
    judge=_judge_in_order,
)
