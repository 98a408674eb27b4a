"""A clock and threads that the judge drives: how long an answer pauses, and where it stands.

A pause in place of an event is a mistake that a trial of milliseconds does not show: the calls have
long ended when the pause is over. So pauses and time limits of an answer are over at once, and
nothing has happened meanwhile. In a block of `standing_still` none of them is ever over.

A pause of the one thread of an event loop stops all its tasks, and a pause beside an event is time
lost. So both are noted, and they are a verdict by themselves: see `why_not_paused`.

A race shows once in a thousand calls. So `Steps` stops one caller between two steps of the answer's
code, for as long as another one needs.

Only the answer's own code is changed: the judge, Python's library and packages wait as always.
`install` works for a whole process, the child that judges one answer.
"""

import asyncio
import concurrent.futures
import dis
import functools
import os
import queue
import select
import selectors
import sys
import sysconfig
import threading
import time
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

TICK_S: Final = 0.001
"""What a pause of an answer really lasts, so that a loop of short pauses takes no whole core."""
STILL_S: Final = 8.0
"""The longest that a pause lasts while the clock stands still."""
GUARD_S: Final = 10.0
"""A time limit of a queue from here on is a guard against a hang, and stays as it is."""
_OTHERS: Final = (
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")},
    f"{Path(__file__).parents[2]}{os.sep}",  # kvstore
    "<frozen ",
    "<string>",  # what `namedtuple` writes
)
AHEAD: Final = 300.0
"""So many times as fast do the clocks run that an answer reads, while they run ahead."""
LOOK_S: Final = 0.02
"""The longest that an event loop sleeps at a time."""
LONG_S: Final = 0.05
"""A pause from here on is no short poll."""
_moves: Final = threading.Event()
_moves.set()


class _Clock:
    """How far the clocks that an answer reads are ahead of the true ones."""

    def __init__(self) -> None:
        self._offset_s, self._rate, self._since_s = 0.0, 1.0, time.monotonic()
        self._true, self._lock = time.monotonic, threading.Lock()

    def offset_s(self) -> float:
        """Return the seconds to add to a true clock; they may be negative."""
        with self._lock:
            return self._offset_s + (self._rate - 1) * (self._true() - self._since_s)

    @contextmanager
    def running(self, rate: float) -> Iterator[None]:
        """Let time pass at this rate while the block lasts."""
        self._set(rate)
        try:
            yield
        finally:
            self._set(1.0)

    def _set(self, rate: float) -> None:
        self._offset_s, self._since_s = self.offset_s(), self._true()
        self._rate = rate


_clock: Final = _Clock()


@contextmanager
def standing_still() -> Iterator[None]:
    """Let no pause and no time limit of the answer end before the block does."""
    _moves.clear()
    try:
        with _clock.running(0.0):
            yield
    finally:
        _moves.set()


def running_ahead() -> AbstractContextManager[None]:
    """Let the clocks that the answer reads, and the timers of event loops, run ahead."""
    return _clock.running(AHEAD)


class _Selector(selectors.DefaultSelector):
    """Looks at the time again soon, as it may run ahead meanwhile."""

    def select(self, timeout: float | None = None) -> Any:
        return super().select(LOOK_S if timeout is None else min(timeout, LOOK_S))


class _Loop(asyncio.SelectorEventLoop):
    """A loop with the clock of the answer: for `asyncio.sleep` and all time limits.

    Where the clock runs ahead, several timers are due at one look. The loop's time stands at the
    first of them until it has run: else a time limit would end what was awaited in time.
    """

    _scheduled: list[asyncio.TimerHandle]  # of asyncio's loop, the earliest first

    def __init__(self) -> None:
        self._reached_s = 0.0
        super().__init__(_Selector())

    def time(self) -> float:
        """Return the seconds of this loop's clock."""
        now_s = super().time() + _clock.offset_s()
        if self._scheduled:
            now_s = min(now_s, self._scheduled[0].when())
        self._reached_s = max(self._reached_s, now_s)
        return self._reached_s


_paused_s: Final[list[float]] = []
"""The pauses that the answer wanted in any thread but that of an event loop."""
_paused_loops_s: Final[list[float]] = []
"""The pauses that it wanted in the thread of a running event loop."""


def why_not_paused(may_pause: bool) -> str:
    """Return what is wrong with the pauses of the answer, or ""."""
    if _paused_loops_s:
        return (
            f"a coroutine paused its thread for {_paused_loops_s[0]:g} s. The event loop has one"
            " thread, so no other task runs meanwhile: wait with `await`. (The check cuts pauses"
            " short, so its calls were in time all the same.)"
        )
    long_s = max(_paused_s, default=0.0)
    if may_pause or long_s < LONG_S:
        return ""
    return (
        f"your code pauses for {long_s:g} s. The check cuts a pause short, and a real client or"
        " server would stand still for so long: wait for an event, such as the end of a call or a"
        " free place."
    )


def _note_pause(wanted_s: float, pauses: list[float] | None) -> None:
    if _is_in_loop():
        _paused_loops_s.append(wanted_s)
    elif pauses is not None:
        pauses.append(wanted_s)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def is_answers(file: str) -> bool:
    """Return whether a file of code belongs to the answer."""
    return not file.startswith(_OTHERS)


def _lasts(wanted_s: float) -> float:
    if wanted_s <= 0:
        return wanted_s
    return min(wanted_s, TICK_S) if _moves.is_set() else STILL_S


_WAITS: Final[tuple[tuple[Any, str, int], ...]] = (
    (threading.Semaphore, "acquire", 2),
    (threading.Event, "wait", 1),
    (threading.Condition, "wait", 1),
    (threading.Condition, "wait_for", 2),
    (threading.Barrier, "wait", 1),
    (threading.Thread, "join", 1),
    (concurrent.futures.Future, "result", 1),
    (concurrent.futures.Future, "exception", 1),
)
"""Waits that may have a time limit, and the place of the limit among their arguments."""


def install() -> None:
    """Let the pauses of an answer in this process follow the clock. Call it before the answer."""
    sleep, moved = time.sleep, _moves.wait

    def pause(seconds: float) -> None:
        if not _called_by_answer():
            sleep(seconds)
            return
        if seconds > 0:
            _note_pause(seconds, _paused_s)
        if _moves.is_set() or seconds <= 0:
            sleep(_lasts(seconds))
        else:
            moved(STILL_S)

    time.sleep = pause  # type: ignore[assignment]
    wait_for_files = select.select

    def selected(*files: Any) -> Any:
        if len(files) == 4 and files[3] is not None and files[3] > 0 and _called_by_answer():
            _note_pause(files[3], None if any(files[:3]) else _paused_s)
            files = (*files[:3], _lasts(files[3]))
        return wait_for_files(*files)

    select.select = selected
    for name in ("monotonic", "perf_counter", "time"):
        _drive_clock(name)
    asyncio.new_event_loop = asyncio.events.new_event_loop = _Loop
    # The answer may bring the function by the name that it has in C.
    threading.Lock = _driven_lock(threading.Lock)  # type: ignore[assignment]
    vars(sys.modules["_thread"]).update(dict.fromkeys(("allocate_lock", "lock"), threading.Lock))
    threading.RLock = _driven_lock(threading.RLock)  # type: ignore[assignment]
    # A type of C cannot be changed: answers get a class of its own in its place.
    simple = type("SimpleQueue", (queue.SimpleQueue,), {})
    vars(queue)["SimpleQueue"] = vars(sys.modules["_queue"])["SimpleQueue"] = simple
    for name in ("wait", "as_completed"):
        limited = _limited(getattr(concurrent.futures, name), 1)
        setattr(concurrent.futures, name, limited)
        setattr(sys.modules["concurrent.futures._base"], name, limited)
    for owner, name, place in _WAITS:
        setattr(owner, name, _limited(getattr(owner, name), place))
    for owner, name, place in (queue.Queue, "get", 2), (queue.Queue, "put", 3), (simple, "get", 2):
        setattr(owner, name, _limited(getattr(owner, name), place, GUARD_S))
    start = threading.Timer.__init__

    @functools.wraps(start)
    def timer(self: Any, interval: float, *arguments: Any, **named: Any) -> None:
        start(self, _lasts(interval) if _called_by_answer() else interval, *arguments, **named)

    threading.Timer.__init__ = timer  # type: ignore[method-assign]


def _limited(wait: Callable[..., Any], place: int, guard_s: float = 0.0) -> Callable[..., Any]:
    """Return the wait with the time limit, its argument in this place, that the clock gives."""

    @functools.wraps(wait)
    def limited(*arguments: Any, **named: Any) -> Any:
        wanted_s = named.get("timeout", arguments[place] if len(arguments) > place else None)
        guards = isinstance(wanted_s, int | float) and 0 < guard_s <= wanted_s
        if wanted_s is not None and not guards and _called_by_answer():
            if wanted_s > 0:
                _note_pause(wanted_s, None)
            named["timeout"] = _lasts(wanted_s)
            arguments = arguments[:place]
        return wait(*arguments, **named)

    return limited


def _drive_clock(name: str) -> None:
    """Give the answer a clock of this name, in seconds and in nanoseconds, that can be driven."""
    true, true_ns = getattr(time, name), getattr(time, f"{name}_ns")

    def is_read(by: str) -> bool:
        # Code of C that the answer calls, such as a context of grpc.aio, has no frame of its own.
        code = sys._getframe(2).f_code
        return is_answers(code.co_filename) and by in (*code.co_names, *code.co_freevars)

    def read() -> float:
        now_s: float = true()
        return now_s + _clock.offset_s() if is_read(name) else now_s

    def read_ns() -> int:
        now_ns: int = true_ns()
        return now_ns + int(1e9 * _clock.offset_s()) if is_read(f"{name}_ns") else now_ns

    setattr(time, name, read)
    setattr(time, f"{name}_ns", read_ns)


class _Lock:
    """A lock of C with a time limit that the clock gives."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self.release = lock.release

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; return whether it was free in time."""
        if timeout > 0 and _called_by_answer():
            _note_pause(timeout, None)
            timeout = _lasts(timeout)
        return bool(self._lock.acquire(blocking, timeout))

    def __enter__(self) -> bool:
        return bool(self._lock.acquire())

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)  # what a Condition asks of its lock


def _driven_lock(make: Callable[[], Any]) -> Callable[[], Any]:
    """Return what makes such a lock for the answer, and a usual one for all others."""

    def lock() -> Any:
        return _Lock(make()) if _called_by_answer() else make()

    return lock


def _called_by_answer() -> bool:
    """Return whether the caller of the wait is code of the answer."""
    return is_answers(sys._getframe(2).f_code.co_filename)


MOST_STEPS: Final = 60
"""The most steps of a call at which it is stopped, one after the other."""
_ACTIONS: Final = (
    "CALL",
    *(f"{change}_{what}" for change in ("STORE", "DELETE") for what in ("SUBSCR", "SLICE", "ATTR")),
    "STORE_GLOBAL",
    "STORE_DEREF",
    "BEFORE_WITH",
)
"""How instructions begin before which a caller is stopped: calls, and changes that others see."""


class Steps:
    """Stops the first thread that comes to the answer's code, before its step `number`, from 0.

    Steps count from when `begins` is true. Use it around the making of the threads.
    """

    def __init__(self) -> None:
        self.held = threading.Event()
        """Set while the thread stands there."""
        self._number = 0
        self._begins: Callable[[], bool] = lambda: True
        self._thread: int | None = None
        self._armed = False
        self._go = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> "Steps":
        if sys.version_info >= (3, 12):  # there, opcodes of a frame are traced late or not at all
            _follow_instructions(self._step)
        else:
            threading.settrace(self._traced)
        return self

    def __exit__(self, *_: object) -> None:
        if sys.version_info >= (3, 12):
            _follow_no_more()
        else:
            threading.settrace(None)
        self.release()

    def stop_at(self, number: int, begins: Callable[[], bool] = lambda: True) -> None:
        """Stop the next thread at this step; whoever comes meanwhile goes on."""
        self.release()
        with self._lock:
            self.held.clear()
            self._go.clear()
            self._number, self._begins, self._thread, self._armed = number, begins, None, True

    def release(self) -> None:
        """Let the thread go on, and stop no other one."""
        with self._lock:
            self._armed = False
        self._go.set()

    def _traced(self, frame: Any, event: str, argument: Any) -> Any:
        if not is_answers(frame.f_code.co_filename):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            self._step(frame.f_code, frame.f_lasti)
        return self._traced

    def _step(self, code: types.CodeType, place: int) -> None:
        """Stop the thread before the instruction at this place, if it is the step."""
        if not self._armed or not dis.opname[code.co_code[place]].startswith(_ACTIONS):
            return
        if self._is_here():
            self.held.set()
            self._go.wait(STILL_S)

    def _is_here(self) -> bool:
        """Count a step of this thread; return whether it must stop."""
        with self._lock:
            if not self._armed or not self._begins():
                return False
            if self._thread is None:
                self._thread = threading.get_ident()
            if self._thread != threading.get_ident():
                return False
            self._number -= 1
            self._armed = self._number >= 0
            return not self._armed


if sys.version_info >= (3, 12):
    _TOOL: Final = 4
    """The number of this tool; those of debuggers, coverage and profilers are others."""

    def _follow_instructions(step: Callable[[types.CodeType, int], None]) -> None:
        """Call `step` before each instruction of the answer's code, until `_follow_no_more`."""
        events = sys.monitoring.events

        def begins(code: types.CodeType, place: int) -> Any:
            if is_answers(code.co_filename):
                sys.monitoring.set_local_events(_TOOL, code, events.INSTRUCTION)
            return sys.monitoring.DISABLE  # this code is known now

        sys.monitoring.use_tool_id(_TOOL, "the judge of the course")
        sys.monitoring.register_callback(_TOOL, events.PY_START, begins)
        sys.monitoring.register_callback(_TOOL, events.INSTRUCTION, step)
        sys.monitoring.set_events(_TOOL, events.PY_START)
        sys.monitoring.restart_events()

    def _follow_no_more() -> None:
        for event in sys.monitoring.events.PY_START, sys.monitoring.events.INSTRUCTION:
            sys.monitoring.register_callback(_TOOL, event, None)
        sys.monitoring.set_events(_TOOL, sys.monitoring.events.NO_EVENTS)
        sys.monitoring.free_tool_id(_TOOL)
