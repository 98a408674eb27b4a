"""The points of a finished sitting, line by line, computed from its record alone.

So a scoreboard can compute them again and find a record whose points were changed.
"""

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

NAMED, START, RESULT, TARGET, LOST, SPENT = LINES = (
    "stations named",
    "start predicted",
    "result predicted",
    "target",
    "nothing lost",
    "spent",
)
MOST: Final = dict(zip(LINES, (10, 15, 25, 30, 10, 10), strict=True))
"""The most points of each line: 40 for predictions, 40 for the result."""
FIRST, NEXT, SWAPPED = 7, 3, 8
"""Points for the bottleneck, for what is next, and for both in the wrong order."""
SPOT_ON, TOO_FAR = math.log10(1.1), math.log10(2.0)
"""The errors of a prediction that give all points, and none."""
COSTS: Final = {"measure": 0.5, "buy": 1.0, "aborted": 2.0}
"""Points for a measurement, for a change, and for another run that was broken off."""


class Line(NamedTuple):
    """One line of a score: its points, the most points, and the reason."""

    name: str
    points: float
    of: int
    why: str


def lines_of(record: Mapping[str, Any]) -> list[Line]:
    """Return the lines of a finished sitting. Raises `KeyError` for one that is not finished."""
    final = record["final"]
    result, case, today_per_s = final["result"], final["case"], final["today_per_s"]
    predicted = {each["of"]: each["value"] for each in _events(record, "predict")}
    start = next((each["result"] for each in _events(record, "start")), None)
    measured = result["steady_p99_s" if case["open_loop"] else "steady_per_s"]
    unit = "s" if case["open_loop"] else "calls/s"
    when = " before the fault" if case["fault"] else ""
    started = start["steady_per_s"] if start else math.nan
    return [
        _named(record, case),
        _predicted(START, predicted.get("start"), started, "calls/s"),
        _predicted(RESULT, predicted.get("result"), measured, unit, when),
        _target(case, result, today_per_s, final["p99_s"]),
        _lost(result, final["most_in_flight"], case["open_loop"]),
        _spent(record),
    ]


def _events(record: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    return [each for each in record["history"] if each["event"] == kind]


def _named(record: Mapping[str, Any], case: Mapping[str, Any]) -> Line:
    said = _events(record, "name")
    first, then = (said[-1]["first"], said[-1]["next"]) if said else (None, None)
    right = case["first"], case["second"]
    points = FIRST * (first == right[0]) + NEXT * (then == right[1] and first is not None)
    if (then, first) == right:
        points = SWAPPED
    truth = f"the bottleneck is {right[0]}, next is {right[1] or 'no other within 20 %'}"
    yours = f"you named {first}, then {then or 'none'}" if first else "you named none"
    return Line(NAMED, float(points), MOST[NAMED], f"{yours}; {truth}")


def _predicted(
    name: str, predicted: float | None, measured: float, unit: str, when: str = ""
) -> Line:
    """Give all points within 10 %, none from a factor of 2 on, linear in the logarithm between."""
    of = MOST[name]
    if predicted is None:
        return Line(name, 0.0, of, "no prediction was made before the run")
    if not measured > 0:
        return Line(name, 0.0, of, "there is no run to compare with")
    error = abs(math.log10(predicted / measured))
    share = min(1.0, max(0.0, (TOO_FAR - error) / (TOO_FAR - SPOT_ON)))
    ratio = f"{predicted / measured:.2f} times"
    why = f"predicted {predicted:.3g} {unit}, measured {measured:.3g}{when}: {ratio}"
    return Line(name, of * share, of, why)


def _target(
    case: Mapping[str, Any], result: Mapping[str, Any], today_per_s: float, most_p99_s: float
) -> Line:
    of = MOST[TARGET]
    if case["open_loop"]:
        p99_s = result["p99_s"]
        share = min(1.0, (most_p99_s / p99_s) ** 2) if p99_s > 0 else 0.0
        return Line(
            TARGET, of * share, of, f"p99 {p99_s:.2f} s, at most {most_p99_s:.2f} s allowed"
        )
    per_s, needed_per_s = result["throughput_per_s"], case["growth"] * today_per_s
    share = min(1.0, max(0.0, (per_s - today_per_s) / (needed_per_s - today_per_s)))
    why = f"{per_s:.1f} calls/s; {needed_per_s:.1f} are needed, it was {today_per_s:.1f}"
    return Line(TARGET, of * share, of, why)


def _lost(result: Mapping[str, Any], most_in_flight: int, open_loop: bool) -> Line:
    of, lost, answered = MOST[LOST], result["lost"], result["answered"]
    room = 1.25 * most_in_flight  # an attempt that was given up is noticed a moment later
    if not open_loop and result["most_open"] > room:
        why = f"{result['most_open']} calls were open at once, {most_in_flight} are allowed"
        return Line(LOST, 0.0, of, why)
    share = 1.0 if answered and not lost else 0.0
    return Line(LOST, of * share, of, f"{answered:,} calls answered, {lost:,} lost")


def _spent(record: Mapping[str, Any]) -> Line:
    counted = {kind: len(_events(record, kind)) for kind in ("measure", "aborted")}
    counted["buy"] = len(record["final"]["changes"])
    spent = sum(COSTS[kind] * count for kind, count in counted.items())
    why = f"measurements: {counted['measure']}, changes: {counted['buy']}"
    if counted["aborted"]:
        why += f", {counted['aborted']} runs broken off"
    return Line(SPENT, max(0.0, MOST[SPENT] - spent), MOST[SPENT], f"{why}: {spent:g} points")


def is_met(lines: list[Line]) -> bool:
    """Return whether the target was met and nothing was lost."""
    return all(line.points == line.of for line in lines if line.name in (TARGET, LOST))
