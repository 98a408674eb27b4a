"""Little's law for every box of a run: the pool's queue, the lock, the disk, and what is left.

The law holds for any box that is empty at the start and at the end. The server tells how long
each call stayed in its boxes, not when; so each call's stays are laid end to end on the
client's clock, and the calls inside each box are counted by walking through all events.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from kvstore.measure.audit import mean_in_flight
from kvstore.measure.run import Run

if TYPE_CHECKING:  # see run.py
    import pandas as pd

BOXES: Final = {
    "pool queue": "pool_s",
    "lock": "lock_s",
    "disk": "disk_s",
    "rest of the server": "rest_s",
}
"""The boxes of the server, in the order a call passes them, and their columns in a run."""
BACK_END: Final = "back end"
"""The box that stands for the disk in a server that asks another one."""
OUTSIDE: Final = "client and wire"
"""The box around everything that the server does not see."""
ROUNDING: Final = 1e-6
"""Relative error that the four bytes of a station time may leave."""
TICK_S: Final = 1e-6
"""The header tells tenths of a microsecond: four roundings never come to more than this."""


@dataclass(frozen=True, slots=True)
class Box:
    """Both sides of Little's law for one box, each computed its own way."""

    inside_mean: float
    """L: the number inside, by walking through entries and exits, averaged over the window."""
    entered_per_s: float
    """lambda: calls that went in, divided by the window."""
    stay_mean_s: float
    """W: mean seconds a call stayed."""

    @property
    def holds(self) -> bool:
        """Whether both sides are the same but for rounding."""
        product = self.entered_per_s * self.stay_mean_s
        return math.isclose(self.inside_mean, product, rel_tol=ROUNDING, abs_tol=ROUNDING)


@dataclass(frozen=True, slots=True)
class Boxes:
    """All boxes of a run, and whether their stays fill the time of every call."""

    by_name: dict[str, Box]
    overfull: int
    """Calls for which the server claims more time than they were in flight: two clocks disagree."""

    @property
    def whole(self) -> float:
        """Calls in all boxes together, to be compared with `audit(run).in_flight_mean`."""
        return sum(box.inside_mean for box in self.by_name.values())

    def table(self) -> "pd.DataFrame":
        """One row for each box, with both sides of its law."""
        import pandas as pd

        return pd.DataFrame(
            {
                name: {
                    "L, counted (calls)": box.inside_mean,
                    "λ (calls/s)": box.entered_per_s,
                    "W (ms)": 1e3 * box.stay_mean_s,
                    "λ·W (calls)": box.entered_per_s * box.stay_mean_s,
                }
                for name, box in self.by_name.items()
            }
        ).T.rename_axis("box")

    @property
    def holds(self) -> bool:
        """Whether every box keeps the law and no call is longer inside than it was in flight."""
        return not self.overfull and all(box.holds for box in self.by_name.values())


def stands_for(run: Run, station: str) -> str:
    """What a station is in this run: a server that asks another has that in place of a disk."""
    behind = run.server.get("settings", {}).get("back_end")
    return BACK_END if behind and station == "disk" else station


def boxes(run: Run) -> Boxes:
    """Little's law for each station of the server, and for the client and wire around it.

    Raises `ValueError` when a call of the run has no station times.
    """
    records = run.records
    stays = {name: records[column].astype(float) for name, column in BOXES.items()}
    if not len(records) or any(np.isnan(stay_s).any() for stay_s in stays.values()):
        raise ValueError(
            "not every call of this run has station times: start the server with"
            " station_times=True, and let every call be answered"
        )
    outside_s = records["done_s"] - records["sent_s"] - np.sum(list(stays.values()), axis=0)
    overfull = int(np.count_nonzero(outside_s < -TICK_S))
    way_s = np.maximum(outside_s, 0.0) / 2  # there and back are taken as equally long
    found = {}
    entered_s = records["sent_s"] + way_s
    for name, stay_s in stays.items():
        found[stands_for(run, name)] = _box(run, entered_s, stay_s)
        entered_s = entered_s + stay_s
    there = _box(run, records["sent_s"], way_s)
    back = _box(run, entered_s, way_s)
    found[OUTSIDE] = Box(
        there.inside_mean + back.inside_mean,
        there.entered_per_s,
        there.stay_mean_s + back.stay_mean_s,
    )
    return Boxes(found, overfull)


def _box(run: Run, entered_s: npt.NDArray[np.float64], stay_s: npt.NDArray[np.float64]) -> Box:
    return Box(
        inside_mean=mean_in_flight(entered_s, entered_s + stay_s, run.window_s),
        entered_per_s=len(stay_s) / run.window_s,
        stay_mean_s=float(np.mean(stay_s)),
    )
