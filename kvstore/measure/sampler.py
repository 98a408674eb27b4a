"""Memory, threads and processor time of two processes, looked at from outside."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import psutil

from kvstore.collector import CollectorWatch
from kvstore.measure.run import NO_CPU, Cpu

if TYPE_CHECKING:  # see run.py
    import pandas as pd

_T = TypeVar("_T")


class Sample(NamedTuple):
    """One look at a run; NaN where the server's process cannot be seen from here."""

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
    """Collections of Python's garbage collector by generation, and their seconds."""
    server_young: float = np.nan
    server_middle: float = np.nan
    server_full: float = np.nan
    server_pause_s: float = np.nan
    """The server's are known after the run: it is asked for them then."""


class Sampler:
    """Looks at this process and, if they run on this machine, at those of the servers.

    What is said of the server is said of all of them together, where there are several.
    """

    def __init__(
        self, server_pids: int | Sequence[int] | None, collector: CollectorWatch | None = None
    ) -> None:
        import pandas as pd  # now, not after the run: at a memory ceiling it would have no room

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

    def start_over(self) -> None:
        """Forget what was seen so far: the run begins now, with nothing in flight."""
        self._samples = []
        self._cpu_before = self._cpu_now()
        self._machine_before_s = machine_busy_s()
        self._stolen_before_s = machine_stolen_s()
        self.look(0.0, 0, 0)

    def look(self, elapsed_s: float, issued: int, answered: int) -> Sample:
        """Take one sample and keep it."""
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
        return sample

    def _collected(self) -> tuple[float, ...]:
        """Collections here since the sampler was made; nothing where nobody watches them."""
        if self._collector is None or self._collected_before is None:
            return ()
        pairs = zip(self._collector.now(), self._collected_before, strict=True)
        return tuple(now - before for now, before in pairs)

    def largest_rss_bytes(self) -> float:
        """The largest process's resident memory now."""
        return float(np.nanmax([_rss(each) for each in (self._client, *self._servers)]))

    @property
    def watches_server(self) -> bool:
        """Whether a server's process was seen here."""
        return bool(self._servers)

    def server_gone(self) -> bool:
        """Whether a server's process was seen here and has ended."""
        return not all(_runs(server) for server in self._servers)

    def cpu(self) -> tuple[Cpu, Cpu]:
        """Processor time of client and server since this sampler was made."""
        (c0, s0), (c1, s1) = self._cpu_before, self._cpu_now()
        return (
            Cpu(c1.user_s - c0.user_s, c1.system_s - c0.system_s),
            Cpu(s1.user_s - s0.user_s, s1.system_s - s0.system_s),
        )

    def _cpu_now(self) -> tuple[Cpu, Cpu]:
        servers = [_cpu(server) for server in self._servers] or [NO_CPU]
        return _cpu(self._client), Cpu(*(sum(each) for each in zip(*servers, strict=True)))

    def machine_cpu_s(self) -> float:
        """Processor seconds that all programs of this machine used since the run began."""
        return machine_busy_s() - self._machine_before_s

    def machine_stolen_s(self) -> float:
        """Processor seconds that the machine's host gave to others since the run began."""
        return machine_stolen_s() - self._stolen_before_s

    def frame(self) -> "pd.DataFrame":
        """All samples, one row each."""
        return self._table(self._samples, columns=list(Sample._fields), dtype=float)


def machine_busy_s() -> float:
    """Processor seconds of all cores together since the start of the machine, idle ones apart.

    Time that a host of virtual machines took away ("steal") was not ours to use: it counts.
    """
    times = psutil.cpu_times()._asdict()
    idle = ("idle", "iowait", "guest", "guest_nice")  # a guest's time is in the user's already
    return float(sum(seconds for name, seconds in times.items() if name not in idle))


def machine_stolen_s() -> float:
    """Processor seconds that programs of a virtual machine wanted and its host gave to others.

    Since the start of the machine, all cores together; NaN where the system does not tell, and
    only Linux does. On a machine that shares with nobody they are 0.
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
