"""The store of lesson 03: no call holds the lock while the disk works."""

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc

from kvstore.course.exercises import Verdict, judges, not_yet, passed
from kvstore.course.exercises.puppet import served, wait_until
from kvstore.course.exercises.server_trials import DEADLINE_S, WatchedDisk
from kvstore.course.lessons import words
from kvstore.server.hosted import replace_in_code, sleeping_with
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

say = words("03")

AT_ONCE: Final = 6
"""So many calls of one kind are made at the same time, each of a key of its own."""
METHODS: Final = ("Create", "Retrieve", "Update", "Delete")


@judges("03.store")
def _judge_store(answer: Any) -> Verdict:
    if not isinstance(answer, type) or not all(hasattr(answer, name) for name in METHODS):
        if callable(answer):
            answer()  # it may still have to be written
        return not_yet(say("no_store", answer=answer))
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
    return passed(say("passed_store", at_once=AT_ONCE))


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
            return say("another_status", method=method, key=key, status=status, wanted=wanted)
        if method == "Retrieve" and wanted == "OK" and call.result().value != b"new":
            return say("another_value", key=key, value=call.result().value)
        if wanted == "OK" and disk.reads.total() != before + 1:
            times = disk.reads.total() - before
            return say("not_one_sleep", method=method, times=times)
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
            return say("sleeps_under_the_lock", at_once=AT_ONCE, method=method, asleep=asleep)
        if ends != {"OK"}:
            return say("failed_together", at_once=AT_ONCE, method=method, ends=ends - {"OK"})
    return ""


def _two_creates(stub: Any, disk: WatchedDisk) -> str:
    """Two Creates of one key, both at the disk: one of them comes too late."""
    with disk.shut("read"):
        calls = [_begin(stub, "Create", b"of two") for _ in range(2)]
        wait_until(lambda: disk.busy() >= 2)
    ends = sorted(_end(call) for call in calls)
    if ends != ["ALREADY_EXISTS", "OK"]:
        return say("two_creates", first=ends[0], second=ends[1])
    return ""
