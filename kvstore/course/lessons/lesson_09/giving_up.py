"""What a method that gives up does under load: lesson 09 shows these beside the learner's."""

import threading
import time
from collections.abc import Callable
from itertools import takewhile
from typing import Any, NamedTuple

import grpc

from kvstore.client import pacing
from kvstore.course.lessons.lesson_09.exercises_server import running
from kvstore.v1.kvstore_pb2 import RetrieveResponse
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceServicer

THREADS, PIECES, PIECE_S, CALLER_WAITS_S = 8, 10, 0.005, 0.250


class PieceDisk:
    """A disk of values in pieces, which notes every piece that is read."""

    def __init__(self, pieces: int, piece_s: float) -> None:
        self.pieces, self.piece_s = pieces, piece_s
        self.read_pieces: list[tuple[bytes, int]] = []
        self.lasts_s = 0.0
        """So long the next read takes, and the reads after it nothing."""
        self._lock = threading.Lock()

    def read(self, key: bytes, number: int) -> bytes:
        """Return one piece, counted from 0."""
        if not 0 <= number < self.pieces:
            raise IndexError(f"there are pieces 0 to {self.pieces - 1}, got {number}")
        with self._lock:
            self.read_pieces.append((key, number))
            lasts_s, self.lasts_s = self.lasts_s, 0.0
        time.sleep(lasts_s)
        return key + b"/%d " % number

    def value(self, key: bytes) -> bytes:
        """Return all pieces of a key as one value."""
        return b"".join(key + b"/%d " % number for number in range(self.pieces))


class OfPieces(KeyValueServiceServicer):
    """A server of values in pieces."""

    def __init__(self, disk: PieceDisk) -> None:
        self.disk = disk


class NeverLooks(OfPieces):
    """Reads all pieces of every call that it begins."""

    def Retrieve(self, request: Any, context: Any) -> RetrieveResponse:
        """Return all pieces, however late it is."""
        pieces = [self.disk.read(request.key, number) for number in range(self.disk.pieces)]
        return RetrieveResponse(value=b"".join(pieces))


class LooksAhead(OfPieces):
    """Begins no piece unless the pieces that are still missing can all be read in time."""

    def Retrieve(self, request: Any, context: Any) -> RetrieveResponse:
        """Return all pieces; end with DEADLINE_EXCEEDED where the rest would come too late."""
        value = b""
        for number in range(self.disk.pieces):
            missing_s = (self.disk.pieces - number) * self.disk.piece_s
            if context.time_remaining() < missing_s:
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the rest would come too late")
            value += self.disk.read(request.key, number)
        return RetrieveResponse(value=value)


class UnderLoad(NamedTuple):
    """What a method reached while twice as many calls came as 8 threads can answer."""

    sent: int
    in_time: int
    pieces: int
    pieces_in_vain: int
    """Pieces that were read for calls that did not end OK."""

    def __str__(self) -> str:
        return (
            f"{self.in_time:,} of {self.sent:,} calls in time; {self.pieces_in_vain:,} of"
            f" {self.pieces:,} pieces were read in vain"
        )


class _SlowDisk(PieceDisk):
    """A disk on which each piece takes its time."""

    def read(self, key: bytes, number: int) -> bytes:
        time.sleep(self.piece_s)
        return super().read(key, number)


def under_load(reader: Callable[[Any], Any], *, for_s: float = 2.0) -> UnderLoad:
    """Serve with the learner's method, send twice what its threads can answer, and count."""
    disk = _SlowDisk(PIECES, PIECE_S)
    rate_per_s = 2 * THREADS / (PIECES * PIECE_S)
    due = list(takewhile(lambda due_s: due_s < for_s, pacing.poisson(rate_per_s, seed=8)))
    with running(reader(disk), THREADS) as trial:
        calls, began_s = [], time.perf_counter()
        for number, due_s in enumerate(due):
            time.sleep(max(0.0, began_s + due_s - time.perf_counter()))
            calls.append(trial.begin(b"%d" % number, deadline_s=CALLER_WAITS_S))
        in_time = {number for number, call in enumerate(calls) if trial.end_of(call) == "OK"}
    in_vain = sum(int(key) not in in_time for key, _ in disk.read_pieces)
    return UnderLoad(len(calls), len(in_time), len(disk.read_pieces), in_vain)
