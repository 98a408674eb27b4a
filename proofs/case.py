"""The result of one case of a prover, and what a process must not leave behind."""

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Case:
    """One case: its name, and what was wrong."""

    name: str
    wrong: str = ""
    """What was expected and what came; empty if all was as expected."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that the summary line shows, such as "kills: 1,000"."""

    name: str
    value: object


@dataclass(frozen=True, slots=True)
class Skipped:
    """A part that cannot run here, and why."""

    why: str


POLLER = "(_poll_wrapper)"
"""How the name ends of grpc.aio's thread, of which a process has one. It ends some time after the
last channel was collected, and the next channel uses it again, so it is no leak."""

LEAVE_S = 5.0
"""Seconds in which threads, sockets and processes have to end."""


@contextmanager
def nothing_left(wrongs: list[str], within_s: float = LEAVE_S) -> Iterator[None]:
    """Add to `wrongs` every thread, socket and process that the block leaves in this process."""
    before = _held()
    try:
        yield
    finally:
        end_s = time.perf_counter() + within_s
        while (left := _left(before)) and time.perf_counter() < end_s:
            gc.collect()  # grpc.aio ends its thread when its last channel is collected
            time.sleep(0.02)
        wrongs += left


_Held = tuple[set[int], set[tuple[str, str, int]], set[int]]


def _held() -> _Held:
    process = psutil.Process()
    threads = {thread.ident or 0 for thread in threading.enumerate()}
    sockets = {
        (str(each.laddr), str(each.raddr), each.fd) for each in process.net_connections("tcp")
    }
    return threads, sockets, {child.pid for child in process.children(recursive=True)}


def _left(before: _Held) -> list[str]:
    threads, sockets, children = _held()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [
        *(
            f"left the thread {names[ident]}"
            for ident in threads - before[0]
            if ident in names and not names[ident].endswith(POLLER)
        ),
        *(f"left a socket {local} to {peer}" for local, peer, _ in sockets - before[1]),
        *(f"left the process {pid}" for pid in children - before[2]),
    ]
