"""End this process with its parent, and receive messages from the parent.

Two signs of the parent's end are monitored, because each can be missed: end of file on standard
input (not seen when another child inherited the pipe) and the parent's process id (checked every
`POLL_S` seconds, so a little later). Linux's parent-death signal is not used: it fires when the
*thread* that started the child ends, as threads of a notebook do.

Monitoring starts before anything else in the process: `kvstore.run_child` starts it, and imports
the child's own module afterwards. So this module imports very little.
"""

import os
import sys
import threading
import time
from collections.abc import Callable

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
