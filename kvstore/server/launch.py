"""`serving` and `serving_sharded`: servers in their own processes, for a block.

A sharded server is several processes, each of which has a part of the keys.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvstore import transport
from kvstore.server.errors import ServerDidNotStart
from kvstore.server.settings import ServerSettings
from kvstore.subprocesses import Child, child

START_S = 20.0
"""Seconds in which a server must start; a cold import on a slow laptop takes several."""

SIDE_BY_SIDE = 4
"""Number of servers that start at the same time; more would only compete for the cores."""


@dataclass(frozen=True)
class Server:
    """A running server: its address, identity and settings."""

    address: str
    """Host and port, as gRPC clients take it."""
    identity: str
    """The word that it reports, so that no other server is measured by mistake."""
    settings: ServerSettings
    child: Child = field(repr=False)

    @property
    def pid(self) -> int:
        """The process id."""
        return self.child.pid

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of all its processes: one."""
        return (self.pid,)

    def alive(self) -> bool:
        """Return whether the process still runs."""
        return self.child.alive()

    def kill(self) -> None:
        """End the process at once, as a crash does; return when it has ended."""
        self.child.popen.kill()
        self.child.popen.wait()


@contextmanager
def serving(**settings: Any) -> Iterator[Server]:
    """Serve from a process of its own while the block lasts; yield the server.

    The settings are those of `ServerSettings`. The process ends with the block, and when this
    process ends in any way.

    Raises:
        ValueError: a setting makes no sense.
        ServerDidNotStart: with the server's error output when it could not start.
    """
    chosen = _settings(settings)
    identity = secrets.token_hex(8)
    arguments = [f"--settings={chosen.to_json()}", f"--identity={identity}"]
    environment = transport.environment(chosen.transport)
    with child("kvstore.server", arguments, environment=environment) as process:
        address = process.first_line(START_S)
        if not address:
            raise ServerDidNotStart(_why(process))
        yield Server(address, identity, chosen, process)


@contextmanager
def serving_each(every: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Server, ...]]:
    """Serve from a process for each of these settings while the block lasts.

    `SIDE_BY_SIDE` servers start at the same time, because a start is mostly imports. Raises as
    `serving` does for any of them; the others are stopped.
    """
    with ExitStack() as running:
        starting = ThreadPoolExecutor(SIDE_BY_SIDE)
        try:
            servers = tuple(
                starting.map(lambda settings: running.enter_context(serving(**settings)), every)
            )
        finally:
            # After Ctrl-C too: a server that is starting has to be in `running`, which stops it.
            starting.shutdown(cancel_futures=True)
        yield servers


def _settings(settings: dict[str, Any]) -> ServerSettings:
    try:
        return ServerSettings(**settings)
    except TypeError:
        known = ServerSettings.__dataclass_fields__
        unknown = ", ".join(sorted(set(settings) - set(known)))
        raise ValueError(
            f"serving() knows no setting {unknown}; it knows {', '.join(known)}"
        ) from None


def _why(process: Child) -> str:
    status = process.ended(within_s=1.0)  # the output ends a moment before the process
    if status is None:
        return f"the server printed no address within {START_S:g} s; its process was ended"
    text = process.error_text() or "it wrote no error"
    return f"the server ended before it listened (exit status {status}): {text}"


MOST_PROCESSES = 64
"""Limit on the server processes: each takes some 50 MB."""


@dataclass(frozen=True)
class ShardedServer:
    """Running servers that share the keys: server number i has those of shard i."""

    servers: tuple[Server, ...]

    @property
    def address(self) -> str:
        """Host and port of each server in the order of the shards, separated by commas."""
        return ",".join(server.address for server in self.servers)

    @property
    def identity(self) -> str:
        """The identity of each server in the same order, separated by commas."""
        return ",".join(server.identity for server in self.servers)

    @property
    def settings(self) -> ServerSettings:
        """Their settings, which are the same for all."""
        return self.servers[0].settings

    @property
    def pids(self) -> tuple[int, ...]:
        """Their process ids."""
        return tuple(server.pid for server in self.servers)

    def alive(self) -> bool:
        """Return whether all of the processes still run."""
        return all(server.alive() for server in self.servers)


@contextmanager
def serving_sharded(processes: int, **settings: Any) -> Iterator[ShardedServer]:
    """Serve from `processes` processes while the block lasts; yield the servers.

    Each has its own port, identity and store, and has the keys of one shard; a run sends each
    operation to the server of its key, by `protocol.shard_of`. The settings are those of `serving`,
    the same for all; a thread pool of 8 has 8 threads in each process. With
    `sqlite:FOLDER` each server has a folder in it, named after its shard and the number of shards:
    another number of shards starts empty. All processes end with the block.

    The servers do not share one port, as SO_REUSEPORT would allow: the kernel would then choose a
    server for each *connection*, whatever its keys, so a client that reconnects would find other
    data. And a server left running by mistake could share the port without notice.

    Raises:
        ValueError: a setting makes no sense, or names one port for several servers.
        ServerDidNotStart: one of them could not start; the others are stopped.
    """
    if not isinstance(processes, int) or isinstance(processes, bool):
        raise ValueError(f"processes must be a whole number, got {processes!r}")
    if not 1 <= processes <= MOST_PROCESSES:
        raise ValueError(f"processes must be from 1 to {MOST_PROCESSES}, got {processes}")
    if settings.get("port", 0) and processes > 1:
        raise ValueError(
            f"{processes} servers cannot share port {settings['port']}: leave the port out, and"
            " each takes a free one"
        )
    with serving_each([_of_shard(n, processes, settings) for n in range(processes)]) as servers:
        yield ShardedServer(servers)


def _of_shard(shard: int, processes: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of one shard: each server needs its own folder."""
    store = settings.get("store")
    if processes == 1 or not isinstance(store, str) or not store.startswith("sqlite:"):
        return settings
    return {**settings, "store": str(Path(store) / f"shard-{shard}-of-{processes}")}
