"""A Python client that counts its calls as the Java client of "So you want to optimize gRPC" did.

It is our own client with the control flow of the Java loop, not the original code: where the Java
loop has a `continue` before its counter, so has this one.
"""

from collections.abc import Iterator
from typing import Any

from kvstore.client.messages import Operation
from kvstore.course.experiments.failures import answer_to
from kvstore.protocol import CREATE


class JavaClient:
    """One call at a time, and a counter of its own that Creates never reach."""

    def __init__(self) -> None:
        self.rpc_count = 0

    def do_client_work(self, stub: Any, operations: Iterator[Operation], in_flight: int) -> None:
        """Pick one of the four operations at random, make the call, and go on until the end."""
        for operation in operations:
            if operation.kind == CREATE:
                answer_to(stub, operation)
                continue
            answer_to(stub, operation)
            self.rpc_count += 1

    def reported_per_s(self, duration_s: float) -> float:
        """Calls per second as it reports them: its counter divided by the duration that was set."""
        return self.rpc_count / duration_s
