"""What one call or message costs in processor time, and how busy that kept both processes."""

from typing import NamedTuple

import numpy as np

from kvstore.measure.run import Run


class Price(NamedTuple):
    """Processor seconds that one call cost, on each side; NaN for a side that cannot be seen."""

    client_s: float
    server_s: float

    @property
    def together_s(self) -> float:
        """Both sides."""
        return self.client_s + self.server_s

    @property
    def dearer_s(self) -> float:
        """The side that it costs more, of those that can be seen.

        The other side works meanwhile, so this is the least time from one call to the next.
        """
        return max((each_s for each_s in self if not np.isnan(each_s)), default=float("nan"))


def price_s(run: Run) -> Price:
    """Processor seconds for each call that was sent; NaN for a run of no calls."""
    return _shared_out(run, run.issued)


def busy(run: Run) -> float:
    """The share of the run that the side it cost more was at work, 1 for one whole core.

    What is missing to 1 it waited, or the core was another program's. NaN where neither process
    could be seen.
    """
    return _shared_out(run, run.window_s).dearer_s


def cores_busy(run: Run) -> float:
    """How many cores client and server kept busy together, on average over the run."""
    return _shared_out(run, run.window_s).together_s


def _shared_out(run: Run, over: float) -> Price:
    over = over or float("nan")
    return Price(run.client_cpu.total_s / over, run.server_cpu.total_s / over)
