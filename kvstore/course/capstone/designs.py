"""Designs: a strategy of the client, and changes of the server that cost days."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from kvstore.client import strategies
from kvstore.client.strategies import Strategy

STRATEGIES: Final[Mapping[str, Strategy]] = MappingProxyType(
    {
        "blocking": strategies.blocking,
        "bounded": strategies.bounded,
        "tasks": strategies.tasks,
        "pipelined": strategies.pipelined,
    }
)
"""The strategies a design may name."""

CHANGES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "threads=32": {"threads": 32},
        "threads=128": {"threads": 128},
        "asyncio": {"use_asyncio": True},
        "per_key": {"locking": "per_key"},
        "group_commit": {"group_commit": True},
        "servers=2": {"servers": 2},
    }
)
"""The changes of a server, and the settings that each one sets; `servers` is the number of
processes that share the keys."""

STREAM_DAYS: Final = 1
"""The days to rewrite a client so that it sends its operations over a stream."""


@dataclass(frozen=True, slots=True)
class Design:
    """A strategy of the client with its options, and changes of the server.

    `Design()` changes nothing and has one call in flight. A case decides whether it accepts a
    design, and its cost: see `Case.refuse` and `Case.cost_days`.
    """

    strategy: str = "blocking"
    """One of `STRATEGIES`."""
    in_flight: int = 1
    """The limit of calls in flight; a message of a stream is one call."""
    batch: int = 1
    """Operations in one message; `pipelined` only."""
    streams: int = 1
    """Streams that share the calls in flight; `pipelined` only."""
    connections: int = 1
    """Connections that share the calls, or the streams."""
    changes: tuple[str, ...] = ()
    """Names out of `CHANGES`."""

    @property
    def options(self) -> dict[str, int]:
        """Return the options of the strategy for `load.run`."""
        options = {"in_flight": self.in_flight, "connections": self.connections}
        if self.strategy == "pipelined":
            options |= {"batch": self.batch, "streams": self.streams}
        return options

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings that its changes set at each server."""
        return {name: value for name, value in self._changed().items() if name != "servers"}

    @property
    def servers(self) -> int:
        """Return the number of server processes that share the keys."""
        return int(self._changed().get("servers", 1))

    def _changed(self) -> dict[str, Any]:
        return {name: value for change in self.changes for name, value in CHANGES[change].items()}

    def __str__(self) -> str:
        words = [f"{self.strategy} x{self.in_flight}"]
        words += [f"batch {self.batch}"] if self.batch > 1 else []
        words += [f"{self.streams} streams"] if self.streams > 1 else []
        words += [f"{self.connections} connections"] if self.connections > 1 else []
        return ", ".join([*words, *self.changes])


class DesignRefused(ValueError):
    """A design that is impossible, not on offer or too expensive; the message says why."""


def own_problem(design: Design) -> str | None:
    """Return in words why no case can accept the design; None if some case can."""
    if design.strategy not in STRATEGIES:
        return f"strategy must be one of {', '.join(STRATEGIES)}, got {design.strategy!r}"
    for name in ("in_flight", "batch", "streams", "connections"):
        value = getattr(design, name)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 100_000:
            return f"{name} must be a whole number from 1 to 100,000, got {value!r}"
    if isinstance(design.changes, str):
        return f'changes must be a tuple: write changes=("{design.changes}",), comma included'
    if not isinstance(design.changes, tuple | list):
        return f"changes must be a tuple of names, or () for none, got {design.changes!r}"
    if design.strategy == "blocking" and design.in_flight > 1:
        return (
            f"blocking has one call in flight, got in_flight={design.in_flight}: use `bounded` or"
            " `tasks` for several"
        )
    for name in ("batch", "streams"):
        if design.strategy != "pipelined" and getattr(design, name) > 1:
            return (
                f"{name}={getattr(design, name)} needs messages on a stream, but {design.strategy}"
                ' makes one call for each operation: use strategy="pipelined"'
            )
    if design.streams > design.in_flight:
        return f"{design.streams} streams share {design.in_flight} calls in flight: some have none"
    carriers = design.streams if design.strategy == "pipelined" else design.in_flight
    if design.connections > carriers:
        what = "streams" if design.strategy == "pipelined" else "calls in flight"
        return f"{design.connections} connections for {carriers} {what}: some would carry nothing"
    unknown = [change for change in design.changes if change not in CHANGES]
    if unknown:
        return f"changes must be among {', '.join(CHANGES)}, got {unknown[0]!r}"
    named = [name for change in design.changes for name in CHANGES[change]]
    if len(named) > len(set(named)):
        return f"{' and '.join(design.changes)} change the same setting: choose one of them"
    if {"threads", "use_asyncio"} <= set(named):
        return "an event loop has no pool: choose either asyncio or more threads"
    return None
