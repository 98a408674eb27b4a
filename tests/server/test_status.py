"""counts.py: the server's own count of operations."""

import threading

from kvstore.protocol import CREATE, DELETE, OK
from kvstore.server.counts import Counts


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
