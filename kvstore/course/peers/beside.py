"""What a run of another client showed, and what the server says of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc
import pandas as pd

from kvstore.client.channel import connected, server_status, target_of
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

METHOD = "kvstore.v1.KeyValueService/Retrieve"
"""What peers call: one key, with a short value."""
KEY, VALUE = b"for clients of other makes", bytes(16)


@dataclass(frozen=True)
class PeerRun:
    """One run of another client: its own words, and the server's count beside them."""

    program: str
    connections: int
    streams: int
    requests: int
    """Calls that it was asked to make."""
    window_s: float
    """Seconds, by its own clock, connecting included."""
    succeeded: int
    """Calls that it takes for successes. h2load looks at HTTP's status only."""
    answered_ok: int
    """Calls that the server answered OK meanwhile, by its own count."""
    table: pd.DataFrame = field(repr=False, compare=False)
    """Rows of h2load's table, in milliseconds and calls per second."""

    @property
    def throughput_per_s(self) -> float:
        """Calls answered OK per second of the window."""
        return self.answered_ok / self.window_s if self.window_s else 0.0

    @property
    def all_ok(self) -> bool:
        """Whether every call was answered, and OK to gRPC too: not only inside HTTP 200."""
        return self.succeeded == self.answered_ok == self.requests


@contextmanager
def counted(server: object) -> Iterator[Callable[[], int]]:
    """The key is there, and the block can ask how many retrieves were answered OK since.

    Raises what `channel.connected` raises.
    """
    target = target_of(server)
    with connected(target) as (channel, _):
        try:
            kvstore_pb2_grpc.KeyValueServiceStub(channel).Create(
                pb.CreateRequest(key=KEY, value=VALUE), timeout=5.0
            )
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise

        def now() -> int:
            return int(server_status(channel, target, 5.0).operations.get("retrieve/OK", 0))

        before = now()
        yield lambda: now() - before


def checked(connections: int, streams: int, requests: int) -> None:
    """Raise `ValueError` where a number makes no sense."""
    wrong = {"connections": connections, "streams": streams, "requests": requests}
    for name, value in wrong.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be a whole number of 1 or more, got {value!r}")
    if requests < connections * streams:
        raise ValueError(
            f"{connections} x {streams} in flight need at least {connections * streams} requests,"
            f" got {requests}"
        )
