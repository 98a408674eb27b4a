"""What a process must not leave behind: threads, sockets and processes."""

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

POLLER = "(_poll_wrapper)"
"""How the name ends of grpc.aio's thread, of which a process has one. It ends some time after the
last channel was collected, and the next channel uses it again, so it is no leak."""
LEAVE_S = 20.0
"""Seconds in which threads, sockets and processes have to end."""

_Held = tuple[set[int], set[tuple[str, str, int]], set[int]]


@contextmanager
def nothing_left(wrongs: list[str]) -> Iterator[None]:
    """Add to `wrongs` every thread, socket and process that the block leaves in this process."""
    before = _held()
    try:
        yield
    finally:
        end_s = time.perf_counter() + LEAVE_S
        while (left := _left(before)) and time.perf_counter() < end_s:
            gc.collect()  # grpc.aio ends its thread when its last channel is collected
            time.sleep(0.02)
        wrongs += left


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
