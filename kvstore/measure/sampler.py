"""Samples of client and server over time: memory, threads, CPU time, garbage collections."""

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import psutil

from kvstore.gc_control import Collections, CollectorWatch, Moment

if TYPE_CHECKING:  # see run.py
    import pandas as pd


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
    client_young: float = np.nan
    client_middle: float = np.nan
    client_full: float = np.nan
    client_pause_s: float = np.nan
    """Garbage collections of Python by generation, and their total duration in seconds."""
    server_young: float = np.nan
    server_middle: float = np.nan
    server_full: float = np.nan
    server_pause_s: float = np.nan
    """The server's collections are filled in after the run, from its report."""


class Sampler:
    """Samples this process and the servers' processes, if they run on this machine.

    The values of several servers are added up.
    """

    def __init__(
        self, server_pids: int | Sequence[int] | None, collector: CollectorWatch | None = None
    ) -> None:
        import pandas as pd  # now: after a run at its memory ceiling there would be no memory

        self._table = pd.DataFrame
        self._client = psutil.Process()
        pids = [server_pids] if isinstance(server_pids, int) else server_pids or []
        self._servers = [process for pid in pids if (process := _process(pid)) is not None]
        self._collector = collector
        self._collected_before = collector.now() if collector else None
        self._samples: list[Sample] = []
        self._cpu_before = self._cpu_now()
        self._machine_before_s = machine_busy_s()
        self._stolen_before_s = machine_stolen_s()
        self._clock_before_s = _clock_s()
        self._clock_steps_s = [0.0]

    def start_over(self) -> None:
        """Discard all samples: the run starts now, with no call in flight."""
        self._samples = []
        self._cpu_before = self._cpu_now()
        self._machine_before_s = machine_busy_s()
        self._stolen_before_s = machine_stolen_s()
        self._clock_before_s, self._clock_steps_s = _clock_s(), [0.0]
        self.look(0.0, 0, 0)

    def look(self, elapsed_s: float, issued: int, answered: int) -> Sample:
        """Take one sample, keep it and return it."""
        client_rss, client_threads = _memory_and_threads(self._client)
        seen = [_memory_and_threads(server) for server in self._servers] or [(np.nan, np.nan)]
        server_rss, server_threads = (sum(each) for each in zip(*seen, strict=True))
        collected = self._collected()
        sample = Sample(
            elapsed_s, issued - answered, issued, answered,
            client_rss, server_rss, client_threads, server_threads,
            *collected,
        )  # fmt: skip
        self._samples.append(sample)
        self._clock_steps_s.append(_clock_s() - self._clock_before_s)
        return sample

    def _collected(self) -> tuple[float, ...]:
        """Return the collections in this process since the sampler was made, if counted."""
        if self._collector is None or self._collected_before is None:
            return ()
        pairs = zip(self._collector.now(), self._collected_before, strict=True)
        return tuple(now - before for now, before in pairs)

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

    def frame(self) -> "pd.DataFrame":
        """Return all samples as a table, one row each."""
        return self._table(self._samples, columns=list(Sample._fields), dtype=float)


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


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


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
    def look() -> Cpu:
        times = process.cpu_times()
        return Cpu(times.user, times.system)

    return _unless_gone(look, NO_CPU)


def columns(side: str) -> list[str]:
    """Return the sample columns with the garbage collections of "client" or "server"."""
    return [f"{side}_{name}" for name in Collections._fields]


def with_server(
    samples: "pd.DataFrame", moments: Sequence[Moment], began_unix_s: float
) -> "pd.DataFrame":
    """Return the samples with the server's garbage collections since the start of the run.

    `began_unix_s` is the start of the run in seconds since 1970. Without `moments` the samples
    are returned unchanged.
    """
    if not moments:
        return samples
    at_s = np.array([moment.at_unix_s - began_unix_s for moment in moments])
    counted = np.array([(0.0, 0.0, 0.0, 0.0), *(moment.collections for moment in moments)])
    begun = counted[np.searchsorted(at_s, 0.0, side="right")]
    by_then = counted[np.searchsorted(at_s, samples["elapsed_s"], side="right")]
    filled = samples.copy()
    filled[columns("server")] = by_then - begun
    return filled
