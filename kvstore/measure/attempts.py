"""The attempts of calls that gRPC sent again, as a server noted them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvstore.measure.recorder import Times
from kvstore.measure.run import Run
from kvstore.protocol import CANCELLED, DEADLINE_EXCEEDED


@dataclass(frozen=True)
class Attempts:
    """The attempts of each call of a run, in the order of sending; times are seconds of the run."""

    arrived_s: Times
    """One row for each call, one column for each attempt; NaN for one that did not arrive."""
    ended_s: Times
    """When its method ended; infinite where the server had not noted an end."""
    error_s: float
    """The clocks of client and server may be so far apart."""

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many attempts of each call arrived."""
        return np.asarray(np.count_nonzero(~np.isnan(self.arrived_s), axis=1), np.int64)


def attempts_of(run: Run) -> Attempts | None:
    """Return the attempts that the server of a run noted; None where it noted none.

    An attempt names its call by the time of sending. The clock of the server has another zero. It
    is found from the calls: no attempt arrives before its call was sent, and no attempt that was
    answered ends after its call.
    """
    rows = np.array(run.server.attempts or np.empty((0, 4)), float)
    if not len(rows) or not len(run.records) or run.settings.get("processes", 1) > 1:
        return None
    calls = run.records[np.argsort(run.records["sent_s"], kind="stable")]
    call, number = _nearest(calls["sent_s"], rows[:, 0]), rows[:, 1].astype(int)
    arrived_s, ended_s = rows[:, 2], np.where(rows[:, 3] > 0, rows[:, 3], np.inf)
    answered = ~np.isin(calls["status"][call], (CANCELLED, DEADLINE_EXCEEDED))
    least_s = float(np.max(calls["sent_s"][call] - arrived_s))
    most_s = float(
        np.min((calls["done_s"][call] - ended_s)[answered & np.isfinite(ended_s)], initial=np.inf)
    )
    zero_s = (least_s + most_s) / 2 if np.isfinite(most_s) else least_s
    times_s = np.full((2, len(calls), int(number.max()) + 1), np.nan)
    times_s[0, call, number], times_s[1, call, number] = arrived_s + zero_s, ended_s + zero_s
    return Attempts(times_s[0], times_s[1], abs(most_s - least_s) / 2)


def _nearest(known: Times, wanted: Times) -> npt.NDArray[np.int64]:
    """Return for each wanted time the place of the nearest one: recorded runs round their times."""
    after = np.searchsorted(known, wanted).clip(1, max(1, len(known) - 1))
    before = after - 1
    after = after.clip(max=len(known) - 1)
    return np.where(np.abs(known[before] - wanted) <= np.abs(known[after] - wanted), before, after)
