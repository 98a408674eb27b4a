"""Noise of this machine: how far runs of the same work differ. A verdict, a table, a figure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kvstore.course import rendering
from kvstore.course.views import style
from kvstore.measure import Run
from kvstore.measure.validity import STOLEN

QUIET, USABLE = 0.10, 0.30
"""The largest spread of single runs on a machine that counts as quiet, or as usable."""


@dataclass(frozen=True)
class Noise(rendering.Shown):
    """The differences between identical runs, as shares: 0.1 is 10 %."""

    spread: float
    """The fastest run over the slowest, less 1: an apparent difference of two single runs."""
    between_medians: float
    """The larger median of a group over the smaller, less 1."""
    stolen_cores: float = 0.0
    """The mean number of cores that the host of this virtual machine took away during the runs."""

    @property
    def verdict(self) -> str:
        """Return "quiet", "usable" or "noisy"."""
        if self.spread <= QUIET:
            return "quiet"
        return "usable" if self.spread <= USABLE else "noisy"

    @property
    def holds_from(self) -> float:
        """Return the smallest ratio of two single runs that is more than noise here."""
        return 1 + self.spread

    def __repr__(self) -> str:
        return (
            f"Identical runs differ here by up to {100 * self.spread:.0f} %, the medians of two "
            f"interleaved groups by {100 * self.between_medians:.1f} %. {_ADVICE[self.verdict]}"
            + self._of_the_host()
        )

    def _of_the_host(self) -> str:
        if self.stolen_cores <= STOLEN:
            return ""
        return (
            f" This is a virtual machine. Its host gave {self.stolen_cores:.2f} of your cores to"
            " other machines during the runs. Measure again later. Cores that never sleep are lost"
            " less often: `with keeping_awake(cores()):` around a run can help."
        )

    def _forms(self) -> Mapping[str, Any]:
        mark = {
            "quiet": "✔ A quiet machine.",
            "usable": "◐ A usable machine.",
            "noisy": "✘ A noisy machine.",
        }[self.verdict]
        colour = rendering.BAD if self.verdict == "noisy" else rendering.GOOD
        return {
            "text/plain": f"{mark} {self!r}",
            "text/html": rendering.headline(mark, repr(self), colour),
        }


_ADVICE = {
    "quiet": "Trust a larger difference than this, even from one run.",
    "usable": (
        "Trust factors and orders of magnitude from one run. For smaller differences repeat the "
        "runs, interleave them, and compare medians."
    ),
    "noisy": (
        "Do not trust a single figure now. Close other programs, connect the charger, stop the "
        "other notebooks, and run this section again. Until then trust only factors of 2 and "
        "more. The course still works, and its identities still hold."
    ),
}


def noise(groups: Mapping[str, Sequence[Run]]) -> Noise:
    """Compare repeated runs of the same work, and show the verdict.

    Raise ValueError for a group of fewer than two runs.
    """
    fewest = min((len(runs) for runs in groups.values()), default=0)
    if fewest < 2:
        raise ValueError(f"each group must have 2 or more runs, got {fewest}: repeat the run")
    rates = [[run.throughput_per_s for run in runs] for runs in groups.values()]
    every = [rate for group in rates for rate in group]
    medians = [float(np.median(group)) for group in rates]
    stolen = float(np.mean([run.stolen_cores for runs in groups.values() for run in runs]))
    shown = Noise(max(every) / min(every) - 1, max(medians) / min(medians) - 1, stolen)
    shown._show()
    return shown


def draw_repeats(groups: Mapping[str, Sequence[Run]]) -> Axes:
    """Draw the throughput of each run as a dot, in the order of running, and medians as lines.

    The groups were interleaved: the first run of each, then the second of each, and so on.
    """
    with style.canvas(height_in=4.5) as ax:
        for place, name in enumerate(groups):
            rates = [run.throughput_per_s for run in groups[name]]
            turns = [1 + place + len(groups) * turn for turn in range(len(rates))]
            marker, colour, dashes = style.look(place)
            ax.plot(turns, rates, marker, label=name, color=colour, markeredgecolor="black")
            ax.axhline(float(np.median(rates)), linestyle=dashes, linewidth=2, color=colour)
        highest = max(run.throughput_per_s for runs in groups.values() for run in runs)
        ax.set(xlabel="run (number)", ylabel="throughput\n(operations/s)", ylim=(0, 1.15 * highest))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax
