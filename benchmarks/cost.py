"""CPU time of one operation in client and server, and the throughput at which it is exhausted."""

from dataclasses import replace
from typing import NamedTuple

from kvstore.measure import Run, cores
from kvstore.model import Prediction, Station, batching, scaling

LEAST_S = 1e-9
"""Seconds. A short run may be too short for the system to measure CPU time, which is not 0."""
NAMES = {
    scaling.GENERATORS: "client CPU",
    scaling.SERVERS: "server CPU",
    scaling.CORES: "all cores",
}
"""Names of the bottleneck if there is one client and one server process."""


class Cost(NamedTuple):
    """CPU time of one operation in seconds, measured in a calibration run."""

    client_cpu_s: float
    server_cpu_s: float
    client_serial_s: float
    server_serial_s: float
    """The serial parts of the CPU times, see `Cpu.serial_s`."""

    def __str__(self) -> str:
        return f"{1e6 * self.client_cpu_s:.2f} / {1e6 * self.server_cpu_s:.2f}"

    def stations(self) -> list[Station]:
        """Return client and server as stations: one core each for the serial part."""
        return [
            Station("client CPU", self.client_serial_s),
            Station("server CPU", self.server_serial_s),
        ]

    def most(self, machine_cores: float | None = None) -> Prediction:
        """Return the throughput at which the busier process, or all cores together, are full.

        Without `machine_cores` the processes share the cores that this process may use.
        """
        predicted = scaling.throughput(
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
    """Return the mean CPU seconds of one operation in client and server over all runs."""
    operations = max(1, sum(run.operations_ok for run in runs))
    return Cost(
        sum(run.client_cpu.total_s for run in runs) / operations,
        sum(run.server_cpu.total_s for run in runs) / operations,
        sum(run.client_cpu.serial_s for run in runs) / operations,
        sum(run.server_cpu.serial_s for run in runs) / operations,
    )


def between(ends: dict[int, Cost], size: int) -> Cost:
    """Return the CPU time of one operation in batches of k = `size`: a / k + b, from `ends`."""
    sides = []
    for side in Cost._fields:
        a_s, b_s = batching.fit({k: k * getattr(cost, side) for k, cost in ends.items()})
        sides.append(max(0.0, a_s) / size + max(0.0, b_s))
    return Cost(*sides)
