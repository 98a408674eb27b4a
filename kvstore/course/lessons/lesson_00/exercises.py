"""Lesson 00: a first client, the mean number of calls in flight, and two on processor time."""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from kvstore.course import my_code
from kvstore.course.exercises import Verdict, expect, judges, passed
from kvstore.course.exercises.client_trials import ClientTrial, try_client
from kvstore.course.exercises.grading import Drawn
from kvstore.course.exercises.puppet import Script
from kvstore.course.lessons import words
from kvstore.numbers import count

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

say = words("00")

Items = Sequence[tuple[bytes, bytes]]

TRIALS = 8
"""So many lists of items are drawn for a first client."""


@judges("00.first_client")
def _judge_first_client(answer: Any) -> Verdict:
    for items in _drawn_items():
        trial = _first_client_trial(answer, items)
        if trial.failure:
            raise trial.failure
        _look_at_first_client(trial, items)
    return passed(say("passed_first_client", trials=TRIALS))


def _first_client_trial(answer: Any, items: Items) -> ClientTrial:
    return try_client(Script(stored=_served_hot), lambda stub: answer(stub, list(items)))


def _drawn_items() -> list[list[tuple[bytes, bytes]]]:
    """Lists of items from the shortest to the longest; the first list is empty."""
    rng = random.Random(0)
    lists = []
    for length in (0, 1, 130, *(rng.randrange(2, 7) for _ in range(TRIALS - 3))):
        keys = rng.sample(range(1000), length)
        lists.append([(b"cup %d" % key, rng.choice([b"tea", b"coffee", b""])) for key in keys])
    return sorted(lists, key=len)


def _served_hot(value: bytes) -> bytes:
    """What the judge's server stores: so a value that was never retrieved is found out."""
    return b"hot " + value


def _look_at_first_client(trial: ClientTrial, items: Items) -> None:
    expect(
        not trial.overlapping,
        say("overlapping", overlapping=trial.overlapping),
    )
    keys = [key for key, _ in items]
    wanted = [("Create", key) for key in keys] + [("Retrieve", key) for key in keys]
    calls = [(call.method, call.key) for call in trial.served]
    expect(
        calls == wanted or sorted(calls) != sorted(wanted),
        say("another_order", keys=len(keys)),
    )
    names = [method for method, _ in calls]
    expect(
        calls == wanted,
        say(
            "not_one_of_each",
            keys=len(keys),
            creates=count(names.count("Create"), "Create"),
            retrieves=count(names.count("Retrieve"), "Retrieve"),
        ),
    )
    returned, sent = trial.returned, [value for _, value in items]
    expect(
        not items or returned != sent,
        say("values_sent"),
    )
    expect(isinstance(returned, list), say("no_list", result=returned))
    expect(
        not any(hasattr(each, "value") for each in returned),
        say("replies"),
    )
    expected = [_served_hot(value) for value in sent]
    expect(returned == expected, say("wrong_values", expected=expected, result=returned))


mean_in_flight = my_code.course_version("laws.mean_in_flight")


def drawn_calls() -> "SearchStrategy[tuple[pd.DataFrame, float]]":
    """Calls within a window, in whole milliseconds: none, one, overlapping, failed."""
    import hypothesis.strategies as st

    call = st.tuples(
        st.integers(0, 200),
        st.integers(1, 10).map(lambda n: 10 * n),
        st.sampled_from(["OK", "NOT_FOUND"]),
    )

    def window(calls: list[tuple[int, int, str]], rest_ms: int) -> tuple[pd.DataFrame, float]:
        sent = [sent_ms / 1e3 for sent_ms, _, _ in calls]
        done = [(sent_ms + took_ms) / 1e3 for sent_ms, took_ms, _ in calls]
        frame = pd.DataFrame(
            {"sent_s": sent, "done_s": done, "status": [each[2] for each in calls]}
        )
        frame[["sent_s", "done_s"]] = frame[["sent_s", "done_s"]].astype(float)
        return frame, max([*done, 0.0]) + rest_ms / 1e3

    calls = st.lists(call, max_size=6) | st.lists(call, min_size=20, max_size=30)
    return st.builds(window, calls, st.integers(1, 100))


def _calls_shown(calls: pd.DataFrame, window_s: float) -> str:
    rows = zip(calls["sent_s"], calls["done_s"], calls["status"], strict=True)
    bars = [
        f"{1e3 * sent_s:.0f} to {1e3 * done_s:.0f} ms ({status})" for sent_s, done_s, status in rows
    ]
    calls_shown = f"calls from {', '.join(bars)}" if bars else "no call"
    return f"{calls_shown} in a window of {1e3 * window_s:.0f} ms"


def _most_in_flight(calls: pd.DataFrame, window_s: float) -> int:
    at = [*((sent, 1) for sent in calls["sent_s"]), *((done, -1) for done in calls["done_s"])]
    level = most = 0
    for _, change in sorted(at):
        level += change
        most = max(most, level)
    return most


def _busy_share(calls: pd.DataFrame, window_s: float) -> float:
    """The share of the window with at least one call in flight."""
    busy_s, end_s = 0.0, 0.0
    for sent_s, done_s in sorted(zip(calls["sent_s"], calls["done_s"], strict=True)):
        busy_s += max(0.0, done_s - max(sent_s, end_s))
        end_s = max(end_s, done_s)
    return busy_s / window_s


judges("00.mean_in_flight")(
    Drawn(
        mean_in_flight,
        drawn_calls(),
        helpers=(_busy_share, _most_in_flight),
        shown=_calls_shown,
    )
)


utilisation = my_code.course_version("laws.utilisation")


def drawn_load() -> "SearchStrategy[tuple[float, float]]":
    """Calls per second, and microseconds of processor time per call, both from 0."""
    import hypothesis.strategies as st

    return st.tuples(st.integers(0, 20_000).map(float), st.integers(0, 2_000).map(float))


judges("00.utilisation")(
    Drawn(
        utilisation,
        drawn_load(),
        shown=lambda calls, cpu_us: f"{calls:,.0f} calls/s at {cpu_us:,.0f} µs each",
    )
)
