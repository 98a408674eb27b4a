"""The servers of a run: one, or several of which each keeps a shard of the keys."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import grpc

from kvstore.client.channel import Target, connected, local_pid, server_status
from kvstore.v1 import server_status_pb2 as pb


class Servers(NamedTuple):
    """Every server reached, and found to be the one that was started."""

    targets: Sequence[Target]
    channels: Sequence[grpc.Channel]
    before: pb.GetServerStatusResponse
    """What they said of themselves, taken together, when they were reached."""
    pids: Sequence[int]
    """Processes of those that run on this machine."""

    def status(self, timeout_s: float) -> pb.GetServerStatusResponse:
        """What they say of themselves now, taken together. Raises `ServerNotReached`."""
        return combined(
            [
                server_status(channel, target, timeout_s)
                for channel, target in zip(self.channels, self.targets, strict=True)
            ]
        )


@contextmanager
def reached(target: Target) -> Iterator[Servers]:
    """A channel to each server of the target, for as long as the block lasts.

    Raises `ServerNotReached` and `WrongServer` as `channel.connected` does, of any of them.
    """
    with ExitStack() as stack:
        answers = [stack.enter_context(connected(each)) for each in target.shards]
        channels, statuses = zip(*answers, strict=True)
        pids = [pid for status in statuses if (pid := local_pid(status)) is not None]
        yield Servers(target.shards, channels, combined(statuses), pids)


def combined(statuses: Sequence[pb.GetServerStatusResponse]) -> pb.GetServerStatusResponse:
    """One status for all: counts and processor time add up, identities stand side by side.

    All are set alike, so settings and versions are the first one's. What each collected at
    which time is left out: the times of several do not add up.
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
