"""Lesson 05: keep a window open, and know which reply is whose."""

from collections.abc import Sequence
from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed
from kvstore.course.stories.link import Link, LinkError, linked
from kvstore.server import serving

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
