"""A prediction (a number with its unit, its reason and its bottleneck) and a station."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prediction:
    """The result of a model, computed before the run."""

    value: float
    unit: str
    reason: str
    """The calculation in words, so that a wrong prediction can be traced to its step."""
    binds: str = ""
    """The bottleneck: the station that sets the limit; empty if no station does."""

    def ratio_of(self, measured: float) -> float:
        """Return measured / predicted; NaN if the prediction is 0."""
        return measured / self.value if self.value else math.nan

    def __str__(self) -> str:
        binds = f" [{self.binds} binds]" if self.binds else ""
        digits = ",.0f" if 1e4 <= abs(self.value) < math.inf else ",.4g"  # never 1.2e+04
        return f"{self.value:{digits}} {self.unit}: {self.reason}{binds}"


@dataclass(frozen=True, slots=True)
class Station:
    """A resource at which a call is served, and may queue.

    `demand_s` is D, the service demand of one call in seconds. `servers` is the number of calls
    served at the same time; `math.inf` means that no call ever queues (a delay station). Raises
    `ValueError` for a negative demand, or for fewer than one server.
    """

    name: str
    demand_s: float
    servers: float = 1

    def __post_init__(self) -> None:
        if not self.demand_s >= 0:
            raise ValueError(f"demand_s must be 0 or more seconds, got {self.demand_s}")
        if not self.servers >= 1:
            raise ValueError(f"servers must be 1 or more, got {self.servers}")

    @property
    def most_per_s(self) -> float:
        """The maximum throughput in calls per second: servers / D."""
        return self.servers / self.demand_s if self.demand_s else math.inf
