"""Ten channels and one connection: what gRPC shares unless it is told not to."""

from contextlib import ExitStack

import grpc

from kvstore.client.channel import CONNECT_S, server_status, target_of


def callers_seen(server: object, channels: int, *, apart: bool) -> int:
    """How many callers a server sees that is asked over so many channels, open at once.

    Channels of one process to one address share a connection; `apart` tells each to keep to
    itself. Raises `ServerNotReached`.
    """
    target = target_of(server)
    options = [("grpc.use_local_subchannel_pool", int(apart))]
    with ExitStack() as stack:
        opened = [
            stack.enter_context(grpc.insecure_channel(target.address, options=options))
            for _ in range(channels)
        ]
        told = [server_status(each, target, CONNECT_S, wait_for_ready=True) for each in opened]
    return len({each.peer for each in told})
