"""The audit: Little's law on a run's own trace, and the count of its calls.

L = lambda * W is an identity on a trace that starts and ends empty (J. D. C. Little,
"A Proof for the Queuing Formula: L = lambda W", Operations Research 9, 1961; for sample
paths: S. Stidham, "A Last Word on L = lambda W", 1974). It says nothing of the server.
It fails only when the measurement is wrong: a call lost from the records, counted
twice, or stamped by two clocks. That is what it is for.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvstore.codes import NO_ANSWER
from kvstore.measure.accounts import Accounts, accounts
from kvstore.measure.run import Run

TOLERANCE = 1e-9
"""Relative error that rounding may leave between both sides of the identity."""


@dataclass(frozen=True, slots=True)
class Audit:
    """Both sides of Little's law, each computed its own way, and the count of calls."""

    in_flight_mean: float
    """L: the area under the number in flight over time, divided by the window."""
    sent_per_s: float
    """lambda: calls sent, divided by the window."""
    residence_mean_s: float
    """W: mean seconds from sending a call to its end."""
    issued: int
    """Calls counted when they were sent."""
    recorded: int
    """Calls that have a record of their end."""
    unknown: int
    """Calls among them of which nobody knows whether the server did them."""
    operations: Accounts
    """What became of the operations that the calls carried."""
    never_negative: bool
    """Whether no call ended before it was sent."""

    @property
    def relative_error(self) -> float:
        """How far L and lambda * W are apart, relative to L; 0 for an empty run."""
        product = self.sent_per_s * self.residence_mean_s
        if not self.in_flight_mean:
            return abs(product)
        return abs(product - self.in_flight_mean) / self.in_flight_mean

    @property
    def holds(self) -> bool:
        """Whether the identity holds to rounding, and every call sent has one end."""
        return (
            self.relative_error <= TOLERANCE
            and self.issued == self.recorded
            and self.operations.balanced
            and self.never_negative
        )

    def __repr__(self) -> str:
        told = self.operations
        carried = "" if told.issued == told.ok == self.issued else f"; {told!r}"
        verdict = "holds" if self.holds else "DOES NOT HOLD: do not trust this run"
        return (
            f"L = {self.in_flight_mean:.4f} in flight; lambda x W ="
            f" {self.sent_per_s:,.2f}/s x {1e3 * self.residence_mean_s:,.3f} ms ="
            f" {self.sent_per_s * self.residence_mean_s:.4f}"
            f" (apart by {self.relative_error:.0e}); {self.issued:,} calls sent,"
            f" {self.recorded:,} ended, {self.unknown:,} of them unknown{carried}: {verdict}"
        )


def audit(run: Run) -> Audit:
    """Little's law and the count of calls, checked on one run."""
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
    )


def mean_in_flight(
    sent_s: npt.NDArray[np.float64], done_s: npt.NDArray[np.float64], window_s: float
) -> float:
    """The time average of the number in flight, by walking through all events in order.

    Sums the area of every step between two events: not the sum of the residence times,
    which would be the other side of the law again.
    """
    if not len(sent_s) or not window_s:
        return 0.0
    at_s, level = in_flight_steps(sent_s, done_s)
    return float(np.dot(level[:-1], np.diff(at_s)) / window_s)


def in_flight_between(
    sent_s: npt.NDArray[np.float64],
    done_s: npt.NDArray[np.float64],
    edges_s: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """The time average of the number in flight from each of the moments to the next one."""
    at_s, level = in_flight_steps(sent_s, done_s)
    if not len(at_s):
        return np.zeros(len(edges_s) - 1)
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(at_s))])
    until = np.interp(edges_s, at_s, area, left=0.0)
    return np.asarray(np.diff(until) / np.diff(edges_s), np.float64)


def in_flight_steps(
    sent_s: npt.NDArray[np.float64], done_s: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Times of all events in order, and the number in flight from each on."""
    at_s = np.concatenate([sent_s, done_s])
    change = np.concatenate([np.ones(len(sent_s), int), -np.ones(len(done_s), int)])
    order = np.argsort(at_s, kind="stable")  # a send comes before an end at the same time
    return at_s[order], np.cumsum(change[order])
