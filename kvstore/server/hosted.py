"""A servicer that somebody else wrote, measured as ours is: its locks and sleeps are stations.

`pack(Store)` writes a class of `KeyValueServiceServicer` to a file, and a server with the setting
`servicer` serves it. The class needs no line for it. Its own code gets a `time.sleep` and locks of
`threading` (of `asyncio` for a class with coroutines) that tell the clock of the call how long it
slept, which counts as disk, and how long it waited. All other code keeps the real ones.
"""

import asyncio
import contextvars
import inspect
import pickle
import sys
import threading
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import grpc

from kvstore.protocol import (
    CREATE,
    DELETE,
    METADATA_KEY,
    METHODS,
    RETRIEVE,
    UPDATE,
    StationClock,
    to_header,
)
from kvstore.server.admission import MeasuredPool
from kvstore.server.counts import Counts
from kvstore.server.forwarding import OPTIONS
from kvstore.server_settings import ServerSettings
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceServicer, KeyValueServiceStub


def pack(servicer: type, path: Path, folders: Sequence[str] = ()) -> None:
    """Write the class to a file, with the code that it uses; modules are found in `folders`, too.

    Raises TypeError for what is no servicer class.
    """
    methods = (*METHODS, "Pipeline")
    if not isinstance(servicer, type) or not any(hasattr(servicer, name) for name in methods):
        raise TypeError(
            "a server of your own is a class, such as `class Store(KeyValueServiceServicer)`, got"
            f" {servicer!r}"
        )
    path.write_bytes(pickle.dumps((list(folders), cloudpickle.dumps(servicer))))


def unpacked(path: Path) -> type:
    """Return the class that `pack` wrote. The file is a pickle: it can run any code."""
    folders, packed = pickle.loads(path.read_bytes())
    sys.path += folders  # at the end: no file there takes the place of another module
    servicer: type = pickle.loads(packed)
    return servicer


def has_coroutines(servicer: type) -> bool:
    """Return whether the methods of this class are coroutines, for an event loop."""
    return any(inspect.iscoroutinefunction(getattr(servicer, name, None)) for name in METHODS)


class _CallClock(StationClock):
    """The clock of one call, which also knows what the call did while it held a lock."""

    __slots__ = ("held", "kind", "observed")

    def __init__(self, waited_s: float, kind: int, observed: "_Observed") -> None:
        super().__init__(waited_s)
        self.kind, self.observed = kind, observed
        self.held: list[int] = []
        """The locks that the call holds now, by their identity."""


_clock: contextvars.ContextVar[_CallClock | None] = contextvars.ContextVar("clock", default=None)


class _Observed:
    """What the servicer was seen doing: how long it slept, and which locks it held meanwhile."""

    def __init__(self) -> None:
        self.slept_s: Counter[int] = Counter()
        self.calls: Counter[int] = Counter()
        self.sleeps_held = 0
        self.sleeps_free = 0
        self.locks: set[int] = set()

    def slept(self, clock: _CallClock, seconds: float) -> None:
        """Count a sleep of a call, in the seconds that it asked for."""
        self.slept_s[clock.kind] += seconds  # type: ignore[assignment]
        if clock.held:
            self.sleeps_held += 1
            self.locks.update(clock.held)
        else:
            self.sleeps_free += 1

    def mean_s(self, *kinds: int) -> float:
        """Return the mean seconds that calls of these kinds slept."""
        calls = sum(self.calls[kind] for kind in kinds)
        return sum(self.slept_s[kind] for kind in kinds) / calls if calls else 0.0

    @property
    def locking(self) -> str:
        """The setting of our own server that does with its locks what was seen here."""
        if self.sleeps_held <= self.sleeps_free:
            return "per_key"
        return "global" if len(self.locks) == 1 else "per_key_held"


class _Lock:
    """A lock of `threading` that tells a call's clock how long the call waited for it."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def acquire(self, *arguments: Any, **named: Any) -> bool:
        clock = _clock.get()
        if clock is None:
            return bool(self._lock.acquire(*arguments, **named))
        clock.begin()
        got = bool(self._lock.acquire(*arguments, **named))
        clock.locked()
        if got:
            clock.held.append(id(self))
        return got

    def release(self) -> None:
        clock = _clock.get()
        if clock is not None and id(self) in clock.held:
            clock.held.remove(id(self))
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)


class _AsyncLock(_Lock):
    """The same for a lock of `asyncio`."""

    async def acquire(self) -> bool:  # type: ignore[override]
        clock = _clock.get()
        if clock is None:
            return bool(await self._lock.acquire())
        clock.begin()
        await self._lock.acquire()
        clock.locked()
        clock.held.append(id(self))
        return True

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *error: object) -> None:
        self.release()


def _sleep(seconds: float) -> None:
    clock = _clock.get()
    if clock is None:
        time.sleep(seconds)
        return
    clock.observed.slept(clock, seconds)
    clock.begin()
    time.sleep(seconds)
    clock.worked()


async def _sleep_async(seconds: float, result: Any = None) -> Any:
    clock = _clock.get()
    if clock is not None:
        clock.observed.slept(clock, seconds)
        clock.begin()
    await asyncio.sleep(seconds)
    if clock is not None:
        clock.worked()
    return result


def _watched(make: Callable[..., Any], kind: type[_Lock]) -> Callable[..., Any]:
    return lambda *arguments, **named: kind(make(*arguments, **named))


class _Instead(types.ModuleType):
    """A module of which some names are others."""

    def __init__(self, module: types.ModuleType, **names: Any) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(names)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _replacements() -> list[tuple[Any, Any]]:
    """Return what the servicer's code uses, and what it gets in its place."""
    locks = {name: getattr(threading, name) for name in ("Lock", "RLock", "Semaphore")}
    watched = {name: _watched(make, _Lock) for name, make in locks.items()}
    async_lock = _watched(asyncio.Lock, _AsyncLock)
    return [
        *sleeping_with(_sleep),
        (threading, _Instead(threading, **watched)),
        *((locks[name], watched[name]) for name in locks),
        (asyncio, _Instead(asyncio, sleep=_sleep_async, Lock=async_lock)),
        (asyncio.sleep, _sleep_async),
        (asyncio.Lock, async_lock),
    ]


def replace_in_code(servicer: type, instead: Sequence[tuple[Any, Any]]) -> Callable[[], None]:
    """Let the code of a class, and of the functions beside it, use other things by global names.

    `instead` has pairs of a real thing and what takes its place. Return a function that undoes it.
    """
    changed = []
    for scope in _scopes(servicer):
        for name, value in list(scope.items()):
            for real, other in instead:
                if value is real:
                    changed.append((scope, name, value))
                    scope[name] = other

    def undo() -> None:
        for scope, name, value in changed:
            scope[name] = value

    return undo


def sleeping_with(sleep: Callable[[float], Any]) -> list[tuple[Any, Any]]:
    """Return what `replace_in_code` takes so that `time.sleep` is this function."""
    return [(time, _Instead(time, sleep=sleep)), (time.sleep, sleep)]


def _scopes(servicer: type) -> Iterator[dict[str, Any]]:
    """Yield the global names of each module in which methods of the class were written."""
    yielded = set()
    for each in servicer.__mro__:
        for value in vars(each).values():
            scope = getattr(value, "__globals__", None)
            if scope is not None and id(scope) not in yielded:
                yielded.add(id(scope))
                yield scope


class HostedService(KeyValueServiceServicer):
    """Serves the class in the file `settings.servicer`, on threads."""

    def __init__(
        self, settings: ServerSettings, counts: Counts, pool: MeasuredPool | None = None
    ) -> None:
        servicer = unpacked(Path(settings.servicer or ""))
        replace_in_code(servicer, _replacements())
        self._servicer = servicer(*self._back_end(settings))
        self._settings, self._counts, self._pool = settings, counts, pool
        self._observed = _Observed()
        for name, kind in METHODS.items():
            if method := getattr(self._servicer, name, None):
                setattr(self, name, self._measured(method, kind))
        if stream := getattr(self._servicer, "Pipeline", None):
            setattr(self, "Pipeline", stream)  # noqa: B010 - as the methods above

    def observed(self) -> ServerSettings:
        """Return the settings, with the disk times and the locking that were seen so far."""
        observed = self._observed
        return replace(
            self._settings,
            locking=observed.locking,
            read_delay_s=min(59.0, observed.mean_s(RETRIEVE)),
            write_delay_s=min(59.0, observed.mean_s(CREATE, UPDATE, DELETE)),
        )

    def close(self) -> None:
        """Release nothing: the process ends."""

    def _back_end(self, settings: ServerSettings) -> list[KeyValueServiceStub]:
        """Return the stub of the back end, which the servicer gets; nothing without one."""
        if settings.back_end is None:
            return []
        return [KeyValueServiceStub(self._open(settings.back_end, options=OPTIONS))]

    _open = staticmethod(grpc.insecure_channel)

    def _measured(self, method: Callable[..., Any], kind: int) -> Callable[..., Any]:
        def answer(request: Any, context: Any) -> Any:
            clock = self._begin(kind)
            try:
                reply = method(request, context)
            except Exception:
                self._end(clock, context, grpc.StatusCode.UNKNOWN)
                raise
            self._end(clock, context, grpc.StatusCode.OK)
            return reply

        return answer

    def _begin(self, kind: int) -> _CallClock:
        waited_s = 0.0 if self._pool is None else self._pool.waited_s()
        clock = _CallClock(waited_s, kind, self._observed)
        _clock.set(clock)
        self._observed.calls[kind] += 1
        return clock

    def _end(self, clock: _CallClock, context: Any, otherwise: grpc.StatusCode) -> None:
        """Count the call, with the status that the method set or, without one, `otherwise`."""
        _clock.set(None)
        code = context.code()
        status = code.value[0] if isinstance(code, grpc.StatusCode) else int(code or 0)
        self._counts.add(clock.kind, status or otherwise.value[0])
        if self._settings.station_times:
            context.set_trailing_metadata(((METADATA_KEY, to_header(clock.times())),))


class AsyncHostedService(HostedService):
    """Serves a class whose methods are coroutines, on the event loop."""

    _open = staticmethod(grpc.aio.insecure_channel)

    async def close(self) -> None:  # type: ignore[override]
        """Release nothing: the process ends."""

    def _measured(self, method: Callable[..., Any], kind: int) -> Callable[..., Any]:
        async def answer(request: Any, context: Any) -> Any:
            clock = self._begin(kind)
            try:
                reply = await method(request, context)
            except Exception:
                self._end(clock, context, grpc.StatusCode.UNKNOWN)
                raise
            self._end(clock, context, grpc.StatusCode.OK)
            return reply

        return answer
