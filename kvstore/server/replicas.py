"""`serving_replicated`: several servers with the same data, and a front that keeps them alike."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kvstore.server.process import Server, serving, serving_each

MOST_REPLICAS = 16
"""More copies than this were never meant: each write goes to all of them."""


@dataclass(frozen=True)
class ReplicatedServer:
    """A running front, which is what a client talks to, and the replicas behind it."""

    front: Server
    replicas: tuple[Server, ...]

    def kill(self, number: int) -> None:
        """End one replica at once, as a crash does; return when it is gone."""
        self.replicas[number].kill()


@contextmanager
def serving_replicated(
    replicas: Sequence[Mapping[str, Any]], *, write_quorum: int, station_times: bool = False
) -> Iterator[ReplicatedServer]:
    """Serve from a front and one replica for each of `replicas`, while the block lasts.

    Each of them is the settings of one replica, as `serving` takes them: `3 * [settings]` are
    three alike. A write is answered when `write_quorum` replicas have answered it. All
    processes end with the block.

    Raises:
        ValueError: no replica, more than `MOST_REPLICAS`, or a setting that makes no sense.
        ServerDidNotStart: one of them could not come up; the others are stopped.
    """
    if not 1 <= len(replicas) <= MOST_REPLICAS:
        raise ValueError(f"replicas must be from 1 to {MOST_REPLICAS}, got {len(replicas)}")
    with (
        serving_each(replicas) as behind,
        serving(
            use_asyncio=True,
            back_end=",".join(server.address for server in behind),
            write_quorum=write_quorum,
            station_times=station_times,
        ) as front,
    ):
        yield ReplicatedServer(front, behind)
