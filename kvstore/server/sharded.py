"""`serving_sharded`: several server processes for as long as a block lasts, each with a shard."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvstore.server.process import Server, serving_each
from kvstore.server.settings import ServerSettings

MOST_PROCESSES = 64
"""More server processes than this were never meant: each takes some 50 MB."""


@dataclass(frozen=True)
class ShardedServer:
    """Running servers that share out the keys: server number i keeps those of shard i."""

    servers: tuple[Server, ...]

    @property
    def address(self) -> str:
        """Host and port of each server in the order of their shards, with commas between."""
        return ",".join(server.address for server in self.servers)

    @property
    def identity(self) -> str:
        """The word each of them must answer to, in the same order, with commas between."""
        return ",".join(server.identity for server in self.servers)

    @property
    def settings(self) -> ServerSettings:
        """How they are set: all alike."""
        return self.servers[0].settings

    @property
    def pids(self) -> tuple[int, ...]:
        """Their process ids."""
        return tuple(server.pid for server in self.servers)

    def alive(self) -> bool:
        """Whether every one of the processes still runs."""
        return all(server.alive() for server in self.servers)


@contextmanager
def serving_sharded(processes: int, **settings: Any) -> Iterator[ShardedServer]:
    """Serve from `processes` processes while the block lasts; yield where to reach them.

    Each has a port, an identity and a store of its own, and keeps the keys of one shard; a run
    against what is yielded sends each operation to the server that `shards.shard_of` names for
    its key. The settings are those of `serving`, the same for all; a thread pool of 8 is 8
    threads in each, and a `data_dir` gets a folder below it for each, named after its shard and
    how many there are: another number of shards begins empty. All processes end with the block.

    Why not one port for all, which SO_REUSEPORT would allow? The kernel then chooses a server
    for each *connection*, knowing nothing of keys: a client that reconnects finds other data.
    And a server left over from yesterday may share the port, and nobody would notice.

    Raises:
        ValueError: a setting makes no sense, or names one port for several servers.
        ServerDidNotStart: one of them could not come up; the others are stopped.
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
    """The settings of one of them: two servers cannot write into one folder."""
    if processes == 1 or not isinstance(settings.get("data_dir"), str):
        return settings
    folder = Path(settings["data_dir"]) / f"shard-{shard}-of-{processes}"
    return {**settings, "data_dir": str(folder)}
