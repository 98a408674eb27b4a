"""The thread pool, and how long each call waited for one of its threads."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class MeasuredPool(ThreadPoolExecutor):
    """A thread pool whose tasks can ask how long they waited for their thread."""

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(threads, thread_name_prefix=name)
        self._here = threading.local()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Queue a task; its wait runs from now until a thread takes it."""
        submitted_s = time.perf_counter()

        def begin() -> Any:
            self._here.waited_s = time.perf_counter() - submitted_s
            return fn(*args, **kwargs)

        return super().submit(begin)

    def waited_s(self) -> float:
        """Seconds the task on this thread waited in the queue before it began."""
        return float(getattr(self._here, "waited_s", 0.0))
