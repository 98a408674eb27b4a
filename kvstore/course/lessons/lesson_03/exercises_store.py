"""The store of lesson 03: no call holds the lock while the disk works."""

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc

from kvstore.course.exercises import Verdict, judges, not_yet, passed
from kvstore.course.exercises.puppet import served, wait_until
from kvstore.course.exercises.server_trials import DEADLINE_S, WatchedDisk
from kvstore.server.hosted import replace_in_code, sleeping_with
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

AT_ONCE: Final = 6
"""So many calls of one kind are made at the same time, each of a key of its own."""
METHODS: Final = ("Create", "Retrieve", "Update", "Delete")


@judges("03.store")
def _judge_store(answer: Any) -> Verdict:
    if not isinstance(answer, type) or not all(hasattr(answer, name) for name in METHODS):
        if callable(answer):
            answer()  # it may still have to be written
        return not_yet(f"give the class `Store` with its four methods, got {answer!r:.80}.")
    disk = WatchedDisk()
    logging.getLogger("grpc").setLevel(logging.CRITICAL)  # an error of a method is in its status
    undo = replace_in_code(answer, sleeping_with(lambda seconds: disk.read(b"for a key")))
    try:
        with (
            served(answer(), ThreadPoolExecutor(4 * AT_ONCE)) as address,
            grpc.insecure_channel(address) as channel,
        ):
            stub = KeyValueServiceStub(channel)
            problem = _answers(stub, disk) or _at_the_disk(stub, disk) or _two_creates(stub, disk)
    finally:
        undo()
    if problem:
        return not_yet(problem)
    return passed(
        f"{AT_ONCE} calls of each kind were at the disk at once, and the store answered as before."
        " Two Creates of one key: one was OK."
    )


def _request(method: str, key: bytes) -> Any:
    kind = getattr(pb, f"{method}Request")
    return kind(key=key, value=b"new") if method in ("Create", "Update") else kind(key=key)


def _begin(stub: Any, method: str, key: bytes) -> Any:
    return getattr(stub, method).future(_request(method, key), timeout=DEADLINE_S)


def _end(call: Any) -> str:
    call.exception()
    status: grpc.StatusCode = call.code()
    detail = f" ({call.details()})" if status is grpc.StatusCode.UNKNOWN else ""
    return f"{status.name}{detail}"


def _answers(stub: Any, disk: WatchedDisk) -> str:
    """One call after the other: statuses, values, and one sleep in each call that is OK."""
    for method, key, wanted in (
        ("Retrieve", b"a", "NOT_FOUND"),
        ("Update", b"a", "NOT_FOUND"),
        ("Create", b"a", "OK"),
        ("Create", b"a", "ALREADY_EXISTS"),
        ("Retrieve", b"a", "OK"),
        ("Update", b"a", "OK"),
        ("Create", b"", "OK"),
        ("Retrieve", b"", "OK"),
        ("Delete", b"a", "OK"),
        ("Retrieve", b"a", "NOT_FOUND"),
        ("Delete", b"a", "OK"),
        ("Create", b"a", "OK"),
    ):
        before = disk.reads.total()
        call = _begin(stub, method, key)
        if (status := _end(call)) != wanted:
            return (
                f"{method} of {key!r} ended with {status}, and with the lock around everything it"
                f" was {wanted}. Move the sleep, and change nothing else."
            )
        if method == "Retrieve" and wanted == "OK" and call.result().value != b"new":
            return f"Retrieve of {key!r} returned {call.result().value!r}, and b'new' was stored."
        if wanted == "OK" and disk.reads.total() != before + 1:
            times = disk.reads.total() - before
            return f"a {method} must use the disk once: it called `time.sleep` {times} times."
    return ""


def _at_the_disk(stub: Any, disk: WatchedDisk) -> str:
    """Calls of one kind at once, each of its own key: all of them must sleep together."""
    keys = [b"key %d" % number for number in range(AT_ONCE)]
    for method in METHODS:
        with disk.shut("read"):
            calls = [_begin(stub, method, key) for key in keys]
            together = wait_until(lambda: disk.busy() >= AT_ONCE)
            asleep = disk.busy()
        ends = {_end(call) for call in calls}
        if not together:
            return (
                f"{AT_ONCE} calls of {method} at once, and {asleep} at the disk: the others wait"
                f" for your lock. In {method}, `time.sleep` belongs before `with self.lock`."
            )
        if ends != {"OK"}:
            return f"of {AT_ONCE} calls of {method} at once, some ended with {ends - {'OK'}}."
    return ""


def _two_creates(stub: Any, disk: WatchedDisk) -> str:
    """Two Creates of one key, both at the disk: one of them comes too late."""
    with disk.shut("read"):
        calls = [_begin(stub, "Create", b"of two") for _ in range(2)]
        wait_until(lambda: disk.busy() >= 2)
    ends = sorted(_end(call) for call in calls)
    if ends != ["ALREADY_EXISTS", "OK"]:
        return (
            f"two Creates of one key were at the disk together, and they ended with {ends[0]} and"
            f" {ends[1]}: one must be OK and the other ALREADY_EXISTS. Look whether the key is"
            " there after the sleep, with the lock held."
        )
    return ""
