"""counts.py: the server's own count of operations."""

import threading

from kvstore.protocol import CREATE, DELETE, NOT_FOUND, OK, RETRIEVE
from kvstore.server.counts import Counts


def test_operations_are_counted_by_kind_and_status():
    counts = Counts()
    counts.add(CREATE, OK)
    counts.add(RETRIEVE, NOT_FOUND)
    counts.add_columns(bytes([CREATE, DELETE]), bytes([OK, OK]))

    counts.add_columns(b"\x00\x63", b"\x03\x03")

    assert {
        "create/OK": 2, "retrieve/NOT_FOUND": 1, "delete/OK": 1,
        "kind 0/INVALID_ARGUMENT": 1, "kind 99/INVALID_ARGUMENT": 1,
    } == counts.by_name()  # fmt: skip


def test_threads_that_count_at_once_lose_nothing():
    counts = Counts()
    together = threading.Barrier(6)

    def count() -> None:
        together.wait()
        for _ in range(500):
            counts.add(CREATE, OK)
            counts.add_columns(bytes([DELETE] * 2), bytes(2))

    threads = [threading.Thread(target=count) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {"create/OK": 3_000, "delete/OK": 6_000} == counts.by_name()
