"""An axis of a picture: where a number is on it, and which numbers stand beside it."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, in equal steps or, with `log`, in equal factors."""

    low: float
    high: float
    log: bool

    def place(self, value: float) -> float:
        """Return where a value is, from 0 to 1; a value outside is at the end."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = (math.log(max(each, low)) for each in (value, low, high))
        return min(1.0, max(0.0, (value - low) / (high - low)))

    def ticks(self) -> list[float]:
        """Return round numbers on the axis."""
        if self.log:
            first, last = (math.floor(math.log10(each)) for each in (self.low, self.high))
            values = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
            wide = last - first > 3  # then only the powers of ten have room
            values = [x for x in values if not wide or math.isclose(math.log10(x) % 1, 0)]
        else:
            step = 10 ** math.floor(math.log10(self.high - self.low))
            step *= next((m for m in (0.2, 0.5, 1.0) if (self.high - self.low) / step / m <= 7), 2)
            values = [n * step for n in range(math.ceil(self.high / step) + 1)]
        return [x for x in values if self.low <= x <= self.high * (1 + 1e-9)]
