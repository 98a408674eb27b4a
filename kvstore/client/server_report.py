"""The servers of a run, and the status that they report before and after it.

A run has one server, or several that each have a shard of the keys; their reports are combined.
"""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import grpc

from kvstore.client.channel import Target, connected, local_pids, server_status
from kvstore.client.errors import ServerNotReached
from kvstore.gc_control import Collections, Moment
from kvstore.measure.outcome import Outcome
from kvstore.v1 import server_status_pb2 as pb


class Servers(NamedTuple):
    """The connected servers, whose identities were checked."""

    targets: Sequence[Target]
    channels: Sequence[grpc.Channel]
    before: pb.GetServerStatusResponse
    """Their combined status when they were connected."""
    pids: Sequence[int]
    """Process ids of the servers on this machine."""

    def status(self, timeout_s: float) -> pb.GetServerStatusResponse:
        """Return their combined status now. Raises `ServerNotReached`."""
        return combined(
            [
                server_status(channel, target, timeout_s)
                for channel, target in zip(self.channels, self.targets, strict=True)
            ]
        )


@contextmanager
def connected_servers(target: Target) -> Iterator[Servers]:
    """Yield the servers of the target, with a channel to each.

    Raises `ServerNotReached` and `WrongServer` as `channel.connected` does.
    """
    with ExitStack() as stack:
        answers = [stack.enter_context(connected(each)) for each in target.shards]
        channels, statuses = zip(*answers, strict=True)
        pids = [
            pid
            for status, each in zip(statuses, target.shards, strict=True)
            for pid in local_pids(status, each)
        ]
        yield Servers(target.shards, channels, combined(statuses), pids)


def combined(statuses: Sequence[pb.GetServerStatusResponse]) -> pb.GetServerStatusResponse:
    """Return one status for all servers: counts and CPU time added up, identities joined.

    All servers have the same settings and versions, so those of the first are taken. Garbage
    collections are left out: the times of several servers do not add up.
    """
    first = statuses[0]
    if len(statuses) == 1:
        return first
    whole = pb.GetServerStatusResponse(
        identity=",".join(status.identity for status in statuses),
        host_name=first.host_name,
        settings_json=first.settings_json,
        versions=first.versions,
        peer=first.peer,
        cpu_user_s=sum(status.cpu_user_s for status in statuses),
        cpu_system_s=sum(status.cpu_system_s for status in statuses),
        loop_cpu_s=sum(status.loop_cpu_s for status in statuses),
    )
    for status in statuses:
        for name, count in status.operations.items():
            whole.operations[name] += count
    return whole


def status_after(servers: Servers, outcome: Outcome) -> pb.GetServerStatusResponse | None:
    """Return the status of the servers after a run; None when one of them does not answer."""
    if outcome in (Outcome.SERVER_GONE, Outcome.SERVER_UNRESPONSIVE, Outcome.MEMORY_CEILING):
        return None
    try:
        return servers.status(2.0)
    except (ServerNotReached, ValueError):  # too busy to answer, or the channel was closed
        return None


def moments(status: pb.GetServerStatusResponse | None) -> list[Moment]:
    """Return the server's garbage collections over time; empty when it does not report them."""
    return [
        Moment(row.at_unix_s, Collections(row.young, row.middle, row.full, row.pause_s))
        for row in (status.collections if status else ())
    ]


def loop_cpu_s(
    before: pb.GetServerStatusResponse, after: pb.GetServerStatusResponse | None
) -> float:
    """Return the CPU seconds of the server's event loop between two reports; NaN without a loop."""
    if after is None or not after.loop_cpu_s:
        return math.nan
    return after.loop_cpu_s - before.loop_cpu_s


def server_report(
    before: pb.GetServerStatusResponse, after: pb.GetServerStatusResponse | None
) -> dict[str, Any]:
    """Return the server's identity, settings, versions and the operations it answered."""
    report: dict[str, Any] = {
        "identity": before.identity,
        "settings": json.loads(before.settings_json or "{}"),
        "versions": dict(before.versions),
        "operations": None,
    }
    if after is not None and after.settings_json:
        report["operations"] = {
            name: count - before.operations.get(name, 0)
            for name, count in after.operations.items()
            if count > before.operations.get(name, 0)
        }
    return report
