"""What is recorded during a run: one record for each call; samples of client and server.

A record has 56 bytes. Recording takes a fraction of a microsecond and works from any thread.
"""

import math
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import psutil

from kvstore.protocol import UNKNOWN_STATIONS, StationTimes

Records = npt.NDArray[np.void]
"""Rows of `CALL`, or of `SAMPLE`."""
Times = npt.NDArray[np.float64]
"""A number for each call or sample, most often seconds."""

PACKED: Final = np.dtype(
    [
        ("due_s", "<f8"),
        ("sent_s", "<f8"),
        ("done_s", "<f8"),
        ("pool_s", "<f4"),
        ("lock_s", "<f4"),
        ("disk_s", "<f4"),
        ("rest_s", "<f4"),
        ("request_bytes", "<u4"),
        ("reply_bytes", "<u4"),
        ("kind", "u1"),
        ("status", "u1"),
        ("operations", "<u2"),
        ("ok_operations", "<u2"),
        ("connection", "<u2"),
    ]
)
"""One call as it is recorded, in as few bytes as possible."""

CALL: Final = np.dtype(
    [
        (name, np.dtype("<i8") if PACKED[name].kind == "u" else PACKED[name])
        for name in PACKED.names or ()
    ]
)
"""One call as it is analysed. Times are seconds since the start of the run; `due_s` is NaN in a
closed loop. Integers have eight bytes and a sign, because numpy keeps the type of the columns that
it adds or subtracts, also in `np.histogram(weights=...)`. Two bytes would overflow at 65,536, and
without a sign a difference would overflow below 0."""

MOST_OPERATIONS: Final = 2**16 - 1
"""The maximum number of operations in one recorded call."""

MOST_KINDS: Final = 2**8 - 1
"""The maximum number of kinds of call in one run."""

_LAYOUT: Final = struct.Struct("<ddd 16s II BB HHH")
_STATIONS: Final = struct.Struct("<ffff")
assert _LAYOUT.size == PACKED.itemsize
_REPLY_BYTES: Final = struct.Struct("<I")
_REPLY_BYTES_AT: Final = PACKED.fields["reply_bytes"][1]  # type: ignore[index]
_STATUS_AT: Final = PACKED.fields["status"][1]  # type: ignore[index]
_OK_OPERATIONS_AT: Final = PACKED.fields["ok_operations"][1]  # type: ignore[index]
_UNKNOWN: Final = _STATIONS.pack(*UNKNOWN_STATIONS)
"""Four NaN, packed once, because most servers do not send station times."""


class Recorder:
    """Counts calls when they are sent and keeps one record of the end of each call.

    A record is first packed into bytes of its own thread. `+=` then extends the common buffer in
    place, which is a single step of the interpreter. Threads therefore need no lock, and two
    records cannot mix.
    """

    def __init__(
        self, kinds: Sequence[str] = (), on_start: Callable[[], object] | None = None
    ) -> None:
        """Start the clock. `kinds` are the names to which the column `kind` refers."""
        self._buffer = bytearray()
        self._kinds = list(kinds)
        self._on_start = on_start
        self._origin_s = time.perf_counter()
        self._started = False
        """Whether `start_clock` has set the clock, after which it does not change."""
        self.is_connected = False
        self._naming = threading.Lock()
        self._from_threads = bytearray()
        """One byte for each call that a thread sent. Appending a byte is a single step of the
        interpreter, so no lock is needed and no count is lost."""
        self._from_loop = 0
        self._more_operations = 0
        """Operations that calls carry beyond the first one of each call."""

    # The clock

    def now_s(self) -> float:
        """Return the seconds since the start of the run."""
        return time.perf_counter() - self._origin_s

    def seconds_at(self, reading_s: float) -> float:
        """Return the seconds of the run at this reading of `time.perf_counter`."""
        return reading_s - self._origin_s

    def start_clock(self, origin_s: float) -> None:
        """Set the start of the run to this reading of `time.perf_counter`, finally."""
        self._origin_s, self._started = origin_s, True

    def connected(self) -> None:
        """Restart the clock, because all connections are ready. No effect after the first call."""
        if not self._started and not self.issued:
            self._origin_s = time.perf_counter()
            if self._on_start is not None:
                self._on_start()
        self.is_connected = True

    # The counts

    @property
    def issued(self) -> int:
        """Calls sent."""
        return len(self._from_threads) + self._from_loop

    @property
    def issued_operations(self) -> int:
        """Operations in the calls sent."""
        return self.issued + self._more_operations

    @property
    def in_flight(self) -> int:
        """Calls sent that have not ended."""
        return self.issued - len(self)

    def sending(self, operations: int = 1) -> float:
        """Count one call sent by a thread; return its sending time in seconds of the run."""
        self._from_threads.append(0)
        if operations != 1:  # only on a stream
            with self._naming:  # `+=` alone loses counts when several threads send at once
                self._more_operations += operations - 1
        return time.perf_counter() - self._origin_s

    def sending_from_loop(self, operations: int = 1) -> float:
        """Count one call sent from the event loop; only the loop's thread may call this."""
        self._from_loop += 1
        self._more_operations += operations - 1
        return time.perf_counter() - self._origin_s

    # The records

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of the kinds of call, indexed by their number in the records."""
        return tuple(self._kinds)

    def kind(self, name: str) -> int:
        """Return the number of the kind with this name; an unknown name becomes a new kind."""
        with self._naming:
            if name not in self._kinds:
                if len(self._kinds) > MOST_KINDS:
                    raise ValueError(
                        f"a run can have {MOST_KINDS + 1} kinds of call at most: {name!r} is one"
                        " too many"
                    )
                self._kinds.append(name)
            return self._kinds.index(name)

    def __len__(self) -> int:
        return len(self._buffer) // _LAYOUT.size

    def record(
        self,
        due_s: float,
        sent_s: float,
        done_s: float,
        kind: int,
        status: int,
        request_bytes: int,
        reply_bytes: int,
        stations: StationTimes = UNKNOWN_STATIONS,
        operations: int = 1,
        ok_operations: int | None = None,
        connection: int = 0,
    ) -> None:
        """Append the record of one call; times are seconds of the run."""
        if ok_operations is None:
            ok_operations = 0 if status else 1
        self._buffer += _LAYOUT.pack(
            due_s,
            sent_s,
            done_s,
            _UNKNOWN if stations is UNKNOWN_STATIONS else _STATIONS.pack(*stations),
            request_bytes,
            reply_bytes,
            kind,
            status,
            operations,
            ok_operations,
            connection,
        )

    def set_reply_bytes(self, number: int, reply_bytes: int) -> None:
        """Set the size of a reply in the record of this number; only if one thread records."""
        at = number * _LAYOUT.size + _REPLY_BYTES_AT
        _REPLY_BYTES.pack_into(self._buffer, at, reply_bytes)

    def set_failed(self, number: int, status: int) -> None:
        """Set the status of a call that ended as OK, and whose reply could not be read."""
        at = number * _LAYOUT.size
        self._buffer[at + _STATUS_AT] = status
        self._buffer[at + _OK_OPERATIONS_AT : at + _OK_OPERATIONS_AT + 2] = bytes(2)

    def since(self, first: int) -> Records:
        """Return the records from number `first` on as an array of `CALL`."""
        stored = bytes(self._buffer[first * _LAYOUT.size :])
        records = np.frombuffer(stored, dtype=PACKED).astype(CALL)
        records.flags.writeable = False  # the facts of a run do not change
        return records

    def array(self) -> Records:
        """Return all records so far as an array of `CALL`, in the order of their ends."""
        return self.since(0)


# Samples of client and server over time: memory, threads, CPU time.


_T = TypeVar("_T")


class Cpu(NamedTuple):
    """CPU time of one process during a run, in seconds, as `time` prints it."""

    user_s: float
    system_s: float
    loop_s: float = math.nan
    """The part used by the thread of the event loop; NaN if Python ran in several threads."""

    @property
    def total_s(self) -> float:
        """User and system time together."""
        return self.user_s + self.system_s

    @property
    def serial_s(self) -> float:
        """The CPU seconds during which one call excludes every other call of the process.

        CPython runs one thread at a time. With an event loop, this is the loop's thread; gRPC's
        own threads run beside it on other cores. With a thread pool, the time under the
        interpreter lock cannot be separated from gRPC's own threads. The whole CPU time is then
        used, which is an upper limit.
        """
        return self.total_s if math.isnan(self.loop_s) else self.loop_s


NO_CPU = Cpu(math.nan, math.nan)
"""CPU time of a process that cannot be observed from here."""


class Sample(NamedTuple):
    """The state of a run at one moment; NaN if the server's process cannot be observed here."""

    elapsed_s: float
    in_flight: float
    issued: float
    answered: float
    client_rss_bytes: float
    server_rss_bytes: float
    client_threads: float
    server_threads: float


SAMPLE = np.dtype([(name, np.float64) for name in Sample._fields])
"""The layout of samples: one column for each field of `Sample`."""


def sample_rows(samples: Iterable[Sequence[float]]) -> Records:
    """Return samples as an array of `SAMPLE`."""
    return np.array([tuple(sample) for sample in samples], dtype=SAMPLE)


class Sampler:
    """Samples this process and the servers' processes, if they run on this machine.

    The values of several servers are added up.
    """

    def __init__(self, server_pids: int | Sequence[int] | None) -> None:
        self._client = psutil.Process()
        pids = [server_pids] if isinstance(server_pids, int) else server_pids or []
        processes = [_unless_gone(partial(psutil.Process, pid), None) for pid in pids]
        self._servers = [process for process in processes if process is not None]
        self._begin()

    def start_over(self) -> None:
        """Discard all samples, also one being taken: the run starts now, with no call in flight."""
        self._begin()
        self.look(0.0, 0, 0)

    def _begin(self) -> None:
        self._cpu_before = self._cpu_now()
        self._machine_before_s = machine_busy_s()
        self._stolen_before_s = machine_stolen_s()
        self._clock_before_s = _clock_s()
        self._samples, self._clock_steps_s = list[Sample](), [0.0]

    def look(self, elapsed_s: float, issued: int, answered: int) -> Sample:
        """Take one sample, keep it and return it."""
        samples, clock_steps_s = self._samples, self._clock_steps_s
        client_rss, client_threads = _memory_and_threads(self._client)
        of_each = [_memory_and_threads(server) for server in self._servers] or [(np.nan, np.nan)]
        server_rss, server_threads = (sum(each) for each in zip(*of_each, strict=True))
        sample = Sample(
            elapsed_s,
            issued - answered,
            issued,
            answered,
            client_rss,
            server_rss,
            client_threads,
            server_threads,
        )
        samples.append(sample)
        clock_steps_s.append(_clock_s() - self._clock_before_s)
        return sample

    def largest_rss_bytes(self) -> float:
        """Return the resident memory of the largest observed process, in bytes."""
        return float(np.nanmax([_rss(each) for each in (self._client, *self._servers)]))

    @property
    def watches_server(self) -> bool:
        """Whether the process of a server is observed here."""
        return bool(self._servers)

    def server_gone(self) -> bool:
        """Return whether an observed process of a server has ended."""
        return not all(_runs(server) for server in self._servers)

    def cpu(self) -> tuple[Cpu, Cpu]:
        """Return the CPU time of client and server since this sampler was made."""
        (c0, s0), (c1, s1) = self._cpu_before, self._cpu_now()
        return (
            Cpu(c1.user_s - c0.user_s, c1.system_s - c0.system_s),
            Cpu(s1.user_s - s0.user_s, s1.system_s - s0.system_s),
        )

    def _cpu_now(self) -> tuple[Cpu, Cpu]:
        servers = [_cpu(server) for server in self._servers] or [NO_CPU]
        return _cpu(self._client), Cpu(*(sum(each) for each in zip(*servers, strict=True)))

    def machine_cpu_s(self) -> float:
        """Return the CPU seconds of all programs on this machine since the run began."""
        return machine_busy_s() - self._machine_before_s

    def machine_stolen_s(self) -> float:
        """Return the CPU seconds that the host took from this machine since the run began."""
        return machine_stolen_s() - self._stolen_before_s

    def clock_step_s(self) -> float:
        """Return the largest step of the system's clock against the run's clock since the start."""
        return max(self._clock_steps_s, key=abs)

    def rows(self) -> Records:
        """Return all samples, one row each."""
        return sample_rows(self._samples)


def _clock_s() -> float:
    """Return the system's clock less the clock of the run: constant unless one of them is set."""
    return time.time() - time.perf_counter()


def machine_busy_s() -> float:
    """Return the CPU seconds of all cores since the machine started, without idle time.

    Time that the host took away ("steal") is included, because no program here could use it.
    """
    times = psutil.cpu_times()._asdict()
    idle = ("idle", "iowait", "guest", "guest_nice")  # user time contains guest time already
    return float(sum(seconds for name, seconds in times.items() if name not in idle))


def machine_stolen_s() -> float:
    """Return the CPU seconds that the host took from this virtual machine ("steal").

    They count since the start of the machine, over all cores. Only Linux reports them; elsewhere
    NaN is returned. On a physical machine they are 0.
    """
    return float(getattr(psutil.cpu_times(), "steal", np.nan))


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _unless_gone(look: Callable[[], _T], otherwise: _T) -> _T:
    try:
        return look()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return otherwise


def _rss(process: psutil.Process) -> float:
    return _unless_gone(lambda: float(process.memory_info().rss), np.nan)


def _memory_and_threads(process: psutil.Process) -> tuple[float, float]:
    return _rss(process), _unless_gone(lambda: float(process.num_threads()), np.nan)


def _cpu(process: psutil.Process) -> Cpu:
    return _unless_gone(lambda: Cpu(*process.cpu_times()[:2]), NO_CPU)
