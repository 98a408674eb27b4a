"""`serving`: a server in a process of its own, for as long as a block lasts."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from kvstore.lifeline import Child, child
from kvstore.server.settings import ServerSettings

START_S = 20.0
"""Seconds a server gets to come up; a cold import on a slow laptop takes several."""

SIDE_BY_SIDE = 4
"""So many servers come up at the same time: more would only be in each other's way."""


@dataclass(frozen=True)
class Server:
    """A running server: where it is, who it is, how it was set."""

    address: str
    """Host and port, as gRPC clients want it."""
    identity: str
    """The word it must answer to, so that no other server is measured by mistake."""
    settings: ServerSettings
    child: Child = field(repr=False)

    @property
    def pid(self) -> int:
        """The process id."""
        return self.child.pid

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of all its processes: this one."""
        return (self.pid,)

    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.child.alive()

    def kill(self) -> None:
        """End it at once, as a crash does; return when it is gone."""
        self.child.popen.kill()
        self.child.popen.wait()


class ServerDidNotStart(RuntimeError):
    """The server's process ended, or said nothing, before it listened."""


@contextmanager
def serving(**settings: Any) -> Iterator[Server]:
    """Serve from a process of its own while the block lasts; yield where to reach it.

    The settings are those of `ServerSettings`. The process ends with the block, and
    with this process however that one ends.

    Raises:
        ValueError: a setting makes no sense.
        ServerDidNotStart: with the server's own words when it could not come up.
    """
    chosen = _settings(settings)
    identity = secrets.token_hex(8)
    with child("kvstore.server", [*_arguments(chosen), "--identity", identity]) as process:
        address = process.first_line(START_S)
        if not address:
            raise ServerDidNotStart(_why(process))
        yield Server(address, identity, chosen, process)


@contextmanager
def serving_each(every: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Server, ...]]:
    """Serve from a process for each of these settings while the block lasts.

    They come up side by side, `SIDE_BY_SIDE` at a time: most of a start is imports, and a class
    waits for them. Raises as `serving` does, of any of them; the others are stopped.
    """
    with ExitStack() as running:
        with ThreadPoolExecutor(SIDE_BY_SIDE) as starting:
            servers = starting.map(
                lambda settings: running.enter_context(serving(**settings)), every
            )
        yield tuple(servers)


def _settings(settings: dict[str, Any]) -> ServerSettings:
    try:
        return ServerSettings(**settings)
    except TypeError:
        known = ServerSettings.__dataclass_fields__
        unknown = ", ".join(sorted(set(settings) - set(known)))
        raise ValueError(
            f"serving() knows no setting {unknown}; it knows {', '.join(known)}"
        ) from None


def _arguments(settings: ServerSettings) -> list[str]:
    arguments = [
        f"--read-delay-s={settings.read_delay_s}",
        f"--write-delay-s={settings.write_delay_s}",
        f"--locking={settings.locking}",
        f"--writing={settings.writing}",
        f"--port={settings.port}",
        "--asyncio" if settings.use_asyncio else f"--threads={settings.threads}",
    ]
    if settings.max_concurrent_rpcs is not None:
        arguments.append(f"--max-concurrent-rpcs={settings.max_concurrent_rpcs}")
    if settings.max_streams is not None:
        arguments.append(f"--max-streams={settings.max_streams}")
    if not settings.refuse_streams:
        arguments.append("--no-refuse-streams")
    if settings.group_commit:
        arguments.append("--group-commit")
    if settings.time_needed_s:
        arguments.append(f"--time-needed-s={settings.time_needed_s}")
    if settings.stall_s:
        arguments += [f"--stall-s={settings.stall_s}", f"--stall-every-s={settings.stall_every_s}"]
    if settings.station_times:
        arguments.append("--station-times")
    if settings.metadata_work:
        arguments.append(f"--metadata-work={settings.metadata_work}")
    if settings.default_limits:
        arguments.append("--default-limits")
    if not settings.settle_garbage:
        arguments.append("--leave-garbage")
    if settings.data_dir is not None:
        arguments.append(f"--data-dir={settings.data_dir}")
    if settings.back_end is not None:
        arguments.append(f"--back-end={settings.back_end}")
    if settings.write_quorum is not None:
        arguments.append(f"--write-quorum={settings.write_quorum}")
    return arguments


def _why(process: Child) -> str:
    status = process.ended(within_s=1.0)  # end of file comes a moment before the end itself
    if status is None:
        return f"the server printed no address within {START_S:g} s; its process was ended"
    said = process.error_text() or "it said nothing"
    return f"the server ended before it listened (exit status {status}): {said}"
