"""What a design will give, worked out from the settings: no call is sent."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvstore.course.design.choice import Design
from kvstore.course.design.service import (
    HOT_KEY,
    IN_FLIGHT,
    LOCK,
    POOL,
    PROCESSOR,
    STREAMS,
    Case,
    Price,
)
from kvstore.measure import Run
from kvstore.measure.price import pace_s
from kvstore.model import Prediction, Station, batching, bounds, popularity

WIRE_S = 0.002
"""Seconds that a call spends outside of disk and locks; a nominal one, never measured."""
MARGIN = 2.0
"""A design is taken when it promises so many times what is wanted: laptops are noisy."""
BUSIEST_SHARE = 0.7
"""Of two servers that share out 16 keys by chance, the busier one rarely gets more."""
BATCHES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Forecast:
    """One design, what it costs, and what the model says it gives."""

    design: Design
    cost_days: int
    per_s: Prediction
    """Operations per second, with the station that binds."""
    p99_s: float
    """About the seconds that all but one in a hundred calls take at most."""
    enough: bool
    """Whether it promises `MARGIN` times what the target wants, in rate and tail."""


def forecast(case: Case, design: Design, price: Price | None = None) -> Forecast:
    """Rate and tail of a design; `price` is what was measured, else the case's nominal one.

    X = k min(N / W, servers / demand of each station), for messages of k operations. The tail
    is the slowest message, and twice the mean wait where one waits: waiting is not in turn.
    Raises `DesignRefused` for a design that cannot be had.
    """
    case.refuse(design)
    per_s = throughput(case, design, price)
    set_to = case.settings(design)
    message_s = _disk_s(case, design, set_to) + WIRE_S
    waits_s = max(0.0, design.in_flight * design.batch / per_s.value - message_s)
    p99_s = _slowest_s(design, set_to) + WIRE_S + 2 * waits_s
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
    """Operations per second of a design, and what binds."""
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
    """The prices to reckon with, given a run of the design at the start on this machine.

    Measured where the target asks for a multiple, for there the processor is in question; else
    nominal: a processor that is nearly idle takes longer for a call than one that is not.
    """
    measured_s = pace_s(run)  # NaN where no process could be seen
    if math.isnan(case.target.times_start) or not measured_s > 0:
        return case.price
    return replace(case.price, call_s=measured_s)


def stations(case: Case, design: Design, price: Price | None = None) -> list[Station]:
    """What could bind, each with the seconds that one call or message holds it."""
    set_to = case.settings(design)
    share = 1.0 if design.servers == 1 else BUSIEST_SHARE  # of the calls, at the busiest server
    disk_s = share * _disk_s(case, design, set_to)
    found = [Station(PROCESSOR, share * (price or case.price).of(design))]
    if "max_streams" in set_to and design.strategy != "pipelined":
        open_at_once = set_to["max_streams"] * design.connections
        found.append(Station(STREAMS, disk_s + share * WIRE_S, open_at_once))
    if set_to["locking"] == "global":
        found.append(Station(LOCK, disk_s))
    if set_to["locking"] == "per_key_held":
        found.append(Station(HOT_KEY, _hottest_s(case, design, set_to)))
    if not set_to.get("use_asyncio"):
        found.append(Station(POOL, disk_s, set_to["threads"]))
    return found


def candidates(case: Case) -> list[Design]:
    """Every design that the model looks at, the cheapest first."""
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
    """The cheapest design that promises enough; of equals the one with the smallest numbers.

    Raises `LookupError` when there is none: then the case asks for too much.
    """
    for _, designs in itertools.groupby(candidates(case), case.cost_days):
        enough = [found for each in designs if (found := forecast(case, each, price)).enough]
        if enough:
            return min(enough, key=_modesty)
    raise LookupError(f"no design promises {case.target} for the case {case.id}")


def _modesty(found: Forecast) -> tuple[int, int, int, int, int]:
    design = found.design
    sizes = (design.in_flight, design.batch, design.connections)
    return (found.cost_days, len(design.changes), *sizes)


def _with(limit: Station, whole_s: float, in_flight: int) -> Prediction:
    """The bound by one station: a call that holds two at once meets each in its turn."""
    rest = Station("the rest", max(0.0, whole_s - limit.demand_s), math.inf)
    return bounds.closed_loop(in_flight, [limit, rest])


def _disk_s(case: Case, design: Design, set_to: Mapping[str, Any]) -> float:
    """Mean seconds of disk for one call or message."""
    return batching.disk_s(
        design.batch,
        case.workload.mix,
        read_delay_s=set_to["read_delay_s"],
        write_delay_s=set_to["write_delay_s"],
        group_commit=set_to.get("group_commit", False) and design.strategy == "pipelined",
    )


def _slowest_s(design: Design, set_to: Mapping[str, Any]) -> float:
    """Seconds of disk for a message of writes only; as a group it pays one."""
    grouped = set_to.get("group_commit", False)
    return float((1 if grouped else design.batch) * set_to["write_delay_s"])


def _hottest_s(case: Case, design: Design, set_to: Mapping[str, Any]) -> float:
    """Seconds that a call or message holds the lock of the hottest key, on average."""
    if set_to.get("group_commit") and design.batch > 1:
        return _disk_s(case, design, set_to)  # as if every group wrote the hottest key
    asked = case.workload
    exponent = asked.zipf_exponent if asked.key_choice == "zipf" else 0.0
    each = popularity.hottest_lock(
        asked.preload,
        exponent,
        hold_s=set_to["write_delay_s"],
        locking_share=1 - asked.mix["retrieve"],
    )
    return design.batch * each.demand_s
