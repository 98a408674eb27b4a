"""What sets the ceiling, where something shows it; else what it could be, and how to find out.

The evidence is the processor time of the generator, of the server (if it runs on this machine) and
of other programs at the ceiling, and the calls that the server refuses.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import psutil

from kvstore.client.channel import Target, local_pids
from kvstore.measure.validity import BUSY
from kvstore.numbers import number
from kvstore.v1 import server_status_pb2 as pb

SHARED: Final = 0.75
"""If client and server together use this share of all cores, they wait for each other's. They do
not reach all of it: a message passes from thread to thread, and each has to be woken."""
ALL: Final = 0.9
"""If all programs together use this share of all cores, the processor is full."""
OTHERS: Final = 0.3
"""Cores. Other programs that use more than this may be what limits the throughput."""
ONE_CORE: Final = (0.8, 1.35)
"""Cores that a server uses whose interpreter runs one thread at a time: gRPC's own threads, which
run beside it, use some more."""


class Cores(NamedTuple):
    """Processor time at a level, in cores; NaN if a process cannot be observed."""

    generator: float = math.nan
    """Of the generator's serial part: its event loop, or its threads under the interpreter lock."""
    generator_all: float = math.nan
    server: float = math.nan
    server_thread: float = math.nan
    """Of the busiest thread of the server."""
    others: float = math.nan
    """Of all other programs on this machine."""

    def __str__(self) -> str:
        parts = {
            "generator": self.generator_all,
            "server": self.server,
            "other programs": self.others,
        }
        return ", ".join(
            f"{name} {'unknown' if math.isnan(value) else format(value, '.2f')}"
            for name, value in parts.items()
        )


class Limit(NamedTuple):
    """What sets the ceiling."""

    name: str
    """In a few words, such as "the load generator" or "not known"."""
    evidence: str
    """What shows it; without evidence, what it could be."""
    next_step: str = ""
    """How to find out, where it is not known, or how to get further."""

    @property
    def known(self) -> bool:
        """Whether something shows it."""
        return self.name != UNKNOWN


UNKNOWN: Final = "not known"


def limit_of(cores: Cores, machine_cores: int, knee: float, *, refuses: str = "") -> Limit:
    """Return what sets the ceiling, from the processor time there and from other evidence.

    `refuses` says how the service refuses more calls.
    """
    known = {name: value for name, value in cores._asdict().items() if not math.isnan(value)}
    generator = known.get("generator", 0.0)
    server, others = known.get("server", 0.0), known.get("others", 0.0)
    generator_all = known.get("generator_all", generator)
    used = f"{cores}, of {machine_cores} cores"
    if generator >= BUSY:
        return Limit(
            "the load generator",
            f"its serial part used {generator:.2f} of one core ({used})",
            "use more workers, or another machine for the generator",
        )
    if refuses:
        return Limit("calls that the service refuses", refuses)
    low, high = ONE_CORE
    if "server" in known and low <= server <= high < machine_cores:
        thread = known.get("server_thread", 0.0)
        if thread >= low * min(1.0, server):
            what = "one thread of the server", "an event loop, or a single worker"
        else:
            what = "one core of the server", "an interpreter lock (GIL), or a single worker"
        return Limit(
            what[0],
            f"the server used {server:.2f} of one core: {what[1]} ({used})",
            "use more server processes",
        )
    if server >= ALL * machine_cores:
        return Limit("the server's processor", used)
    if generator_all + server >= SHARED * machine_cores:
        return Limit(
            "a processor that client and server share",
            used,
            "use another machine for the generator",
        )
    crowded = generator_all + server + others >= ALL * machine_cores and others > OTHERS
    return _not_known(knee, used, "server" in known, crowded)


def _not_known(knee: float, used: str, observed: bool, crowded: bool) -> Limit:
    if knee < 1.5:
        could = "a lock, a disk or a single worker"
        then = "look what a call waits for in the server"
    else:
        could = (
            f"a pool of about {knee:.0f} workers, a limit of streams on a connection, a lock or a"
            " disk in the server, or its back end"
        )
        then = (
            f"use more connections and repeat this, then change the pool: N* is {number(knee)} now,"
            " and it grows with what limits it"
        )
    if crowded:
        could = f"a processor that other programs use too, or {could}"
        then = "close other programs and repeat this"
    if not observed:
        could += ", or its processor, which cannot be observed from here"
    return Limit(UNKNOWN, f"it could be {could} ({used})", f"to find out, {then}")


def server_pids(target: Target) -> list[int]:
    """Return the processes that listen at the target's address on this machine; empty if none."""
    with suppress(OSError, ValueError, psutil.Error):
        return sorted(
            {
                pid
                for each in target.shards
                for pid in local_pids(pb.GetServerStatusResponse(), each)
            }
        )
    return []


def thread_times_s(pids: Sequence[int]) -> dict[tuple[int, int], float]:
    """Return the CPU seconds of each thread of these processes, by process and thread."""
    times_s = {}
    for pid in pids:
        with suppress(psutil.Error):
            for each in psutil.Process(pid).threads():
                times_s[pid, each.id] = each.user_time + each.system_time
    return times_s


def busiest_thread_s(
    before: Mapping[tuple[int, int], float], after: Mapping[tuple[int, int], float]
) -> float:
    """Return the CPU seconds of the thread that used most in between; NaN without a thread."""
    return max((at - before.get(each, 0.0) for each, at in after.items()), default=math.nan)
