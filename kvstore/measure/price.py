"""What one call or message costs in processor time."""

import numpy as np

from kvstore.measure.run import Run


def price_s(run: Run) -> float:
    """Processor seconds that one call takes of the side that it costs more.

    The other side works meanwhile, so this is the least time from one call to the next. NaN
    where neither process could be seen, and for a run of no calls.
    """
    return _dearer_side_s(run) / run.issued if run.issued else float("nan")


def busy(run: Run) -> float:
    """The share of the run that the side it cost more was at work, 1 for one whole core.

    What is missing to 1 it waited, or the core was another program's. NaN as for `price_s`.
    """
    return _dearer_side_s(run) / run.window_s if run.window_s else float("nan")


def _dearer_side_s(run: Run) -> float:
    sides_s = [cpu.total_s for cpu in (run.client_cpu, run.server_cpu)]
    return max((side_s for side_s in sides_s if not np.isnan(side_s)), default=float("nan"))
