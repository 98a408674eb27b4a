"""The faults: how each is provoked, and what a run has to say about it.

A fault is a context manager that yields a `Scene`: the server as the client sees it, and what
happens to it once some calls were answered.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kvstore.client import workload
from kvstore.client.workload import Workload
from kvstore.server import Server, serving

QUICK = {"read_delay_s": 0.001, "write_delay_s": 0.002, "locking": "per_key"}
SMALL = workload.crud(value_bytes_mean=100)
DEADLINE_S = 0.4
ENDS = frozenset({"OK", "NOT_FOUND", "ALREADY_EXISTS"})
"""How calls end where nothing is wrong: a create that was not acknowledged may have been done."""


def nothing() -> None:
    """Happens where the fault is there from the start."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The stage of a run."""

    target: object
    happens: Callable[[], object] = nothing
    """Called once, when some calls were answered."""
    server: Server | None = None
    """A server of ours that must still answer after the run, and whose counts are compared."""
    options: dict[str, Any] = field(default_factory=dict)
    workload: Workload = SMALL
    grace_s: float = 0.0
    """Seconds that the server gives its calls before it ends."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a run must say. Each text may name several alternatives, separated by |."""

    outcome: str = "complete"
    """Outcomes of a run, or the class of the error where there is no run."""
    may: str = ""
    """Statuses that are allowed besides `ENDS`."""
    shows: str = ""
    """Statuses of which at least one must occur; they are allowed too. A run that ended because the
    server is gone need not have any: the server may have gone between two calls."""
    says: str = ""
    """A pattern that the error, or the run itself, must contain: the cause and the next step."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, by its name."""

    name: str
    scene: Callable[[Server], "contextlib.AbstractContextManager[Scene]"]
    """A function of a server that the faults share."""
    unary: Expected
    stream: Expected | None = None
    """What is different for a strategy that uses a stream."""


FAULTS: list[Fault] = []

Scenes = Callable[[Server], Iterator[Scene]]


def fault(unary: Expected, stream: Expected | None = None) -> Callable[[Scenes], Scenes]:
    """Add a fault to the table, under the name of the function."""

    def add(scenes: Scenes) -> Scenes:
        name = scenes.__name__.replace("_", " ").strip()
        FAULTS.append(Fault(name, contextmanager(scenes), unary, stream))
        return scenes

    return add


NOT_REACHED = Expected("ServerNotReached", says="no server answers at .*Is it running")
BROKEN_STREAM = Expected("failed", shows="NO_ANSWER", says="UNAVAILABLE|the server closed it|broke")


LATE = Expected("complete|server unresponsive", shows="DEADLINE_EXCEEDED")
LATE_STREAM = Expected(
    "failed|server unresponsive", shows="NO_ANSWER", says="no reply within the deadline|stopped"
)


ENDED = "UNAVAILABLE|CANCELLED|NO_ANSWER"
GONE = Expected("server gone", may=ENDED, says="ended after .* Start it again")
SILENT = Expected("server unresponsive", shows="DEADLINE_EXCEEDED", says="stopped answering after")
SILENT_STREAM = Expected("server unresponsive", shows="NO_ANSWER", says="stopped answering after")


@contextmanager
def doomed(shared: Server, **settings: Any) -> Iterator[Server]:
    """Serve as the shared server does, from a process that may be harmed."""
    aio = shared.settings.use_asyncio
    with serving(**{**QUICK, "use_asyncio": aio, **settings}) as server:
        yield server


def named(name: str, scene: Callable[[Server], Iterator[Scene]]) -> Callable[..., Iterator[Scene]]:
    """Return the scene under another name."""
    scene.__name__ = name
    return scene
