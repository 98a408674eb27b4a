"""What one operation costs either process, and the rate at which one of them has no time left."""

from dataclasses import replace
from typing import NamedTuple

from kvstore.measure import Run, cores
from kvstore.model import Prediction, Station, batching, processes

LEAST_S = 1e-9
"""An operation takes some time, though a short run may be too short for the system to see it."""
NAMES = {
    processes.GENERATORS: "client CPU",
    processes.SERVERS: "server CPU",
    processes.CORES: "all cores",
}
"""What binds where there is one process on each side."""


class Cost(NamedTuple):
    """What a calibration found one call to cost, in seconds."""

    client_cpu_s: float
    server_cpu_s: float
    client_serial_s: float
    server_serial_s: float
    """Of both, what only one thread of the process can do: see `Cpu.serial_s`."""

    def __str__(self) -> str:
        return f"{1e6 * self.client_cpu_s:.2f} / {1e6 * self.server_cpu_s:.2f}"

    def stations(self) -> list[Station]:
        """Each process has one core for what only one of its threads can do."""
        return [
            Station("client CPU", self.client_serial_s),
            Station("server CPU", self.server_serial_s),
        ]

    def most(self, machine_cores: float | None = None) -> Prediction:
        """The rate at which the busier process, or both together, have no time left.

        Processes share the cores that this one may use, unless another number is given.
        """
        predicted = processes.throughput(
            generators=1,
            servers=1,
            cores=machine_cores or cores(),
            client_s=max(self.client_cpu_s, LEAST_S),
            server_s=max(self.server_cpu_s, LEAST_S),
            client_serial_s=max(self.client_serial_s, LEAST_S),
            server_serial_s=max(self.server_serial_s, LEAST_S),
        )
        return replace(predicted, binds=NAMES[predicted.binds])


def cost_of(*runs: Run) -> Cost:
    """Processor seconds of each side for one operation, on average over all of the runs."""
    operations = max(1, sum(run.operations_ok for run in runs))
    return Cost(
        sum(run.client_cpu.total_s for run in runs) / operations,
        sum(run.server_cpu.total_s for run in runs) / operations,
        sum(run.client_cpu.serial_s for run in runs) / operations,
        sum(run.server_cpu.serial_s for run in runs) / operations,
    )


def between(ends: dict[int, Cost], size: int) -> Cost:
    """The cost of one operation in batches of `size`: a / k + b, a and b from two sizes."""
    sides = []
    for side in Cost._fields:
        a_s, b_s = batching.fit({k: k * getattr(cost, side) for k, cost in ends.items()})
        sides.append(max(0.0, a_s) / size + max(0.0, b_s))
    return Cost(*sides)
