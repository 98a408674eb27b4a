"""Child processes that cannot outlive their parent.

The measured server, and a client that must not share the notebook's interpreter, run in processes
of their own. This module starts such a process; the module `parent` runs in the child, and ends it
when the parent has ended in any way.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any

from kvstore.parent import STOP

START_S = 20.0
"""Seconds in which a process must be able to start a program."""


class Child:
    """A running child process and its output."""

    def __init__(self, popen: "subprocess.Popen[str]", errors: IO[str]) -> None:
        self.popen = popen
        self._errors = errors

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self.popen.pid

    def alive(self) -> bool:
        """Return whether the process still runs."""
        return self.popen.poll() is None

    def ended(self, within_s: float) -> int | None:
        """Return the exit status after up to `within_s` seconds; None if it still runs."""
        try:
            return self.popen.wait(within_s)
        except subprocess.TimeoutExpired:
            return None

    def error_text(self) -> str:
        """Return what the child has written to standard error so far."""
        self._errors.flush()
        self._errors.seek(0)
        return self._errors.read().strip()

    def first_line(self, timeout_s: float) -> str:
        """Return the first line of standard output; "" if the child ends or time runs out."""
        stdout = self.popen.stdout
        assert stdout is not None
        lines: list[str] = []
        reader = threading.Thread(target=lambda: lines.append(stdout.readline()), daemon=True)
        reader.start()
        reader.join(timeout_s)
        return lines[0].strip() if lines else ""

    def request_stop(self) -> None:
        """Request the child to stop; return at once."""
        self.send_line(STOP)

    def send_line(self, line: str) -> None:
        """Write a line on the child's standard input; return at once."""
        assert self.popen.stdin is not None
        try:
            self.popen.stdin.write(f"{line}\n")
            self.popen.stdin.flush()
        except (OSError, ValueError):
            pass  # it has ended already

    def stop(self, grace_s: float) -> None:
        """Request the child to stop, wait `grace_s` seconds, then kill it."""
        self.request_stop()
        if self.ended(grace_s) is None:
            self.popen.kill()
            self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass  # what is buffered for an ended child cannot be written


@contextmanager
def child(
    module: str,
    arguments: Sequence[str],
    *,
    grace_s: float = 2.0,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Child]:
    """Run `python -m module arguments` while the block lasts.

    It has the environment variables of this process, or those given.

    The child ends with this process, even while it still imports its module. It has its own process
    group, so an interrupt of a notebook cell, which is sent to the kernel's process group, does not
    reach it.
    """
    command = _command("module", module, *arguments)
    with process(command, grace_s=grace_s, environment=environment) as started:
        yield started


@contextmanager
def process(
    command: Sequence[str], *, grace_s: float = 2.0, environment: Mapping[str, str] | None = None
) -> Iterator[Child]:
    """Run a command while the block lasts. It has to end at the end of its standard input.

    Otherwise as `child`, which starts modules of this package.
    """
    own_group: dict[str, Any] = (
        {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
        if sys.platform == "win32"
        else {"start_new_session": True}
    )
    # A file, not a pipe: a pipe that is not read would block the child.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        popen = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            **own_group,
        )
        started = Child(popen, errors)
        try:
            yield started
        finally:
            _shielded(lambda: started.stop(grace_s))


class Program:
    """A running program that others wrote, and the process of ours that ends it."""

    def __init__(self, pid: int, keeper: Child) -> None:
        self.pid = pid
        self._keeper = keeper

    def alive(self) -> bool:
        """Return whether the program still runs."""
        return self._keeper.alive()

    def signal(self, number: int) -> None:
        """Send a signal to the program, if it still runs."""
        if self.alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass  # it has ended meanwhile

    def ended(self, within_s: float) -> int | None:
        """Return the exit status after up to `within_s` seconds; None if it still runs."""
        return self._keeper.ended(within_s)

    def error_text(self) -> str:
        """Return what the program has written to standard error so far."""
        return self._keeper.error_text()


@contextmanager
def program(command: Sequence[str]) -> Iterator[Program]:
    """Run a program while the block lasts. It ends with this process, as a child of `child` does.

    Raises `OSError` with the program's error output when it cannot be started.
    """
    with process(_command("program", *command)) as keeper:
        pid = keeper.first_line(START_S)
        if not pid:
            raise OSError(f"{command[0]} could not be started: {keeper.error_text()}")
        yield Program(int(pid), keeper)


@contextmanager
def private_folder(prefix: str) -> Iterator[Path]:
    """Make a temporary folder for the block. A child deletes it if this process ends before that.

    A process that is killed deletes nothing, and nothing else would delete the folder of a database
    or the token of a run.
    """
    with tempfile.TemporaryDirectory(prefix=prefix) as made, process(_command("folder", made)):
        yield Path(made)


def _command(kind: str, *arguments: str) -> list[str]:
    """Return the command of a process that ends with this one; `parent` lists the kinds."""
    return [sys.executable, "-m", "kvstore.parent", str(os.getpid()), kind, *arguments]


def _shielded(action: Callable[[], None]) -> None:
    """Finish `action` even if Ctrl-C comes meanwhile; raise the interrupt afterwards."""
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        action()  # Python interrupts the main thread only
        return
    received: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *signal_and_frame: received.append(signal_and_frame))
    try:
        action()
    finally:
        signal.signal(signal.SIGINT, usual)
    if received:
        usual(*received[-1])


def interrupt_main() -> None:
    """Raise `KeyboardInterrupt` in this process's main thread, as Ctrl-C would; from any thread."""
    if sys.platform == "win32":
        signal.raise_signal(signal.SIGINT)
    else:  # sent to that thread: else its current wait would not end
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def on_signals(action: Callable[[], object]) -> None:
    """Call `action` on Ctrl-C or SIGTERM; a second one ends the process at once."""

    def handle(signum: int, frame: object) -> None:
        for again in (signal.SIGINT, signal.SIGTERM):
            signal.signal(again, signal.SIG_DFL)
        action()

    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, handle)
