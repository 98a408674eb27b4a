"""Our client in a process of its own, which makes a run for each line that it reads.

A transport profile belongs to a process, so two clients with different profiles need two processes.
Both are kept, because imports take longer than a turn.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from kvstore import transport
from kvstore.client import load, strategies
from kvstore.client.workload import Workload
from kvstore.subprocesses import Child, child, listen


class Client:
    """The client in the other process."""

    def __init__(self, process: Child) -> None:
        self._process = process

    def turn(
        self, strategy: strategies.Strategy, address: str, workload: Workload, **options: Any
    ) -> dict[str, float]:
        """Make one run there; return its rate, and the CPU seconds per operation of each side.

        Raises `RuntimeError` with the error of the other process.
        """
        order = {
            "strategy": strategy.__name__, "address": address, "workload": workload.as_dict(),
            "options": options,
        }  # fmt: skip
        self._process.send_line(json.dumps(order))
        line = self._process.popen.stdout.readline() if self._process.popen.stdout else ""
        if not line:
            raise RuntimeError(f"the client ended: {self._process.error_text()}")
        figures: dict[str, float] = json.loads(line)
        return figures


@contextmanager
def client_with(profile: str) -> Iterator[Client]:
    """Yield a client whose process has this transport profile; it ends with the block."""
    environment = transport.environment(profile)
    with child("benchmarks.peers.turns", [], environment=environment) as process:
        yield Client(process)


def main() -> None:
    """Make the runs until the parent stops this process."""
    orders: SimpleQueue[str] = SimpleQueue()
    listen(lambda: orders.put(""), orders.put)
    while line := orders.get():
        order = json.loads(line)
        run = load.run(
            getattr(strategies, order["strategy"]), order["address"],
            Workload(**order["workload"]), **order["options"],
        )  # fmt: skip
        if set(run.outcomes()) != {"OK"}:
            raise RuntimeError(f"every operation should be answered OK, got {run.outcomes()}")
        figures = {
            "per_s": run.throughput_per_s,
            "client_cpu_s": run.client_cpu.total_s / run.operations_ok,
            "server_cpu_s": run.server_cpu.total_s / run.operations_ok,
        }
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
