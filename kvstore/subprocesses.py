"""Child processes that cannot outlive their parent: the parent's side, and the child's.

The measured server, and a client that must not share the notebook's interpreter, run in processes
of their own. `child`, `program` and `private_folder` start such a process from this module:

    python -m kvstore.subprocesses PID module MODULE ...     run a module of ours
    python -m kvstore.subprocesses PID program COMMAND ...   run a program that others wrote
    python -m kvstore.subprocesses PID folder FOLDER         delete a folder when the parent ended

PID is the process id of the parent. Two signs of its end are monitored, because each can be missed:
end of file on standard input (not seen when another child inherited the pipe) and the parent's
process id (checked every `POLL_S` seconds, so a little later). Linux's parent-death signal is not
used: it fires when the *thread* that started the child ends, as threads of a notebook do.

Monitoring starts before the child's own module is imported: imports of grpc and numpy take seconds
on a busy machine, and the parent may be killed meanwhile. So this module imports little, and only
from the standard library.
"""

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, Any

START_S = 20.0
"""Seconds in which a process must be able to start a program."""
OWNER = "COURSE_OWNER"
"""Environment variable of programs that end with the folder that it names: see `programs_of`."""
STOP = "stop"
"""The message with which a parent stops its child."""


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
        """Request the child to stop, on its standard input; return at once."""
        assert self.popen.stdin is not None
        try:
            self.popen.stdin.write(f"{STOP}\n")
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
) -> Iterator[Child]:
    """Run `python -m module arguments` while the block lasts.

    It ends with this process, even while it still imports its module. Otherwise as `process`.
    """
    command = _command("module", module, *arguments)
    with process(command, grace_s=grace_s) as started:
        yield started


@contextmanager
def process(command: Sequence[str], *, grace_s: float = 2.0) -> Iterator[Child]:
    """Run a command while the block lasts. It has to end at the end of its standard input.

    It has its own process group, so an interrupt of a notebook cell, which is sent to the kernel's
    group, does not reach it.
    """
    own_group: dict[str, Any] = (
        {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
        if sys.platform == "win32"
        else {"start_new_session": True}
    )
    # A file, not a pipe: a pipe that is not read would block the child.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        started: list[Child] = []
        try:
            with shielded():  # else an interrupt could come when the process runs, without a name
                popen = subprocess.Popen(
                    list(command),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    **own_group,
                )
                started.append(Child(popen, errors))
            yield started[0]
        finally:
            for each in started:
                with shielded():
                    each.stop(grace_s)


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
    """Make a temporary folder for the block. A child deletes it if this process is killed."""
    with tempfile.TemporaryDirectory(prefix=prefix) as folder, deleted_at_our_end(Path(folder)):
        yield Path(folder)


@contextmanager
def deleted_at_our_end(folder: Path) -> Iterator[None]:
    """Let a child delete this folder if this process ends before the block does."""
    with process(_command("folder", str(folder))):
        yield


@contextmanager
def programs_of(prefix: str) -> Iterator[Path]:
    """Make a private folder for programs that a library starts from here, such as Dask's workers.

    Each process that is started in the block has the folder's name in its environment. If this
    process ends before the block, even in their start, a child kills them and deletes the folder.
    """
    with private_folder(prefix) as folder:
        before = os.environ.get(OWNER)
        os.environ[OWNER] = str(folder)
        try:
            yield folder
        finally:
            del os.environ[OWNER]
            if before is not None:
                os.environ[OWNER] = before


def _command(kind: str, *arguments: str) -> list[str]:
    """Return the command of a process that ends with this one, of a kind that `main` knows."""
    return [sys.executable, "-m", "kvstore.subprocesses", str(os.getpid()), kind, *arguments]


@contextmanager
def shielded() -> Iterator[None]:
    """Finish the block even if Ctrl-C comes meanwhile; raise the interrupt afterwards.

    The interrupt is raised in place of an error of the block, which may be its effect.
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield  # Python interrupts the main thread only
        return
    received: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *signal_and_frame: received.append(signal_and_frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if received:
            usual(*received[-1])


def on_signals(action: Callable[[], object]) -> None:
    """Call `action`, in a thread of its own, on Ctrl-C or SIGTERM; a second one ends the process.

    The handler itself may not call it. A handler runs between any two steps of the main thread,
    also where that holds the lock of an `Event`: `set` would then wait for this lock for ever.
    """
    requests: queue.SimpleQueue[int] = queue.SimpleQueue()  # the one queue that a handler may use

    def handle(signum: int, frame: object) -> None:
        for again in (signal.SIGINT, signal.SIGTERM):
            signal.signal(again, signal.SIG_DFL)
        requests.put(signum)

    def act() -> None:
        requests.get()
        action()

    threading.Thread(target=act, name="on_signals", daemon=True).start()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, handle)


POLL_S = 0.2
ORPHANED = 70
"""Exit status of a process that ended because its parent had ended."""
INTERRUPTED = 130
"""Exit status of a process that Ctrl-C, or the message to stop, ended before its work began; shells
use the same number."""


_on_stop: list[Callable[[], object]] = []
_last_acts: list[Callable[[], object]] = []


def end_with_parent(parent_pid: int) -> None:
    """End this process when its parent ends; two daemon threads monitor the parent from now on.

    `parent_pid` is the process id that the parent gave: the parent may end before this process can
    look it up.
    """
    threading.Thread(target=_watch_input, name="_watch_input", daemon=True).start()
    threading.Thread(
        target=_watch_parent, args=(parent_pid,), name="_watch_parent", daemon=True
    ).start()


def listen(on_stop: Callable[[], object]) -> None:
    """Call `on_stop` when the parent stops this process.

    Before this call, a request to stop ends the process. Without a parent, there is none.
    """
    _on_stop[:] = [on_stop]


def at_orphaned(action: Callable[[], object]) -> None:
    """Call `action` when the parent has ended, before this process ends: such as for a child."""
    _last_acts.append(action)


def _end_orphaned() -> None:
    for action in _last_acts:
        action()
    os._exit(ORPHANED)


def _watch_input() -> None:
    # os.read, not sys.stdin: a thread waiting inside a buffered reader holds its lock
    # while the interpreter shuts down, and that is fatal.
    rest = b""
    while chunk := os.read(0, 1024):
        *lines, rest = (rest + chunk).split(b"\n")
        if STOP.encode() in map(bytes.strip, lines):
            if not _on_stop:
                os._exit(INTERRUPTED)
            _on_stop[0]()
            return  # a graceful stop has begun; the parent still waits for it
    _end_orphaned()


def _watch_parent(parent_pid: int) -> None:
    while _lives(parent_pid):
        time.sleep(POLL_S)
    _end_orphaned()


def _lives(parent_pid: int) -> bool:
    if sys.platform == "win32":  # a Windows process keeps the parent id of a dead parent
        import psutil  # other systems need no such import

        return psutil.pid_exists(parent_pid)
    return os.getppid() == parent_pid


# What the parent starts as `python -m kvstore.subprocesses PID ...`.


GRACE_S = 1.5
"""Seconds in which a stopped program may end by itself."""
PR_SET_PDEATHSIG = 1
"""Of Linux's prctl: the signal that a process gets when the thread that started it has ended."""
TRY_S = 10.0
"""Seconds to try to delete a folder: programs that write to it end with the same parent, a little
later."""


def main() -> int:
    """Monitor the parent; then run the module or the program, or wait. Return the exit status."""
    pid, kind, *arguments = sys.argv[1:]
    if kind == "folder":  # before monitoring begins: its parent may have been killed by now
        at_orphaned(partial(_delete, *arguments))
    end_with_parent(int(pid))
    return {"module": _run_module, "program": _run_program, "folder": _wait}[kind](arguments)


def _run_module(arguments: Sequence[str]) -> int:
    """Run a module as `python -m MODULE ...` does."""
    import runpy

    module, *sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


def _run_program(command: Sequence[str]) -> int:
    """Run a program until it ends or is stopped; print its process id, return its exit status.

    Such a program does not monitor its parent. So this process kills it when its own parent has
    ended in any way. On Linux, the kernel kills it as well if this process itself is killed.
    """
    import ctypes

    libc = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded before the fork
    this_process = os.getpid()

    def end_with_this_process() -> None:
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != this_process:  # it has ended already: there will be no signal
                os._exit(ORPHANED)

    starting = threading.Lock()

    def stop() -> None:
        with starting:
            running.terminate()
        try:
            running.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            running.kill()

    def kill() -> None:
        with starting:
            running.kill()

    with starting:  # what comes before the start ends the program after it
        at_orphaned(kill)
        listen(stop)
        running: subprocess.Popen[bytes] = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            preexec_fn=None if libc is None else end_with_this_process,
        )
    print(running.pid, flush=True)
    return running.wait()


def _wait(arguments: Sequence[str]) -> int:
    """Wait. The threads that monitor the parent end this process."""
    threading.Event().wait()
    return 0


def _kill_programs_of(folder: str) -> None:
    import psutil

    for each in psutil.process_iter():
        try:
            if each.environ().get(OWNER) == folder:
                each.kill()
        except (psutil.Error, OSError):
            pass  # it has ended, or belongs to another user


def _delete(folder: str) -> None:
    import shutil

    _kill_programs_of(folder)
    end_s = time.monotonic() + TRY_S
    while os.path.exists(folder) and time.monotonic() < end_s:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.1)


if __name__ == "__main__":
    from kvstore import subprocesses  # others import it by this name: this copy is `__main__`

    sys.exit(subprocesses.main())
