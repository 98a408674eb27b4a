"""Child processes that cannot outlive their parent.

The measured server, and a client that must not share the notebook's interpreter,
each run in a process of their own. This module starts such a process and, inside
it, ends it when the parent is gone, by whatever way the parent went.

Two signs are watched, because each has a blind spot: end of file on standard input
(missed when some other child inherited the pipe) and the parent's process id
(checked every `POLL_S`, so a little later). Linux's parent-death signal is not used:
it fires when the *thread* that started the child ends, as threads of a notebook do.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import IO, Any

import psutil

POLL_S = 0.2
STOP = "stop"
"""The word by which a parent asks its child to finish."""
ORPHANED = 70
"""Exit status of a process that ended because its parent was gone."""


class Child:
    """A running child process and what it has said on standard error."""

    def __init__(self, popen: "subprocess.Popen[str]", errors: IO[str]) -> None:
        self.popen = popen
        self._errors = errors

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self.popen.pid

    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.popen.poll() is None

    def ended(self, within_s: float) -> int | None:
        """The exit status, waiting up to `within_s` for it; None while it still runs."""
        try:
            return self.popen.wait(within_s)
        except subprocess.TimeoutExpired:
            return None

    def error_text(self) -> str:
        """All that the child has written to standard error so far."""
        self._errors.flush()
        self._errors.seek(0)
        return self._errors.read().strip()

    def first_line(self, timeout_s: float) -> str:
        """The first line on standard output, or "" when the child ended or time ran out."""
        stdout = self.popen.stdout
        assert stdout is not None
        lines: list[str] = []
        reader = threading.Thread(target=lambda: lines.append(stdout.readline()), daemon=True)
        reader.start()
        reader.join(timeout_s)
        return lines[0].strip() if lines else ""

    def ask_to_stop(self) -> None:
        """Ask the child to finish; return at once."""
        self.tell(STOP)

    def tell(self, word: str) -> None:
        """Write a line on the child's standard input; return at once."""
        assert self.popen.stdin is not None
        try:
            self.popen.stdin.write(f"{word}\n")
            self.popen.stdin.flush()
        except (OSError, ValueError):
            pass  # it is gone already

    def stop(self, grace_s: float) -> None:
        """Ask the child to finish, wait `grace_s`, then end it whether it likes it or not."""
        self.ask_to_stop()
        if self.ended(grace_s) is None:
            self.popen.kill()
            self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass  # what was buffered for a dead child cannot be written


@contextmanager
def child(module: str, arguments: Sequence[str], *, grace_s: float = 2.0) -> Iterator[Child]:
    """Run `python -m module arguments` for as long as the block lasts.

    The child has a process group of its own, so that interrupting a notebook cell (which
    signals the kernel's whole group) does not reach it.
    """
    apart: dict[str, Any] = (
        {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
        if sys.platform == "win32"
        else {"start_new_session": True}
    )
    # `with` on a file rather than a pipe: a pipe nobody reads would block the child.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        popen = subprocess.Popen(
            [sys.executable, "-m", module, *arguments, "--end-with-parent", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            **apart,
        )
        started = Child(popen, errors)
        try:
            yield started
        finally:
            _shielded(lambda: started.stop(grace_s))


def _shielded(action: Callable[[], None]) -> None:
    """Finish `action` even if Ctrl-C comes meanwhile; raise the interrupt afterwards."""
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        action()  # Python interrupts the main thread only
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *what: came.append(what))
    try:
        action()
    finally:
        signal.signal(signal.SIGINT, usual)
    if came:
        usual(*came[-1])


def end_with_parent(
    parent_pid: int,
    on_stop: Callable[[], object],
    on_word: Callable[[str], object] = lambda word: None,
) -> None:
    """End this process when its parent goes; call `on_stop` when the parent asks for it.

    Returns at once; two daemon threads watch. `parent_pid` is what the parent said its
    process id is: it may be gone before this process could ask. `on_word` is called with
    every other line that the parent tells.
    """
    threading.Thread(
        target=_watch_input, args=(on_stop, on_word), name="lifeline-input", daemon=True
    ).start()
    threading.Thread(
        target=_watch_parent, args=(parent_pid,), name="lifeline-parent", daemon=True
    ).start()


def _watch_input(on_stop: Callable[[], object], on_word: Callable[[str], object]) -> None:
    # os.read, not sys.stdin: a thread waiting inside a buffered reader holds its lock
    # while the interpreter shuts down, and that is fatal.
    rest = b""
    while said := os.read(0, 1024):
        *lines, rest = (rest + said).split(b"\n")
        for line in lines:
            word = line.decode().strip()
            if word == STOP:
                on_stop()
                return  # a graceful stop is under way; the parent still waits for us
            on_word(word)
    os._exit(ORPHANED)


def _watch_parent(parent_pid: int) -> None:
    while _parent_lives(parent_pid):
        time.sleep(POLL_S)
    os._exit(ORPHANED)


def _parent_lives(parent_pid: int) -> bool:
    if sys.platform == "win32":  # a Windows process keeps the parent id of a dead parent
        return psutil.pid_exists(parent_pid)
    return os.getppid() == parent_pid


def interrupt_main() -> None:
    """Raise `KeyboardInterrupt` in this process's main thread, as Ctrl-C would; from any thread."""
    if sys.platform == "win32":
        signal.raise_signal(signal.SIGINT)
    else:  # to that thread, or it would notice only when what it waits for has come
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def on_signals(action: Callable[[], object]) -> None:
    """Call `action` on Ctrl-C or SIGTERM; a second one ends the process at once."""

    def handle(signum: int, frame: object) -> None:
        for again in (signal.SIGINT, signal.SIGTERM):
            signal.signal(again, signal.SIG_DFL)
        action()

    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, handle)
