"""What the learner's server needs for a run: a disk, values, and calls of its keys."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from google.protobuf.message import Message

from kvstore.client.workload import MethodCalls
from kvstore.course.lessons.lesson_04.exercises_server import serve
from kvstore.v1.kvstore_pb2 import RetrieveRequest, UpdateRequest

__all__ = ["VALUES", "Disk", "calls", "serve"]

VALUES: Final = {b"key %d" % number: b"value" for number in range(100)}
"""What the server holds."""


@dataclass(frozen=True)
class Disk:
    """A disk that serves any number of calls at once: each takes so many seconds."""

    read_s: float
    write_s: float

    def read(self, key: bytes) -> None:
        """Return when the disk has read."""
        time.sleep(self.read_s)

    def write(self, key: bytes) -> None:
        """Return when the disk has written."""
        time.sleep(self.write_s)


def calls(reads: float, writes: float = 0.0) -> MethodCalls:
    """Return reads and writes of the keys in turn, in these proportions; `reads` is above 0."""
    asked = [RetrieveRequest(key=key) for key in VALUES]
    if not writes:
        return _unary("Retrieve", asked)
    updates = _unary("Update", [UpdateRequest(key=key, value=b"new") for key in VALUES])
    return replace(
        _unary("Retrieve", asked), weight=reads, others=(replace(updates, weight=writes),)
    )


def _unary(method: str, requests: Sequence[Message]) -> MethodCalls:
    return MethodCalls(
        method=f"kvstore.v1.KeyValueService/{method}",
        shape="unary_unary",
        requests=tuple((each.SerializeToString(),) for each in requests),
    )
