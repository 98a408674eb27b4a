"""Many simulated results, the law for their mean, and the one real run."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from kvstore.course.views import style


def plot_ribbon(
    xs: Sequence[float],
    simulated: ArrayLike,
    *,
    law: Sequence[float] = (),
    runs: Mapping[float, float] | None = None,
    xlabel: str,
    ylabel: str,
    title: str,
    logarithmic: bool = False,
) -> Axes:
    """Draw a ribbon with 90 % of the simulated results at each x, the law, and a dot for each run.

    `simulated` has a row for each seed and a column for each x, `law` has a value for each x, and
    `runs` the measured value at some xs.
    """
    low, high = np.percentile(np.asarray(simulated, dtype=float), [5, 95], axis=0, method="nearest")
    with style.canvas(title=title) as ax:
        ax.fill_between(
            xs, low, high, color=style.INK, alpha=0.3, linewidth=0, label="90 % of the simulations"
        )
        if len(law):
            ax.plot(xs, law, color=style.PREDICTED, label="the law")
        if runs:
            ax.plot(
                [*runs], [*runs.values()], "o", color=style.MEASURED, zorder=3, label="one real run"
            )
        if logarithmic:
            ax.set_xscale("log")
        ax.set(xlabel=xlabel, ylabel=ylabel)
        ax.set_ylim(bottom=0.0)
    return ax
