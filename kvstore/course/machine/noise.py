"""How far runs of one and the same thing differ here, and whether that is too far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from kvstore.course import rendering
from kvstore.measure import Run
from kvstore.measure.verdict import STOLEN

QUIET, USABLE = 0.10, 0.30
"""Up to this spread of single runs the machine counts as quiet, or as usable."""


@dataclass(frozen=True)
class Noise(rendering.Shown):
    """What identical runs differ by, as shares: 0.1 is 10 %."""

    spread: float
    """The fastest run over the slowest, less 1: what comparing two single runs can fake."""
    between_medians: float
    """The larger median over the smaller, less 1: what is left when medians are compared."""
    stolen_cores: float = 0.0
    """Cores that the host of this virtual machine took away meanwhile, in the mean."""

    @property
    def verdict(self) -> str:
        """One of "quiet", "usable" and "noisy"."""
        if self.spread <= QUIET:
            return "quiet"
        return "usable" if self.spread <= USABLE else "noisy"

    @property
    def holds_from(self) -> float:
        """The smallest ratio of two single runs that means anything here."""
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
            f" This is a virtual machine, and meanwhile its host gave {self.stolen_cores:.2f} of"
            " your cores to others: that can be waited for, not closed. Cores that never sleep need"
            " not be given back: `with keeping_awake(cores()):` around a run often helps."
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
    "quiet": "Trust a difference that is larger than this, even from one run.",
    "usable": (
        "Trust factors and orders of magnitude from one run; for anything finer repeat, "
        "interleave, and compare medians."
    ),
    "noisy": (
        "Do not trust a single figure today. Close other programs, connect the charger, leave "
        "the other notebooks idle, and run this section again. Until then trust only factors of "
        "2 and more; the course goes on, and its identities hold all the same."
    ),
}


def noise(groups: Mapping[str, Sequence[Run]]) -> Noise:
    """Compare runs that ought to be the same; ValueError with fewer than two in a group."""
    if not groups or min(len(runs) for runs in groups.values()) < 2:
        raise ValueError("noise shows only in repetition: give two runs or more in each group")
    rates = [[run.throughput_per_s for run in runs] for runs in groups.values()]
    every = [rate for group in rates for rate in group]
    medians = [float(np.median(group)) for group in rates]
    stolen = float(np.mean([run.stolen_cores for runs in groups.values() for run in runs]))
    shown = Noise(max(every) / min(every) - 1, max(medians) / min(medians) - 1, stolen)
    shown._show()
    return shown


def repeats(groups: Mapping[str, Sequence[Run]]) -> pd.DataFrame:
    """Each run's throughput in operations/s, one row for each group, with its median."""
    table = pd.DataFrame(
        {
            f"{name} (operations/s)": pd.Series([run.throughput_per_s for run in runs])
            for name, runs in groups.items()
        }
    )
    table.index = pd.Index([f"run {number}" for number in range(1, len(table) + 1)])
    table.loc["median"] = table.median()
    return table.round(0).astype("Int64").T
