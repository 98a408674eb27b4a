"""Checks of a run against itself: counts of its calls, and Little's law on its trace.

Two checks find different mistakes:

* Counting twice finds a call that was lost or recorded twice. The client counts each call when it
  sends it, and records it when it ends. Different code makes the two counts.
* Little's law, L = lambda * R (J. D. C. Little, Operations Research 9, 1961), cannot find a lost
  call. Both sides are computed from the same records, and the identity holds for any subset of
  them, even with an end before its start: a shift of the times changes both sides alike. The law
  finds a time that is not a number, and calls in flight that do not agree with their residence
  times. The audit checks the order of each call's times by itself.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvstore.measure.recorder import Times
from kvstore.measure.run import Run
from kvstore.numbers import count, number, percent, rate, seconds
from kvstore.protocol import NO_ANSWER, STATUSES

SAY_NOTHING: Final = (
    "CANCELLED",
    "UNKNOWN",
    "DEADLINE_EXCEEDED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "NO_ANSWER",
)
"""Statuses after which it is unknown whether the server did the operation. Every other status
except OK means that the server refused it."""

_UNKNOWN = [STATUSES.index(name) for name in SAY_NOTHING]


class Accounts(NamedTuple):
    """The operations of a run by their outcome. A message of a stream carries several of them."""

    issued: int
    """Operations sent, counted when they were sent."""
    ok: int
    """Operations that the server answered with OK."""
    failed: int
    """Operations that the server refused with a status that says why."""
    unknown: int
    """Operations without a reply, with a status of `SAY_NOTHING`, or without a record, because
    their worker was lost."""

    @property
    def balanced(self) -> bool:
        """Whether the operations sent are as many as those with an outcome."""
        return self.issued == self.ok + self.failed + self.unknown

    def __repr__(self) -> str:
        sign = "=" if self.balanced else "IS NOT"
        return (
            f"{count(self.issued, 'operation')} sent {sign} {self.ok:,} done"
            f" + {self.failed:,} failed + {self.unknown:,} unknown"
        )


def accounts(run: Run) -> Accounts:
    """Return the operations of a run by their outcome.

    `issued` is counted when operations are sent; the other three come from the records of the
    ends. If the counts differ, an operation was lost or recorded twice.
    """
    records = run.records
    carried, ok = records["operations"], records["ok_operations"]
    unknown = np.isin(records["status"], _UNKNOWN)
    return Accounts(
        issued=run.issued_operations,
        ok=int(ok.sum()),
        failed=int((carried - ok)[~unknown].sum()),
        unknown=int((carried - ok)[unknown].sum()) + run.unrecorded,
    )


TOLERANCE = 1e-9
"""Relative difference that rounding may cause between the two sides of Little's law."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The two counts of the calls, and the two sides of Little's law."""

    in_flight_mean: float
    """L: the area under the number in flight over time, divided by the window; calls."""
    sent_per_s: float
    """lambda: recorded calls divided by the window; calls per second."""
    residence_mean_s: float
    """R: mean seconds from sending a call to its end."""
    issued: int
    """Calls counted when they were sent."""
    recorded: int
    """Calls that have a record of their end."""
    unknown: int
    """Recorded calls without a reply: it is unknown whether the server did them."""
    operations: Accounts
    """The outcomes of the operations that the calls carried."""
    never_negative: bool
    """Whether every call ended at or after the time at which it was sent."""
    unrecorded: int = 0
    """Calls of lost workers, which have no record."""

    @property
    def relative_error(self) -> float:
        """The difference between L and lambda * R, relative to L; 0 for an empty run."""
        product = self.sent_per_s * self.residence_mean_s
        if not self.in_flight_mean:
            return abs(product)
        return abs(product - self.in_flight_mean) / self.in_flight_mean

    @property
    def holds(self) -> bool:
        """Whether both checks pass: the counts agree, and Little's law holds to rounding.

        Little's law alone would hold for any subset of the records; the counts find lost calls.
        """
        return (
            self.relative_error <= TOLERANCE
            and self.issued == self.recorded + self.unrecorded
            and self.operations.balanced
            and self.never_negative
        )

    def __repr__(self) -> str:
        operations = self.operations
        all_ok = operations.issued == operations.ok == self.issued
        carried = "" if all_ok else f"; {operations!r}"
        if self.unrecorded:
            carried = f"; {self.unrecorded:,} lost with their worker{carried}"
        error = self.relative_error
        apart = f" (apart by {percent(error)})" if error > TOLERANCE else ""
        verdict = "holds" if self.holds else "DOES NOT HOLD: do not trust this run"
        if self.holds and self.unrecorded:
            verdict = "at least so many, because a lost worker may have sent more"
        return (
            f"L = {number(self.in_flight_mean)} in flight; lambda x R ="
            f" {rate(self.sent_per_s)} x {seconds(self.residence_mean_s)} ="
            f" {number(self.sent_per_s * self.residence_mean_s)}"
            f"{apart}; {count(self.issued, 'call')} sent,"
            f" {self.recorded:,} ended, {self.unknown:,} of them unknown{carried}: {verdict}"
        )


def audit(run: Run) -> Audit:
    """Check the counts of one run and Little's law on its trace."""
    records = run.records
    recorded = len(records)
    residence_s = records["done_s"] - records["sent_s"]
    return Audit(
        in_flight_mean=mean_in_flight(records["sent_s"], records["done_s"], run.window_s),
        sent_per_s=recorded / run.window_s if run.window_s else 0.0,
        residence_mean_s=float(np.mean(residence_s)) if recorded else 0.0,
        issued=run.issued,
        recorded=recorded,
        unknown=int(np.count_nonzero(records["status"] == NO_ANSWER)),
        operations=accounts(run),
        never_negative=bool(np.all(residence_s >= 0)),
        unrecorded=run.unrecorded,
    )


def mean_in_flight(sent_s: Times, done_s: Times, window_s: float) -> float:
    """Return L, the time average of the number of calls in flight.

    It adds up the area of every step between two events, in order of time. It does not add up
    residence times, because that would be the other side of Little's law.
    """
    if not len(sent_s) or not window_s:
        return 0.0
    at_s, level = in_flight_steps(sent_s, done_s)
    return float(np.dot(level[:-1], np.diff(at_s)) / window_s)


def in_flight_between(sent_s: Times, done_s: Times, edges_s: Times) -> Times:
    """Return the time average of the number of calls in flight between consecutive `edges_s`."""
    at_s, level = in_flight_steps(sent_s, done_s)
    if not len(at_s):
        return np.zeros(len(edges_s) - 1)
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(at_s))])
    until = np.interp(edges_s, at_s, area, left=0.0)
    return np.asarray(np.diff(until) / np.diff(edges_s), np.float64)


def in_flight_steps(sent_s: Times, done_s: Times) -> tuple[Times, npt.NDArray[np.int64]]:
    """Return the times of all sends and ends in order, and the number in flight after each."""
    at_s = np.concatenate([sent_s, done_s])
    change = np.concatenate([np.ones(len(sent_s), int), -np.ones(len(done_s), int)])
    order = np.argsort(at_s, kind="stable")  # a send comes before an end at the same time
    return at_s[order], np.cumsum(change[order])
