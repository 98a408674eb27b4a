"""pool.py: a task knows how long it waited for its thread."""

import threading

from kvstore.server.pool import MeasuredPool


def test_a_task_that_waits_for_a_thread_knows_it():
    """The second task cannot begin before the first is let go."""
    with MeasuredPool(1, "test") as pool:
        let_go = threading.Event()
        first = pool.submit(lambda: (pool.waited_s(), let_go.wait(10))[0])
        second = pool.submit(pool.waited_s)
        let_go.wait(0.05)
        let_go.set()

        assert first.result() < second.result()
        assert 0.04 < second.result()


def test_a_thread_that_is_not_of_the_pool_waited_for_nothing():
    with MeasuredPool(1, "test") as pool:
        assert 0.0 == pool.waited_s()


def test_arguments_and_errors_pass_through():
    with MeasuredPool(1, "test") as pool:
        assert 7 == pool.submit(pow, 2, 3, mod=None).result() - 1
        assert isinstance(pool.submit(int, "x").exception(), ValueError)
