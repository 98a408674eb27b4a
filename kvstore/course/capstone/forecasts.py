"""Forecasts of designs from the settings of a case: throughput, tail latency, bottleneck."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvstore.course.capstone.cases import (
    HOT_KEY,
    IN_FLIGHT,
    LOCK,
    POOL,
    PROCESSOR,
    STREAMS,
    Case,
    Price,
)
from kvstore.course.capstone.designs import Design
from kvstore.measure import Run
from kvstore.measure.cpu_cost import pace_s
from kvstore.model import Prediction, Station, batching, bounds, key_skew

WIRE_S = 0.002
"""Nominal seconds of a call outside of disk and locks."""
MARGIN = 2.0
"""The forecast must exceed the target by this factor, because laptops are noisy."""
BUSIEST_SHARE = 0.7
"""The share of the calls at the busier of two servers with 16 keys at random; rarely more."""
BATCHES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast of one design, with its cost."""

    design: Design
    cost_days: int
    per_s: Prediction
    """Operations per second, with the bottleneck."""
    p99_s: float
    """Approximate 99th percentile of the latency in seconds."""
    enough: bool
    """Whether it exceeds the target by the factor `MARGIN`, in rate and tail."""


def forecast(case: Case, design: Design, price: Price | None = None) -> Forecast:
    """Return rate and tail of a design; without a measured `price`, use the case's nominal one.

    X = k min(N / W, servers / demand of each station), for messages of k operations. The tail is
    the slowest message plus twice the mean wait, because queues are not first come, first served.
    Raise `DesignRefused` for a design that the case does not accept.
    """
    case.refuse(design)
    per_s = throughput(case, design, price)
    settings = case.settings(design)
    message_s = _disk_s(case, design, settings) + WIRE_S
    waits_s = max(0.0, design.in_flight * design.batch / per_s.value - message_s)
    p99_s = _slowest_s(design, settings) + WIRE_S + 2 * waits_s
    start_per_s = throughput(case, case.start, price).value
    needed_per_s = case.target.needed_per_s(start_per_s)
    return Forecast(
        design,
        case.cost_days(design),
        per_s,
        p99_s,
        enough=(
            per_s.value >= MARGIN * needed_per_s
            and MARGIN * p99_s <= case.target.p99_s
            and design.in_flight <= case.target.most_in_flight
        ),
    )


def throughput(case: Case, design: Design, price: Price | None = None) -> Prediction:
    """Return operations per second of a design, and its bottleneck."""
    limits = stations(case, design, price)
    whole_s = _disk_s(case, design, case.settings(design)) + WIRE_S
    bound = min(
        (_with(limit, whole_s, design.in_flight) for limit in limits), key=lambda found: found.value
    )
    words = f"{design.batch} operations a message; {bound.reason}" if design.batch > 1 else ""
    return Prediction(
        design.batch * bound.value, "operations/s", words or bound.reason, bound.binds or IN_FLIGHT
    )


def price_of(case: Case, run: Run) -> Price:
    """Return the CPU times for a forecast, given a run of the design at the start.

    They are measured if the target is a multiple of the start, where the processor may be the
    bottleneck. Else they are nominal: a nearly idle processor takes longer for a call.
    """
    measured_s = pace_s(run)  # NaN if no process could be observed
    if case.target.times_start is None or not measured_s > 0:
        return case.price
    return replace(case.price, call_s=measured_s)


def stations(case: Case, design: Design, price: Price | None = None) -> list[Station]:
    """Return the possible bottlenecks, each with its service demand for one call or message."""
    settings = case.settings(design)
    share = 1.0 if design.servers == 1 else BUSIEST_SHARE  # of the calls, at the busiest server
    disk_s = share * _disk_s(case, design, settings)
    found = [Station(PROCESSOR, share * (price or case.price).of(design))]
    if "max_streams" in settings and design.strategy != "pipelined":
        open_at_once = settings["max_streams"] * design.connections
        found.append(Station(STREAMS, disk_s + share * WIRE_S, open_at_once))
    if settings["locking"] == "global":
        found.append(Station(LOCK, disk_s))
    if settings["locking"] == "per_key_held":
        found.append(Station(HOT_KEY, _hottest_s(case, design, settings)))
    if not settings.get("use_asyncio"):
        found.append(Station(POOL, disk_s, settings["threads"]))
    return found


def candidates(case: Case) -> list[Design]:
    """Return every design that the model considers, the cheapest first."""
    levels = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= case.target.most_in_flight]
    clients = [
        *(Design("bounded", n, connections=c) for n in levels for c in (1, 4, 8) if c <= n),
        *(Design("pipelined", n, batch=k) for n in levels for k in BATCHES),
    ]
    found = []
    for count in range(case.most_changes + 1):
        for changes in itertools.combinations(case.offers, count):
            for client in clients:
                design = replace(client, changes=changes)
                if client.strategy == "pipelined":
                    design = replace(design, streams=design.servers)
                if not case.problem_with(design):
                    found.append(design)
    return sorted(found, key=case.cost_days)


def reference(case: Case, price: Price | None = None) -> Forecast:
    """Return the cheapest design that is enough; of equals the one with the smallest numbers.

    Raise `LookupError` if there is none.
    """
    for _, designs in itertools.groupby(candidates(case), case.cost_days):
        enough = [found for each in designs if (found := forecast(case, each, price)).enough]
        if enough:
            return min(enough, key=_size)
    raise LookupError(f"no design reaches {case.target} for the case {case.id}: lower the target")


def _size(found: Forecast) -> tuple[int, int, int, int, int]:
    design = found.design
    sizes = (design.in_flight, design.batch, design.connections)
    return (found.cost_days, len(design.changes), *sizes)


def _with(limit: Station, whole_s: float, in_flight: int) -> Prediction:
    """Return the bound by one station; a call that holds two at once visits each in turn."""
    rest = Station("the rest", max(0.0, whole_s - limit.demand_s), math.inf)
    return bounds.closed_loop(in_flight, [limit, rest])


def _disk_s(case: Case, design: Design, settings: Mapping[str, Any]) -> float:
    """Return the mean disk seconds of one call or message."""
    return batching.disk_s(
        design.batch,
        case.workload.mix,
        read_delay_s=settings["read_delay_s"],
        write_delay_s=settings["write_delay_s"],
        group_commit=settings.get("group_commit", False) and design.strategy == "pipelined",
    )


def _slowest_s(design: Design, settings: Mapping[str, Any]) -> float:
    """Return the disk seconds of a message of writes only; one write for a group commit."""
    grouped = settings.get("group_commit", False)
    return float((1 if grouped else design.batch) * settings["write_delay_s"])


def _hottest_s(case: Case, design: Design, settings: Mapping[str, Any]) -> float:
    """Return the mean seconds that a call or message holds the lock of the hottest key."""
    if settings.get("group_commit") and design.batch > 1:
        return _disk_s(case, design, settings)  # as if every group wrote the hottest key
    workload = case.workload
    exponent = workload.zipf_exponent if workload.key_choice == "zipf" else 0.0
    each = key_skew.hottest_lock(
        workload.preload,
        exponent,
        hold_s=settings["write_delay_s"],
        locking_share=1 - workload.mix["retrieve"],
    )
    return design.batch * each.demand_s
