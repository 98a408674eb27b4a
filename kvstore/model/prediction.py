"""A prediction: a number, its reason, and the station that binds."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model says a run will show, and why, built before the run."""

    value: float
    unit: str
    reason: str
    """The arithmetic in words, so that a reader who is wrong learns where."""
    binds: str = ""
    """The station that sets the limit; empty where the question has none."""

    def ratio_of(self, measured: float) -> float:
        """Measured over predicted; NaN when nothing was predicted."""
        return measured / self.value if self.value else math.nan

    def __str__(self) -> str:
        binds = f" [{self.binds} binds]" if self.binds else ""
        digits = ",.0f" if 1e4 <= abs(self.value) < math.inf else ",.4g"  # never 1.2e+04
        return f"{self.value:{digits}} {self.unit}: {self.reason}{binds}"


@dataclass(frozen=True, slots=True)
class Station:
    """A place where a call is served, and may wait.

    `demand_s` is the service time one call needs there, in seconds; `servers` is how many
    calls it serves at once, `math.inf` for a place where nobody ever waits.
    Raises `ValueError` when the demand is negative or there is less than one server.
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
        """The highest rate this station can serve: servers / demand."""
        return self.servers / self.demand_s if self.demand_s else math.inf
