"""The child's side of `subprocesses`: end with the parent, receive its messages, do its work.

    python -m kvstore.parent PID module MODULE ...      run a module of ours
    python -m kvstore.parent PID program COMMAND ...    run a program that others wrote
    python -m kvstore.parent PID folder FOLDER          delete a folder when the parent has ended

PID is the process id of the parent. Two signs of its end are monitored, because each can be missed:
end of file on standard input (not seen when another child inherited the pipe) and the parent's
process id (checked every `POLL_S` seconds, so a little later). Linux's parent-death signal is not
used: it fires when the *thread* that started the child ends, as threads of a notebook do.

Monitoring starts before the child's own module is imported: imports of grpc and numpy take seconds
on a busy machine, and the parent may be killed meanwhile. So this module imports very little.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

POLL_S = 0.2
STOP = "stop"
"""The message with which a parent stops its child."""
ORPHANED = 70
"""Exit status of a process that ended because its parent had ended."""
INTERRUPTED = 130
"""Exit status of a process that Ctrl-C, or the message to stop, ended before its work began; shells
use the same number."""


class _Messages:
    """Messages from the parent; kept until this process has a listener."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[str] = []
        self._listener: tuple[Callable[[], object], Callable[[str], object]] | None = None

    def listen(self, on_stop: Callable[[], object], on_message: Callable[[str], object]) -> None:
        """Deliver the messages so far, and all later ones."""
        with self._lock:
            self._listener = on_stop, on_message
            for message in self._kept:
                on_message(message)
            self._kept.clear()

    def receive(self, message: str) -> None:
        """Deliver one message. A process without a listener ends when it is stopped."""
        with self._lock:
            if self._listener is None:
                if message == STOP:
                    os._exit(INTERRUPTED)
                self._kept.append(message)
                return
            on_stop, on_message = self._listener
        if message == STOP:
            on_stop()
        else:
            on_message(message)


_messages: _Messages | None = None
_last_acts: list[Callable[[], object]] = []


def end_with_parent(parent_pid: int) -> None:
    """End this process when its parent ends; two daemon threads monitor the parent from now on.

    `parent_pid` is the process id that the parent gave: the parent may end before this process can
    look it up.
    """
    global _messages
    _messages = _Messages()
    for watch, argument in ((_watch_input, _messages), (_watch_parent, parent_pid)):
        threading.Thread(target=watch, args=(argument,), name=watch.__name__, daemon=True).start()


def has_parent() -> bool:
    """Return whether this process was started by `subprocesses.child` and ends with its parent."""
    return _messages is not None


def listen(
    on_stop: Callable[[], object], on_message: Callable[[str], object] = lambda message: None
) -> None:
    """Call `on_stop` when the parent stops this process, and `on_message` with its other lines.

    Before this call, lines are kept, and a request to stop ends the process. Without a parent,
    there are no messages.
    """
    if _messages is not None:
        _messages.listen(on_stop, on_message)


def at_orphaned(action: Callable[[], object]) -> None:
    """Call `action` when the parent has ended, before this process ends: such as for a child."""
    _last_acts.append(action)


def _end_orphaned() -> None:
    for action in _last_acts:
        action()
    os._exit(ORPHANED)


def _watch_input(messages: _Messages) -> None:
    # os.read, not sys.stdin: a thread waiting inside a buffered reader holds its lock
    # while the interpreter shuts down, and that is fatal.
    rest = b""
    while chunk := os.read(0, 1024):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            message = line.decode().strip()
            messages.receive(message)
            if message == STOP:
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


# ---- commands -----------------------------------------------------------------------------------
# What `subprocesses` starts as `python -m kvstore.parent PID ...`.


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
    import signal
    import subprocess

    libc = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded before the fork

    def end_with_this_process() -> None:
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    program = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        preexec_fn=None if libc is None else end_with_this_process,
    )

    def stop() -> None:
        program.terminate()
        try:
            program.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            program.kill()

    at_orphaned(program.kill)
    listen(stop)
    print(program.pid, flush=True)
    return program.wait()


def _wait(arguments: Sequence[str]) -> int:
    """Wait. The threads that monitor the parent end this process."""
    threading.Event().wait()
    return 0


def _delete(folder: str) -> None:
    import shutil

    end_s = time.monotonic() + TRY_S
    while os.path.exists(folder) and time.monotonic() < end_s:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.1)


if __name__ == "__main__":
    from kvstore import parent  # other modules import it by this name: this copy is `__main__`

    sys.exit(parent.main())
