"""Looking on at the client processes of a run, from outside: one of them, or several at once.

Several wait at a gate until all are ready. When one fails, or Ctrl-C comes, all are asked to
end in order; none is left behind.
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

from kvstore.client.channel import ServerNotReached, WrongServer
from kvstore.client.gate import READY, opening
from kvstore.client.watch import OnSample
from kvstore.lifeline import Child
from kvstore.measure.merge import merge_samples
from kvstore.measure.sampler import Sample

WATCHDOG = 1.08
"""When client or server outgrows the ceiling by this factor, the client is ended from outside."""
LOOK_S = 0.02
END_S = 30.0
"""Seconds the processes get to end their calls and save their runs once asked to."""
ENDED = "outcome"
"""What a generator tells at its end: the outcome of its run."""
EXIT_STATUS: dict[type[Exception], int] = {ServerNotReached: 3, WrongServer: 4, ValueError: 2}
"""How `python -m kvstore.client` ends when the run cannot begin."""


class Generator:
    """One client process, and what it has told so far."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.started_s = time.perf_counter()
        self.ready_s: float | None = None
        self.sample: Sample | None = None
        self.is_news = False
        """Whether its latest sample has not been passed on yet."""
        self.outcome: str | None = None
        self.said = ""
        """What it wrote to standard error, once it has ended."""

    def failed(self) -> bool:
        """Whether it has ended, or says that it does, in another way than it should."""
        if self.outcome not in (None, "complete"):
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
        before_all: Callable[[], object] = lambda: None,
    ) -> None:
        """`before_all` is called once all are ready, before the first call is sent."""
        self.all = [Generator(child) for child in children]
        self.interrupted = False
        self.began = False
        """Whether calls may have been sent: all begin when the gate opens."""
        self.failed_first: Generator | None = None
        self._server_pids = server_pids
        self._on_sample = on_sample
        self._ceiling_bytes = ceiling_bytes
        self._before_all = before_all
        self._end_s = math.inf

    def look_on(self) -> None:
        """Pass samples on until every process has ended."""
        with _lines_of(self.all) as lines:
            while self._running() and time.perf_counter() < self._end_s:
                try:
                    self._guard()
                    with suppress(Empty):
                        self._hear(*lines.get(timeout=LOOK_S))
                        self._pass_on()
                    self._open_the_gate()
                    self._stop_when_one_failed()
                except KeyboardInterrupt:
                    if self.interrupted:
                        break
                    self.interrupted = True
                    self._stop()
        while not lines.empty():  # the last words of those who have ended
            self._hear(*lines.get())
        for generator in self.all:
            generator.said = generator.child.error_text().removeprefix("error: ")

    def _running(self) -> bool:
        return any(generator.child.alive() for generator in self.all)

    def _guard(self) -> None:
        # Not before the first sample: a process that starts above the ceiling says so.
        if math.isinf(self._ceiling_bytes) or not any(each.sample for each in self.all):
            return
        watched = [*self._server_pids, *(each.child.pid for each in self.all)]
        if most_bytes(watched) > WATCHDOG * self._ceiling_bytes:
            for generator in self.all:
                generator.child.popen.kill()

    def _hear(self, generator: Generator, line: str) -> None:
        told: Any = json.loads(line)
        if isinstance(told, list):
            generator.sample, generator.is_news = Sample(*told), True
        elif READY in told:
            generator.ready_s = told[READY]
            if not generator.started_s <= told[READY] <= time.perf_counter():
                raise RuntimeError(
                    "the clocks of two processes disagree on this machine, so their calls cannot"
                    " be laid into one run: use processes=1"
                )
        else:
            generator.outcome = told[ENDED]

    def _pass_on(self) -> None:
        """Show one sample of all together, once each that runs has something new to tell."""
        if self._on_sample is None:
            return
        running = [each for each in self.all if each.child.alive()]
        samples = [each.sample for each in self.all if each.sample is not None]
        if samples and all(each.is_news for each in running):
            for each in self.all:
                each.is_news = False
            self._on_sample(merge_samples(samples))

    def _open_the_gate(self) -> None:
        if self.began or any(each.ready_s is None for each in self.all):
            return
        self._before_all()
        self.began = True
        word, _ = opening() if len(self.all) > 1 else opening(in_s=0.0)
        for each in self.all:
            each.child.tell(word)

    def _stop_when_one_failed(self) -> None:
        if math.isinf(self._end_s):
            self.failed_first = next((each for each in self.all if each.failed()), None)
            if self.failed_first is not None:
                self._stop()

    def _stop(self) -> None:
        self._end_s = time.perf_counter() + END_S
        for generator in self.all:
            if generator.outcome is None:  # else it is ending already
                generator.child.ask_to_stop()


def most_bytes(pids: Sequence[int]) -> int:
    """Resident memory of the largest of these processes, 0 when none runs any more."""
    most = 0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            most = max(most, psutil.Process(pid).memory_info().rss)
    return most


@contextmanager
def _lines_of(
    generators: Sequence[Generator],
) -> Iterator["SimpleQueue[tuple[Generator, str]]"]:
    """What the processes print, line by line, as it comes."""
    lines: SimpleQueue[tuple[Generator, str]] = SimpleQueue()

    def read(generator: Generator) -> None:
        stdout = generator.child.popen.stdout
        assert stdout is not None
        for line in stdout:
            if line.endswith("\n"):  # not what a process was about to say when it was killed
                lines.put((generator, line))

    readers = [
        threading.Thread(target=read, args=(generator,), daemon=True) for generator in generators
    ]
    for reader in readers:
        reader.start()
    yield lines
    for reader in readers:
        reader.join(1.0)


def not_begun(said: str, status: int | None) -> Exception:
    """The error for a client process that said this, ended so, and left no run behind."""
    for kind, its_status in EXIT_STATUS.items():
        if status == its_status:
            return kind(said)
    return RuntimeError(
        f"the client's process ended without saving its run (exit status {status}):"
        f" {said or 'it said nothing'}. If it was ended for its memory, lower the ceiling or"
        " the rate."
    )
