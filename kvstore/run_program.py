"""Run a program that others wrote, and end it with the parent of this process.

`subprocesses.program` starts this module as a child. Such a program does not monitor its parent. So
this process starts it, prints its process id, and kills it when its own parent has ended in any
way. On Linux, the kernel kills it as well if this process itself is killed.
"""

import ctypes
import signal
import subprocess
import sys

from kvstore.parent import at_orphaned, listen

GRACE_S = 1.5
"""Seconds in which a stopped program may end by itself."""
PR_SET_PDEATHSIG = 1
"""Of Linux's prctl: the signal that a process gets when the thread that started it has ended."""

_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded before the fork


def main() -> int:
    """Run the command until it ends or is stopped; return its exit status."""
    program = subprocess.Popen(
        sys.argv[1:],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        preexec_fn=_end_with_this_process if sys.platform == "linux" else None,
    )
    at_orphaned(program.kill)
    listen(lambda: _stop(program))
    print(program.pid, flush=True)
    return program.wait()


def _stop(program: "subprocess.Popen[bytes]") -> None:
    program.terminate()
    try:
        program.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        program.kill()


def _end_with_this_process() -> None:
    assert _LIBC is not None
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
