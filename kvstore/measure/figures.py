"""Figures of a run: the interval of its throughput, quantiles of its latency, and its goodput.

Latency is measured from the due time of a call, so a call that was sent late counts as late
("coordinated omission"; G. Tene, "How NOT to Measure Latency", 2013).
"""

import math
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from kvstore.measure.recorder import Records, Times
from kvstore.measure.run import Run
from kvstore.protocol import CANCELLED, DEADLINE_EXCEEDED, NO_ANSWER, OK

BATCHES: Final = 20
"""Batches of equal length into which a run is divided for its confidence interval."""

# The 97.5 % quantile of Student's t with BATCHES - 1 = 19 degrees of freedom.
_T_95 = 2.093


class Interval(NamedTuple):
    """A 95 % confidence interval of a rate, in operations per second."""

    low_per_s: float
    high_per_s: float


def throughput_interval(run: Run) -> Interval:
    """Return the 95 % confidence interval of the throughput, by the method of batch means.

    The window is divided into `BATCHES` batches of equal length, whose rates are treated as
    independent samples (A. M. Law, "Simulation Modeling and Analysis", chapter 9). The interval
    covers variation within this run. Two runs can differ by more.
    """
    ok = run.records[run.records["status"] == OK]
    if not len(ok) or not run.window_s:
        return Interval(0.0, 0.0)
    counts, _ = np.histogram(
        ok["done_s"], bins=BATCHES, range=(0.0, run.window_s), weights=ok["ok_operations"]
    )
    rates = counts / (run.window_s / BATCHES)
    half = _T_95 * float(np.std(rates, ddof=1)) / np.sqrt(BATCHES)
    return Interval(max(0.0, run.throughput_per_s - half), run.throughput_per_s + half)


CUT_OFF: Final = (CANCELLED, DEADLINE_EXCEEDED, NO_ANSWER)
"""Statuses of calls that were cut off before their end."""
FEWEST_CALLS: Final = 10 * BATCHES
"""With fewer calls, the batches are too small to tell neighbouring calls from independent ones."""
ALIKE: Final = 1.5
"""Neighbouring calls are alike if the share of calls above a quantile varies between batches by
this factor more than for independent calls, of which one sample in a thousand does."""
STATED: Final = 0.95
CANDIDATES: Final = 4
"""Ranks that are tried for each end of an interval."""
UNEVEN: Final = 0.3
"""Weight of how much more often an interval is too low than too high, beside its coverage. A weight
of 1 would leave the 93 to 97 %, and one of 0 would take intervals with one end."""
FEWEST_STATED: Final = 15
"""With fewer calls, an interval of a median would hold it too often for its 95 %."""


class Quantile(NamedTuple):
    """A quantile of latency in seconds, and its 95 % confidence interval.

    Infinite where the quantile is among calls that were cut off: it is above their latency. The
    interval is NaN where so few calls have none; see `needs`.
    """

    value_s: float
    low_s: float
    high_s: float


def latencies_s(run: Run) -> Times:
    """Return the latency of every call in seconds, in order of due or sending time.

    It is measured from the due time, in a closed loop from sending. The latency of a call that was
    cut off (by its deadline, by the end of the run, or without a reply) is only known to be larger
    than the time that it had, so it is infinite here. Calls that the server refused are left out.
    """
    records = run.records
    records = records[(records["status"] == OK) | np.isin(records["status"], CUT_OFF)]
    order = np.argsort(started_s(records), kind="stable")
    taken_s = (records["done_s"] - started_s(records))[order]
    return np.where(np.isin(records["status"], CUT_OFF)[order], np.inf, taken_s)


def quantile(latency_s: Times, share: float) -> Quantile:
    """Return the quantile at `share` (0 to 1) of latencies in order of time, with its interval.

    The interval is between two order statistics, whatever the distribution of the latency. For
    independent calls, their ranks follow from the binomial distribution (W. J. Conover, "Practical
    Nonparametric Statistics", section 3.2). The latencies of neighbouring calls are not
    independent. So the variance of the share of calls above the quantile is also estimated from
    `BATCHES` batches. Where it is larger, the calls count as fewer independent ones. NaN without a
    call.
    """
    count = len(latency_s)
    if not count:
        return Quantile(math.nan, math.nan, math.nan)
    ordered = np.sort(latency_s)
    value_s = _at(ordered, share)
    independent = count
    if count >= FEWEST_CALLS:
        edges = np.linspace(0, count, BATCHES + 1).astype(int)
        above = np.add.reduceat(latency_s > value_s, edges[:-1], dtype=int) / np.diff(edges)
        usual = share * (1 - share) / (count / BATCHES)
        if (more := float(np.var(above, ddof=1)) / usual) > ALIKE**2:
            independent = int(count / more)
    if independent < needs(share):
        return Quantile(value_s, math.nan, math.nan)
    low, high = (rank * count / independent for rank in ranks(independent, share))
    return Quantile(value_s, float(ordered[int(low) - 1]), float(ordered[math.ceil(high) - 1]))


def needs(share: float) -> int:
    """Return the number of calls from which on a quantile has an interval.

    With fewer, the quantile may be above all of them (or below) too often: 0.99^298 is 0.0500.
    """
    rare = math.log(1 - STATED) / math.log(max(share, 1 - share))
    return max(FEWEST_STATED, math.ceil(rare))


@lru_cache(1024)
def ranks(count: int, share: float) -> tuple[int, int]:
    """Return the ranks, from 1 on, between which a quantile is with a probability of `STATED`.

    The number of calls below the quantile has the binomial distribution. It has steps, so that no
    two ranks have just this probability: those are taken that come near it, and miss the quantile
    about as often on both sides.
    """
    spread = 9 * math.sqrt(count * share * (1 - share)) + 9
    most_likely = min(int((count + 1) * share), count)
    below = np.arange(max(0, int(most_likely - spread)), min(count, int(most_likely + spread)) + 1)
    ratio = np.log((count - below[:-1]) / (below[:-1] + 1) * share / (1 - share))
    logs = np.concatenate([[0.0], np.cumsum(ratio)])
    each = np.exp(logs - logs.max())
    each /= each.sum()
    too_high, too_low = np.cumsum(each), np.cumsum(each[::-1])[::-1]
    side = (1 - STATED) / 2
    lows = np.argsort(np.abs(too_high - side))[:CANDIDATES]
    highs = np.argsort(np.abs(np.where(below > 0, too_low, np.inf) - side))[:CANDIDATES]
    misses_low, misses_high = too_high[lows][:, None], too_low[highs][None, :]
    wrong = np.abs(misses_low + misses_high - 2 * side)
    wrong += UNEVEN * np.abs(misses_low - misses_high)
    low, high = np.unravel_index(np.argmin(wrong), wrong.shape)
    return int(below[lows[low]]) + 1, int(below[highs[high]])


def _at(ordered: Times, share: float) -> float:
    """Return the smallest latency with at least this share of the calls at or below it."""
    place = math.ceil(share * len(ordered)) - 1
    return float(ordered[min(max(place, 0), len(ordered) - 1)])


def started_s(records: Records) -> Times:
    """Return when each call was due; in a closed loop, when it was sent."""
    due_s: Times = records["due_s"]
    return np.where(np.isnan(due_s), records["sent_s"], due_s)


class Goodput(NamedTuple):
    """The calls of an open loop by their outcome.

    Rates are calls per second of the time in which calls were due. Every call sent is in time,
    late or refused.
    """

    offered_per_s: float
    """Arrival rate: calls that were due."""
    in_time_per_s: float
    """Goodput: calls answered OK within the deadline, measured from their due time."""
    late: int
    """Calls that ended with DEADLINE_EXCEEDED or were answered OK after the deadline."""
    refused: int
    """Calls that ended with any other status, most often RESOURCE_EXHAUSTED."""
    wasted: float
    """Operations that the server completed too late to count as goodput; NaN if it has not
    reported its operations."""


def goodput(run: Run, *, from_s: float = 0.0) -> Goodput:
    """Return the goodput of an open loop, of the calls that were due from `from_s` seconds on.

    The deadline is that of the run. What the server wasted is always that of the whole run. Raises
    `ValueError` for a closed loop: its calls have no due times, because each caller waits for a
    reply before the next call.
    """
    records = run.records
    if np.isnan(records["due_s"]).any():
        raise ValueError(
            "goodput needs an open loop, got a closed loop without due times: pass due_times to"
            " load.run"
        )
    last_s = float(run.records["due_s"].max()) if len(run.records) else 0.0
    offered_s = run.settings.get("duration_s") or last_s or run.window_s or math.nan
    counted_s = offered_s - from_s
    ok = records["status"] == OK
    is_in_time = ok & (records["done_s"] - records["due_s"] <= run.settings["deadline_s"])
    is_late = (ok & ~is_in_time) | (records["status"] == DEADLINE_EXCEEDED)
    counts = records["due_s"] >= from_s
    issued = run.issued - int(np.count_nonzero(~counts))
    in_time, late = (int(np.count_nonzero(each & counts)) for each in (is_in_time, is_late))
    done = math.nan
    if (counted := run.server.operations) is not None:
        done = sum(count for name, count in counted.items() if name.endswith("/OK"))
    return Goodput(
        offered_per_s=issued / counted_s,
        in_time_per_s=in_time / counted_s,
        late=late,
        refused=issued - in_time - late,
        wasted=done - int(np.count_nonzero(is_in_time)),
    )
