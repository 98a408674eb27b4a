"""What one call or message costs in processor time, and how busy that kept both processes."""

from typing import NamedTuple

import numpy as np

from kvstore.measure.host import cores
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
        """The side that it costs more, of those that can be seen."""
        return max((each_s for each_s in self if not np.isnan(each_s)), default=float("nan"))


def price_s(run: Run) -> Price:
    """Processor seconds for each call that was sent; NaN for a run of no calls."""
    return _shared_out(run, run.issued)


def serial_s(run: Run) -> Price:
    """Of the price, what no other call of that side can do meanwhile: see `Cpu.serial_s`."""
    over = run.issued or float("nan")
    return Price(run.client_cpu.serial_s / over, run.server_cpu.serial_s / over)


def pace_s(run: Run) -> float:
    """The least time from one call to the next, in seconds.

    The dearer of both sides sets it, by what it must do in one thread; the other side works
    meanwhile. Where the cores are too few for all that both do, they set it. NaN where neither
    process could be seen.
    """
    return float(np.fmax(serial_s(run).dearer_s, price_s(run).together_s / _cores(run)))


def paced_s(run: Run) -> Price:
    """The serial part of both sides, stretched so that the dearer one is the pace.

    Where the cores are too few, each side gets less than a whole one for its thread.
    """
    serial = serial_s(run)
    stretch = pace_s(run) / serial.dearer_s
    return Price(serial.client_s * stretch, serial.server_s * stretch)


def busy(run: Run) -> float:
    """The share of the run that what sets the pace was at work.

    What is missing to 1 it waited, or the core was another program's. NaN where neither process
    could be seen.
    """
    return pace_s(run) * run.issued / (run.window_s or float("nan"))


def cores_busy(run: Run) -> float:
    """How many cores client and server kept busy together, on average over the run."""
    return _shared_out(run, run.window_s).together_s


def _cores(run: Run) -> int:
    return int(run.host.get("cores", cores()))


def _shared_out(run: Run, over: float) -> Price:
    over = over or float("nan")
    return Price(run.client_cpu.total_s / over, run.server_cpu.total_s / over)
