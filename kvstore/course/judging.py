"""The judge's process: a learner's answer runs where it can be killed, apart from the kernel.

An answer may loop for ever, deadlock, call `sys.exit`, replace `time.sleep` or start thousands of
threads. So `judge` sends it to a process of the judge, `python -m kvstore.course.judging`. That
process imports what judges need, once, and never starts gRPC itself. For each answer it forks a
child, which judges the answer and ends. Without `fork` (Windows) it judges one answer and ends.
What an answer may use is limited: see `exercises/limits.py`.

The answer travels by cloudpickle, which sends what a notebook defined by value. Requests are frames
on standard input: eight bytes with the length, then the pickle. Replies are lines of JSON.
"""

import atexit
import contextlib
import dis
import gc
import io
import json
import linecache
import marshal
import os
import pickle
import queue
import select
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

import cloudpickle

from kvstore.course import my_code
from kvstore.course.exercises import (
    NOT_ATTEMPTED,
    Verdict,
    controlled_time,
    every,
    find,
    grading,
    limits,
    not_yet,
)

_COMMAND: Final = [sys.executable, "-W", "ignore", "-m", "kvstore.course.judging"]
_FORKS: Final = hasattr(os, "fork")
START_S: Final = 60.0
"""Seconds in which the process of the judge must have started, also on a busy machine."""
GRACE_S: Final = 3.0
"""Seconds that the process of the judge has to end, or to kill its child after the time limit."""
LOOK_S: Final = 0.25
"""Seconds from one look at the limits of a child to the next one."""
_HEADER: Final = struct.Struct(">Qd")
"""Before each request: its length in bytes, and the time limit in seconds."""
OUTPUT_CHARACTERS: Final = 4_000
"""The most of what an answer prints that is shown."""


class Judge:
    """The process of the judge, as the kernel sees it; started at the first need."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        """Start the process if there is none; return at once."""
        if self._process is not None and self._process.poll() is None:
            return
        self.stop()
        # Not a child of `kvstore.processes`: a process with threads must not fork. The end of its
        # standard input is the end of the kernel. A session of its own: a Ctrl-C is the kernel's.
        self._process = subprocess.Popen(
            [*_COMMAND, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._lines = queue.SimpleQueue()
        assert self._process.stdout is not None
        self._reader = threading.Thread(
            target=_read_lines, args=(self._process.stdout, self._lines), daemon=True
        )
        self._reader.start()

    def stop(self) -> None:
        """End the process, and with it a child that still judges."""
        if self._process is None:
            return
        process, self._process = self._process, None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()  # it kills its child and ends
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert self._reader is not None
        self._reader.join(GRACE_S)  # at the end of the output
        process.stdout.close()

    def verdict(self, exercise_id: str, answer: Any) -> Verdict:
        """Return the verdict on an answer, judged in a process of its own within `timeout_s`.

        Print what the answer printed. Raise LookupError for an unknown id, KeyboardInterrupt after
        Ctrl-C; nothing of the answer runs on in either case.
        """
        exercise = find(exercise_id)
        if _is_stub(answer):
            return grading.judged(exercise, NOT_ATTEMPTED)
        try:
            with io.BytesIO() as pickled, warnings.catch_warnings(action="ignore"):
                _Pickler(pickled).dump((exercise_id, answer, _sources(answer)))
                request = pickle.dumps((str(my_code.folder().parent), pickled.getvalue()))
        except Exception as error:
            return not_yet(
                "the check runs your answer in a process of its own, and something that it uses"
                f" cannot go there: {error}. Make it inside your function, or pass it as an"
                " argument."
            )
        reply = self._reply(request, exercise.timeout_s)
        if reply["output"]:
            print(reply["output"])
        return Verdict(reply["outcome"], reply["message"])

    def _reply(self, request: bytes, timeout_s: float) -> dict[str, Any]:
        """Return the reply to a request; if none came in time, the answer is killed."""
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            if not self._line(START_S):  # it says that it is ready for a request
                raise RuntimeError(
                    "the process that judges answers did not start: run"
                    f" `{' '.join(_COMMAND)}` in a terminal to see why"
                )
            self._process.stdin.write(_HEADER.pack(len(request), timeout_s) + request)
            self._process.stdin.flush()
            line = self._line(timeout_s + GRACE_S)
        except BaseException:  # Ctrl-C too: the next answer finds a new process
            self.stop()
            raise
        if line:
            return dict(json.loads(line))
        if line is None:
            self.stop()
            return _no_verdict(_too_late(timeout_s))
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)  # its output has ended, so it does
        status = self._process.poll() or 0
        self.stop()
        if not _FORKS:
            return _no_verdict(_ended(status))
        return _no_verdict(
            f"the process that judges was ended from outside ({_how(status)}), which says"
            " nothing about your answer: run the check again. If it happens again, look for a"
            " signal that your answer sends, and for free memory."
        )

    def _line(self, timeout_s: float) -> bytes | None:
        """Return the next line, b"" if the process has ended, None if none came in time."""
        try:
            return self._lines.get(timeout=timeout_s)
        except queue.Empty:
            return None


def _read_lines(stdout: Any, lines: "queue.SimpleQueue[bytes]") -> None:
    for line in stdout:
        lines.put(line)
    lines.put(b"")  # the process has ended


def _no_verdict(message: str) -> dict[str, Any]:
    """Return a reply of the judge that no exercise has given."""
    return {"outcome": "not yet", "message": message, "output": ""}


def _too_late(timeout_s: float) -> str:
    return (
        f"no answer within {timeout_s:g} s: look for a loop or a wait that never ends. It was"
        " stopped."
    )


def _ended(code: int) -> str:
    return (
        f"your answer ended its process ({_how(code)}) before the check was done: leave out"
        " `sys.exit`, `os._exit` and signals."
    )


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit status {code}"


_judge: Final = Judge()
judge: Final = _judge.verdict
atexit.register(_judge.stop)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Sends code with the name of its cell, which newer versions of cloudpickle leave out.

    By that name, an error finds its line. Both processes are the same interpreter.
    """

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, types.CodeType):
            return marshal.loads, (marshal.dumps(obj),)
        return super().reducer_override(obj)


def _is_stub(answer: Any) -> bool:
    """Return whether the answer is still to be written: that needs no process to see."""
    if answer is None or answer is ... or answer is NOT_ATTEMPTED:
        return True
    return any(map(_only_returns_not_attempted, _codes(answer)))


def _only_returns_not_attempted(code: types.CodeType) -> bool:
    steps = list(dis.get_instructions(code))
    ends = [place for place, step in enumerate(steps) if step.opname.startswith("RETURN_")]
    ends = [place for place in ends if steps[place].opname != "RETURN_GENERATOR"]
    return len(ends) == 1 and steps[ends[0] - 1].argval == "NOT_ATTEMPTED"


def _sources(answer: Any) -> dict[str, list[str]]:
    """Return the source of each cell that the answer is written in: for the lines of its errors."""
    files = {code.co_filename for code in _codes(answer)}
    return {file: lines for file in files if (lines := linecache.getlines(file))}


def _codes(answer: Any) -> Iterator[types.CodeType]:
    if isinstance(answer, types.FunctionType):
        yield answer.__code__
    elif isinstance(answer, type):
        for each in vars(answer).values():
            yield from _codes(each)


def main() -> None:
    """Judge answers until standard input or the process of the kernel ends."""
    kernel = int(sys.argv[1]) if len(sys.argv) > 1 else os.getppid()
    requests, replies = os.fdopen(os.dup(0), "rb", buffering=0), os.dup(1)
    for descriptor, mode in (0, os.O_RDONLY), (1, os.O_WRONLY):  # an answer reads and prints there
        nowhere = os.open(os.devnull, mode)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    limits.adopt_orphans()
    _import_all()
    while True:
        os.write(replies, b'"ready"\n')
        if _FORKS:
            while not _readable([requests], 1.0):
                if os.getppid() != kernel:  # another process may hold our input open
                    return
        frame = _frame(requests)
        if frame is None:
            return
        request, timeout_s = frame
        reply = (
            _in_child(request, timeout_s, requests, replies, kernel) if _FORKS else _reply(request)
        )
        if reply is None:  # the kernel is gone
            return
        os.write(replies, reply + b"\n")
        if not _FORKS:
            return


def _readable(files: list[Any], timeout_s: float) -> list[Any]:
    return select.select(files, [], [], timeout_s)[0]


def _import_all() -> None:
    """Import and make what takes long, before there is an answer: a forked child has it then."""
    from hypothesis import strategies

    grading.drawn_inputs(strategies.tuples(strategies.integers()), grading.COMPARED)
    every()
    gc.collect()
    gc.freeze()  # or the collector of each child would write to all of it


def _frame(requests: io.FileIO) -> tuple[bytes, float] | None:
    """Return the next request and its time limit; None at the end of the input."""

    def read(size: int) -> bytes:
        parts = b""
        while len(parts) < size and (part := requests.read(size - len(parts))):
            parts += part
        return parts

    header = read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    length, timeout_s = _HEADER.unpack(header)
    return read(length), timeout_s


def _in_child(
    request: bytes, timeout_s: float, requests: io.FileIO, replies: int, kernel: int
) -> bytes | None:
    """Return the reply of a forked child, or why there is none.

    None if the kernel ended meanwhile. Whatever comes, the child and its own processes are gone.
    """
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory(prefix="answer-", ignore_cleanup_errors=True) as folder:
        pid = os.fork()
        if pid == 0:
            for descriptor in reading, requests.fileno(), replies:  # they are the judge's
                os.close(descriptor)
            _be_child(request, writing, Path(folder))
        os.close(writing)
        try:
            reply = _reply_of_child(pid, reading, timeout_s, requests, kernel)
        finally:
            os.close(reading)
            limits.end_family(pid)
    return (
        reply
        if reply is None or isinstance(reply, bytes)
        else json.dumps(_no_verdict(reply)).encode()
    )


def _be_child(request: bytes, writing: int, folder: Path) -> NoReturn:
    """Judge the request, write the reply, and end."""
    status, judge_pid = 1, os.getpid()
    try:
        os.setsid()  # its own processes are killed with it
        limits.confine(folder)
        with contextlib.suppress(OSError):  # the answer has closed a file of the check
            reply = _reply(request)
            if os.getpid() == judge_pid:  # not a copy that the answer has forked
                with os.fdopen(writing, "wb") as out:
                    out.write(reply)
        status = 0
    finally:
        os._exit(status)


def _reply_of_child(
    pid: int, reading: int, timeout_s: float, requests: io.FileIO, kernel: int
) -> bytes | str | None:
    """Return the reply of the child; a sentence if there is none; None if the kernel is gone."""
    reply = b""
    either: list[Any] = [reading, requests]
    until_s = time.monotonic() + timeout_s
    while True:
        ready = _readable(either, LOOK_S if reading in either else 0.005)
        if requests in ready or os.getppid() != kernel:
            return None  # nothing is sent before the reply: this is the end of the input
        if reading in ready:
            part = os.read(reading, 1 << 16)
            reply += part
            if not part:  # the end, or the answer has closed the pipe
                either.remove(reading)
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > until_s:
            return _too_late(timeout_s)
        if reading not in ready and (problem := limits.excess()):
            return problem
    while _readable([reading], 0) and (part := os.read(reading, 1 << 16)):
        reply += part
    if code := os.waitstatus_to_exitcode(status):
        return _ended(code)
    try:
        json.loads(reply)
    except ValueError:
        return (
            "your answer wrote to a file that the check had opened, or closed it: leave out"
            " `os.write` and `os.close` of numbers that your own `os.open` has not returned."
        )
    return reply


def _reply(request: bytes) -> bytes:
    """Judge one request in this process, and return the reply as JSON."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        sys.stdout = sys.stderr = output
        warnings.resetwarnings()  # shown in the output, and no errors: they are no verdict
        warnings.simplefilter("ignore", DeprecationWarning)
        controlled_time.install()
        beside, packed = pickle.loads(request)
        sys.path.append(beside)  # for the generated code in my_code
        exercise_id, answer, sources = pickle.loads(packed)
        for file, lines in sources.items():
            linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
        exercise = find(exercise_id)
        verdict = grading.judged(exercise, answer)
        if verdict.passed and (why := controlled_time.why_not_paused(exercise.may_pause)):
            verdict = not_yet(why)
        output.flush()
        output.seek(0)
        printed = output.read(OUTPUT_CHARACTERS)
    reply = {"outcome": verdict.outcome, "message": verdict.message, "output": printed.rstrip()}
    return json.dumps(reply).encode()


if __name__ == "__main__":
    main()
