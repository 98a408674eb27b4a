"""What one operation costs either process, and the rate at which one of them has no time left."""

from typing import NamedTuple

from kvstore.measure import Run, cores
from kvstore.model import Prediction, Station, batching


class Cost(NamedTuple):
    """What a calibration found one call to cost, in seconds."""

    client_cpu_s: float
    server_cpu_s: float

    def stations(self) -> list[Station]:
        """Each process has one core, and both share those of the machine."""
        return [
            Station("client CPU", self.client_cpu_s),
            Station("server CPU", self.server_cpu_s),
        ]

    def most(self, unit: str = "calls/s", machine_cores: int | None = None) -> Prediction:
        """The rate at which the busier process, or both together, have no time left.

        Processes share the cores that this one may use, unless another number is given.
        """
        both_s = self.client_cpu_s + self.server_cpu_s
        stations = [*self.stations(), Station("all cores", both_s, machine_cores or cores())]
        binding = min(stations, key=lambda station: station.most_per_s)
        return Prediction(
            binding.most_per_s,
            unit,
            f"{1e6 * self.client_cpu_s:,.3g} us of the client and"
            f" {1e6 * self.server_cpu_s:,.3g} us of the server each: servers / demand",
            binding.name,
        )


def cost_of(run: Run) -> Cost:
    """Processor seconds of each side for one operation."""
    operations = max(1, run.operations_ok)
    return Cost(run.client_cpu.total_s / operations, run.server_cpu.total_s / operations)


def between(ends: dict[int, Cost], size: int) -> Cost:
    """The cost of one operation in batches of `size`: a / k + b, a and b from two sizes."""
    sides = []
    for side in Cost._fields:
        a_s, b_s = batching.fit({k: k * getattr(cost, side) for k, cost in ends.items()})
        sides.append(max(0.0, a_s) / size + max(0.0, b_s))
    return Cost(*sides)
