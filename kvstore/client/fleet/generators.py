"""Monitor the client processes of a run from outside.

Several processes wait at a gate until all are ready. When one fails, or after Ctrl-C, all end in
order; no process is left.
"""

import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

import psutil

from kvstore.client.errors import ServerNotReached, WrongServer
from kvstore.client.fleet.parts import READY, opening
from kvstore.client.monitor import OnSample
from kvstore.measure.merge import merge_samples
from kvstore.measure.outcome import Outcome
from kvstore.measure.sampler import Sample
from kvstore.subprocesses import Child

WATCHDOG = 1.08
"""When client or server exceeds the ceiling by this factor, the client is killed from outside."""
LOOK_S = 0.02
END_S = 30.0
"""Seconds after a request to stop in which the processes may save their runs."""
ENDED = "outcome"
"""Name of a generator's last message: the outcome of its run."""
EXIT_STATUS: dict[type[Exception], int] = {ServerNotReached: 3, WrongServer: 4, ValueError: 2}
"""Exit status of `python -m kvstore.client` when the run cannot begin."""


class Generator:
    """One client process, and what it has reported."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.started_s = time.perf_counter()
        self.ready_s: float | None = None
        self.sample: Sample | None = None
        self.is_new = False
        """Whether its latest sample has not been shown yet."""
        self.outcome: Outcome | None = None
        self.error_text = ""
        """Its standard error, once it has ended."""

    def failed(self) -> bool:
        """Return whether it failed: by its reported outcome, or by its exit status.

        Where the server stops answering, each process ends by itself at the deadlines of its calls.
        """
        if self.outcome not in (None, Outcome.COMPLETE, Outcome.SERVER_UNRESPONSIVE):
            return True
        return not self.child.alive() and self.child.popen.returncode != 0


class Generators:
    """The client processes of one run."""

    def __init__(
        self,
        children: Sequence[Child],
        server_pids: Sequence[int] = (),
        *,
        on_sample: OnSample | None = None,
        ceiling_bytes: float = math.inf,
        before_start: Callable[[], object] = lambda: None,
    ) -> None:
        """`before_start` is called when all are ready, before the first call is sent."""
        self.all = [Generator(child) for child in children]
        self.interrupted = False
        self.began = False
        """Whether calls may have been sent: the gate has opened."""
        self.failed_first: Generator | None = None
        self._server_pids = server_pids
        self._on_sample = on_sample
        self._ceiling_bytes = ceiling_bytes
        self._before_all = before_start
        self._end_s = math.inf

    def monitor(self) -> None:
        """Show samples and check the processes until all have ended."""
        with _lines_of(self.all) as lines:
            while self._running() and time.perf_counter() < self._end_s:
                try:
                    self._check_memory()
                    with suppress(Empty):
                        self._receive(*lines.get(timeout=LOOK_S))
                        self._show_sample()
                    self._open_the_gate()
                    self._stop_when_one_failed()
                except KeyboardInterrupt:
                    if self.interrupted:
                        break
                    self.interrupted = True
                    self._stop()
        while not lines.empty():  # the last messages of processes that have ended
            self._receive(*lines.get())
        for generator in self.all:
            generator.error_text = generator.child.error_text().removeprefix("error: ")

    def _running(self) -> bool:
        return any(generator.child.alive() for generator in self.all)

    def _check_memory(self) -> None:
        # Not before the first sample: a process that starts above the ceiling reports it.
        if math.isinf(self._ceiling_bytes) or not any(each.sample for each in self.all):
            return
        watched = [*self._server_pids, *(each.child.pid for each in self.all)]
        if largest_rss_bytes(watched) > WATCHDOG * self._ceiling_bytes:
            for generator in self.all:
                generator.child.popen.kill()

    def _receive(self, generator: Generator, line: str) -> None:
        message: Any = json.loads(line)
        if isinstance(message, list):
            generator.sample, generator.is_new = Sample(*message), True
        elif READY in message:
            generator.ready_s = message[READY]
            if not generator.started_s <= message[READY] <= time.perf_counter():
                raise RuntimeError(
                    "the clocks of two processes differ on this machine, so their calls cannot be"
                    " combined into one run: use processes=1"
                )
        else:
            generator.outcome = Outcome(message[ENDED])

    def _show_sample(self) -> None:
        """Show one combined sample when each running process has a new one."""
        if self._on_sample is None:
            return
        running = [each for each in self.all if each.child.alive()]
        samples = [each.sample for each in self.all if each.sample is not None]
        if samples and all(each.is_new for each in running):
            for each in self.all:
                each.is_new = False
            self._on_sample(merge_samples(samples))

    def _open_the_gate(self) -> None:
        if self.began or any(each.ready_s is None for each in self.all):
            return
        self._before_all()
        self.began = True
        line, _ = opening() if len(self.all) > 1 else opening(in_s=0.0)
        for each in self.all:
            each.child.send_line(line)

    def _stop_when_one_failed(self) -> None:
        if math.isinf(self._end_s):
            self.failed_first = next((each for each in self.all if each.failed()), None)
            if self.failed_first is not None:
                self._stop()

    def _stop(self) -> None:
        self._end_s = time.perf_counter() + END_S
        for generator in self.all:
            if generator.outcome is None:  # else it ends already
                generator.child.request_stop()


def largest_rss_bytes(pids: Sequence[int]) -> int:
    """Return the resident memory of the largest of these processes; 0 when none runs."""
    most = 0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            most = max(most, psutil.Process(pid).memory_info().rss)
    return most


@contextmanager
def _lines_of(
    generators: Sequence[Generator],
) -> Iterator["SimpleQueue[tuple[Generator, str]]"]:
    """Yield a queue of the lines that the processes print."""
    lines: SimpleQueue[tuple[Generator, str]] = SimpleQueue()

    def read(generator: Generator) -> None:
        stdout = generator.child.popen.stdout
        assert stdout is not None
        for line in stdout:
            if line.endswith("\n"):  # not the unfinished line of a killed process
                lines.put((generator, line))

    readers = [
        threading.Thread(target=read, args=(generator,), daemon=True) for generator in generators
    ]
    for reader in readers:
        reader.start()
    yield lines
    for reader in readers:
        reader.join(1.0)


def start_error(text: str, status: int | None) -> Exception:
    """Return the error for a client process that ended without a run."""
    for kind, its_status in EXIT_STATUS.items():
        if status == its_status:
            return kind(text)
    return RuntimeError(
        f"the client's process ended without saving its run (exit status {status}):"
        f" {text or 'it wrote no error'}. If it was killed for its memory, lower the ceiling or"
        " the rate."
    )
