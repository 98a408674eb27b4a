"""Lesson 03: a sender of one's own that holds a limit on calls in flight."""

import threading
from collections.abc import Iterator
from typing import Any

import grpc

from kvstore.client import strategies, workload
from kvstore.client.channel import connected, target_of
from kvstore.client.client import Client
from kvstore.client.workload import Operation
from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer
from kvstore.course.exercises.trials import WAVES, Trial, tried, verdict
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
    trial = _trial(answer)
    if trial.idle >= WAVES:  # so it looks, too, when the machine stood still: seldom twice
        trial = _trial(answer)
    return verdict(trial, len(_operations()), LIMIT)


def _trial(answer: Any) -> Trial:
    disk = {"read_delay_s": 0.010, "write_delay_s": 0.030}
    with (
        serving(locking="per_key", use_asyncio=True, **disk) as server,
        connected(target_of(server)) as (channel, _),
    ):
        client = Client(channel, server.address, deadline_s=5.0)
        return tried(answer, client, _operations(), LIMIT)


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
    free = threading.Semaphore(in_flight + 1)
    for operation in schedule:
        free.acquire()
        client.start(operation, on_reply=free.release)
    client.wait_until_idle()


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
