"""A request that asks several servers at once, and is answered when the slowest of them has."""

import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

import grpc
import numpy as np
import numpy.typing as npt

from kvstore.client.channel import connected, target_of
from kvstore.server import Server, serving
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

DEADLINE_S: Final = 10.0
"""No answer is waited for longer; a request that lacks one counts as slow."""

RHYTHM_S, APART = 0.5, 0.07
"""Seconds from stall to stall of the first server; each further one's are so much longer."""


@dataclass(frozen=True)
class Asked:
    """How long each server took for each request, in seconds from when the request was due."""

    answer_s: npt.NDArray[np.float64]
    """One row for each request, one column for each server; infinite where no answer came."""

    @property
    def requests(self) -> int:
        """How many requests were sent."""
        return len(self.answer_s)

    def residence_s(self, servers: int) -> npt.NDArray[np.float64]:
        """Seconds until all of so many servers had answered.

        Which of them does not matter, so each request counts once for every run of neighbours
        in the circle: 1 and 2, 2 and 3, ..., the last and 1.
        """
        count = self.answer_s.shape[1]
        if not 1 <= servers <= count:
            raise ValueError(f"servers must be from 1 to {count}, got {servers}")
        starts = range(count if servers < count else 1)
        circles = [[(start + n) % count for n in range(servers)] for start in starts]
        return np.concatenate([self.answer_s[:, each].max(axis=1) for each in circles])

    def slow_share(self, servers: int, longer_than_s: float) -> float:
        """The share of the requests to so many servers that took longer than this."""
        return float(np.mean(self.residence_s(servers) > longer_than_s))


@contextmanager
def stalling(
    servers: int, *, slow_share: float, slow_s: float, disk_s: float
) -> Iterator[list[Server]]:
    """So many servers, whose disks stand still now and then, each in a rhythm of its own.

    This share of the answers takes longer than `slow_s` seconds: those that come in the part
    of a stall that is still so long. An answer takes `disk_s` otherwise.
    """
    quick = {"use_asyncio": True, "locking": "per_key", "write_delay_s": 0, "read_delay_s": disk_s}
    with ExitStack() as running:
        yield [
            running.enter_context(
                serving(
                    **quick,
                    stall_s=slow_share * every_s + slow_s - disk_s,
                    stall_every_s=every_s,
                )
            )
            for every_s in (RHYTHM_S * (1 + APART * number) for number in range(servers))
        ]


def ask_all(servers: Sequence[object], due_times: Iterable[float], *, duration_s: float) -> Asked:
    """Ask every server at each due time, whether or not the earlier ones have answered.

    Due times are seconds from the start; those from `duration_s` on are left out. Raises
    `ServerNotReached` and `WrongServer` as every client does.
    """
    key = secrets.token_bytes(8)
    due_s = [*_before(due_times, duration_s)]
    answer_s = np.full((len(due_s), len(servers)), np.inf)
    with ExitStack() as open_channels:
        stubs = []
        for server in servers:
            channel, _ = open_channels.enter_context(connected(target_of(server)))
            stubs.append(kvstore_pb2_grpc.KeyValueServiceStub(channel))
            stubs[-1].Create(pb.CreateRequest(key=key, value=b"value"), timeout=DEADLINE_S)
        waiting, began_s = _Waiting(), time.perf_counter()
        for number, due in enumerate(due_s):
            time.sleep(max(0.0, began_s + due - time.perf_counter()))
            for place, stub in enumerate(stubs):
                call = stub.Retrieve.future(pb.RetrieveRequest(key=key), timeout=DEADLINE_S)

                def done(call: grpc.Future, number: int = number, place: int = place) -> None:
                    if not call.cancelled() and call.exception() is None:
                        passed_s = time.perf_counter() - began_s
                        answer_s[number, place] = passed_s - due_s[number]
                    waiting.less()

                waiting.more()
                call.add_done_callback(done)
        waiting.for_none()
    return Asked(answer_s)


class _Waiting:
    """How many answers are still to come: their callbacks run in gRPC's own threads."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def more(self) -> None:
        with self._changed:
            self._count += 1

    def less(self) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def for_none(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._count == 0, timeout=2 * DEADLINE_S)


def _before(times_s: Iterable[float], end_s: float) -> Iterable[float]:
    for at_s in times_s:
        if at_s >= end_s:
            return
        yield at_s
