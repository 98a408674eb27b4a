"""What one call or message costs in processor time."""

import numpy as np

from kvstore.measure.run import Run


def price_s(run: Run) -> float:
    """Processor seconds that one call takes of the side that it costs more.

    The other side works meanwhile, so this is the least time from one call to the next. NaN
    where neither process could be seen, and for a run of no calls.
    """
    sides_s = [cpu.total_s for cpu in (run.client_cpu, run.server_cpu)]
    seen_s = [side_s for side_s in sides_s if not np.isnan(side_s)]
    return max(seen_s) / run.issued if seen_s and run.issued else float("nan")
