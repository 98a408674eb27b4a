"""The blocking client of "So you want to optimize gRPC" (2018), with its way of counting.

The loop is that of the published `KvClient.doClientWork`, step 01, branch by branch; only the
call itself is ours, so that each is recorded and the server can be asked what it saw.
"""

from kvstore.client.client import Client
from kvstore.client.schedule import Schedule
from kvstore.codes import CREATE


class JavaClient:
    """One call at a time, and a counter of its own."""

    def __init__(self) -> None:
        self.rpc_count = 0

    def do_client_work(self, client: Client, schedule: Schedule, in_flight: int = 1) -> None:
        """Pick one of the four operations at random, make the call, and go on until the end."""
        for operation in schedule:
            if operation.kind == CREATE:
                client.call(operation)
                continue
            client.call(operation)
            self.rpc_count += 1

    def reported_per_s(self, duration_s: float) -> float:
        """What it prints at the end, "Did ... RPCs/s": its counter over the seconds asked for."""
        return self.rpc_count / duration_s
