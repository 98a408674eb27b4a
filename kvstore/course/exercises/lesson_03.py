"""Lesson 03: a limit on calls in flight, how large it has to be, and what binds behind it."""

import math
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import grpc

from kvstore.client import strategies, workload
from kvstore.client.channel import connected, target_of
from kvstore.client.client import Client
from kvstore.client.workload import Operation
from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed
from kvstore.course.exercises.trials import tried, verdict
from kvstore.server import serving

LIMIT = 8


def _operations() -> list[Operation]:
    """Creates, and among them reads of keys that nobody knows: these are answered NOT_FOUND."""
    return [
        workload.retrieve(b"unknown %d" % n)
        if n % 4 == 3
        else workload.create(b"key %d" % n, b"value")
        for n in range(8 * LIMIT)
    ]


def _judge_bounded(answer: Any) -> Verdict:
    with grpc.insecure_channel("127.0.0.1:1") as nowhere:  # a stub shows without any server
        tried(answer, Client(nowhere, "127.0.0.1:1"), [], LIMIT)
    disk = {"read_delay_s": 0.010, "write_delay_s": 0.030}
    with (
        serving(locking="per_key", use_asyncio=True, **disk) as server,
        connected(target_of(server)) as (channel, _),
    ):
        client = Client(channel, server.address, deadline_s=5.0)
        trial = tried(answer, client, _operations(), LIMIT)
    return verdict(trial, len(_operations()), LIMIT)


def _releases_when_sent(client: Client, schedule: Iterator[Operation], in_flight: int) -> None:
    free = threading.Semaphore(in_flight)
    for operation in schedule:
        free.acquire()
        client.start(operation)
        free.release()
    client.wait_until_idle()


def _never_releases(client: Client, schedule: Iterator[Operation], in_flight: int) -> None:
    free = threading.Semaphore(in_flight)
    for operation in schedule:
        free.acquire()
        client.start(operation)
    client.wait_until_idle()


def _releases_when_ok(client: Client, schedule: Iterator[Operation], in_flight: int) -> None:
    free = threading.Semaphore(in_flight)

    def one(operation: Operation) -> None:
        if client.call(operation).status == "OK":
            free.release()

    for operation in schedule:
        free.acquire()
        threading.Thread(target=one, args=(operation,)).start()
    for _ in range(in_flight):
        free.acquire()


def _sends_first(client: Client, schedule: Iterator[Operation], in_flight: int) -> None:
    free = threading.Semaphore(in_flight)
    for operation in schedule:
        client.start(operation, on_reply=free.release)
        free.acquire()
    client.wait_until_idle()


def _one_too_many(client: Client, schedule: Iterator[Operation], in_flight: int) -> None:
    strategies.bounded(client, schedule, in_flight + 1)  # type: ignore[arg-type]


def _one_too_few(client: Client, schedule: Iterator[Operation], in_flight: int) -> None:
    strategies.bounded(client, schedule, in_flight - 1)  # type: ignore[arg-type]


def _does_not_wait(client: Client, schedule: Iterator[Operation], in_flight: int) -> None:
    free = threading.Semaphore(in_flight)
    for operation in schedule:
        free.acquire()
        client.start(operation, on_reply=free.release)


def _in_waves(client: Client, schedule: Iterator[Operation], in_flight: int) -> None:
    for number, operation in enumerate(schedule, start=1):
        client.start(operation)
        if number % in_flight == 0:
            client.wait_until_idle()
    client.wait_until_idle()


BOUNDED = Exercise(
    id="03.bounded",
    title="Hold the limit",
    statement=(
        "Write `my_bounded(client, schedule, in_flight)` without looking up: send every operation "
        "of `schedule` with `client.start(operation, on_reply=...)`, never more than `in_flight` "
        "at once, never fewer than there could be, and return when all are answered. Some "
        "calls will be refused."
    ),
    hints=(
        "A `threading.Semaphore(n)` is a box of n places: `acquire()` takes one, and waits while "
        "the box is empty; `release()` puts one back.",
        "Take a place before each call. `on_reply` is a function without arguments that is "
        "called when the call has ended, well or badly: what should it do?",
        "At the end some calls are still in flight: `client.wait_until_idle()`.",
    ),
    reference=strategies.bounded,
    wrong=(
        WrongAnswer(_releases_when_sent, "not when it has been sent"),
        WrongAnswer(_never_releases, "none is ever given back"),
        WrongAnswer(_releases_when_ok, "a call that fails must give its place back"),
        WrongAnswer(_sends_first, "Take the place, then send"),
        WrongAnswer(_one_too_many, "places does your semaphore begin"),
        WrongAnswer(_one_too_few, "a place stays empty"),
        WrongAnswer(_does_not_wait, "still in flight"),
        WrongAnswer(_in_waves, "in waves"),
        WrongAnswer(strategies.blocking, "`client.call` waits for the answer"),
    ),
    judge=_judge_bounded,
    may_return_none=True,
)


def in_flight_for(
    target_per_s: float, disk_s: float, round_trip_s: float, most_per_s: float
) -> float:
    """Calls in flight that reach the target: Little's law, unless a station binds before."""
    if target_per_s > most_per_s:
        return math.inf
    return math.ceil(target_per_s * (disk_s + round_trip_s))


def _judge_in_flight_for(answer: Any) -> Verdict:
    if (found := answer(1000.0, 0.040, 0.010, math.inf)) != 50:
        return not_yet(_why_not_50(float(found)))
    if (found := answer(510.0, 0.040, 0.0, math.inf)) != 21:
        return not_yet(
            f"510 calls/s of 40 ms each keep 20.4 in flight on average, and you give {found}: "
            "there are no parts of a call, and 20 starve the target."
        )
    if (found := answer(100.0, 0.040, 0.0, 25.0)) != math.inf:
        return not_yet(
            f"behind a lock that serves 25 calls/s you promise 100/s with {found} in flight: "
            "they would only wait. No number is enough: say `math.inf`."
        )
    if (found := answer(20.0, 0.040, 0.0, 25.0)) != 1:
        return not_yet(f"20 calls/s of 40 ms keep 0.8 in flight: one is enough, got {found}.")
    return passed(
        "N = X·W, rounded up, and only below the rate of the slowest station: a semaphore can "
        "fill a server, and it cannot widen it."
    )


def _why_not_50(found: float) -> str:
    if found == 40:
        return "a call is in flight on its way too: 40 cover the disk, and not the round trip."
    if math.isclose(found, 1000.0 / 0.050):
        return "you divide by W. When each call takes longer, are more of them in flight or fewer?"
    return (
        f"1,000 calls/s, each 40 ms on the disk and 10 ms under way, gave {found:g}: "
        "how many are there at any moment?"
    )


IN_FLIGHT_FOR = Exercise(
    id="03.in_flight_for",
    title="How large should the semaphore be?",
    statement=(
        "Write `in_flight_for(target_per_s, disk_s, round_trip_s, most_per_s)`: the smallest "
        "whole number of calls in flight that can reach the target, or `math.inf` when none can. "
        "`most_per_s` is what the slowest station serves, 1/D_max."
    ),
    hints=(
        "Little's law, L = λ·W: which two of the three do you know?",
        "W is all the time a call is in flight: on the disk, and on its way there and back.",
        "Round up with `math.ceil`. And first: is the target below `most_per_s` at all?",
    ),
    reference=in_flight_for,
    wrong=(
        WrongAnswer(lambda x, disk, trip, most: math.ceil(x * disk), "on its way too"),
        WrongAnswer(lambda x, disk, trip, most: round(x * (disk + trip)), "no parts of a call"),
        WrongAnswer(lambda x, disk, trip, most: math.ceil(x * (disk + trip)), "only wait"),
        WrongAnswer(lambda x, disk, trip, most: x / (disk + trip), "divide by W"),
    ),
    judge=_judge_in_flight_for,
)


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
