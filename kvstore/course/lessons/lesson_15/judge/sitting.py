"""One learner before one service: what was measured, named, bought and run; the points.

The record of a sitting has the whole history. It has the case only when the score is final.
"""

import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kvstore.course.lessons.lesson_15.judge import cases
from kvstore.course.lessons.lesson_15.judge.cases import (
    CHANGES,
    MOST_IN_FLIGHT,
    P99_S,
    STATIONS,
    Case,
    Network,
)
from kvstore.course.lessons.lesson_15.judge.traffic import (
    NEVER_S,
    Load,
    Plan,
    Result,
    plan,
    simulate,
)
from kvstore.numbers import number

MEASURE_S, RUN_S = 3.0, 8.0
"""Seconds for which a measurement sends, and a run that is scored."""
FAST = 0.4
"""Share of these times in the fast mode of the tests."""
MOST_CHANGES = 2
"""The most changes that can be bought."""
FORMAT: Final = 2
"""Version of the record."""


class Refused(ValueError):
    """A request that the rules do not allow; the message says what to do."""


class Sitting:
    """The rules of the capstone for one case. It never sends a call and reads no clock of a run."""

    def __init__(
        self,
        case: Case,
        rng: random.Random,
        *,
        learner: str = "",
        practice: int | None = None,
        fast: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._case = case
        self._rng = rng
        self._clock = clock
        self._factor = FAST if fast else 1.0
        self._changes: list[str] = []
        self._running: tuple[str, Load] | None = None
        self._plain: Result | None = None  # of the start and of the result, by the plain client
        usual = Load(in_flight=MOST_IN_FLIGHT)
        drawn = plan(usual, RUN_S, random.Random(1))
        self._today_per_s = simulate(case.network(), drawn, usual).throughput_per_s
        self.record: dict[str, Any] = {
            "format": FORMAT,
            "id": f"{rng.getrandbits(32):08x}",
            "learner": learner,
            "practice": practice,
            "fast": fast,
            "history": [],
            "final": None,
        }
        """Everything that may be known so far, ready for JSON."""
        self._note("opened")

    @property
    def finished(self) -> bool:
        """Whether the score is final."""
        return self.record["final"] is not None

    def brief(self) -> dict[str, Any]:
        """Return what is given: the kind of target, the growth, and what is the same for all."""
        return {
            "id": self.record["id"],
            "growth": self._case.growth,
            "open_loop": self._case.open_loop,
            "p99_s": P99_S,
            "most_in_flight": MOST_IN_FLIGHT,
            "most_changes": MOST_CHANGES,
            "run_s": RUN_S * self._factor,
            "changes": {name: what for name, (_, what) in CHANGES.items()},
            "stations": list(STATIONS),
        }

    def name(self, first: str, then: str | None) -> None:
        """Keep the learner's diagnosis: the bottleneck, and what binds next."""
        self._between_runs()
        if self._was_begun("result"):
            raise Refused("your run was begun, so the names stay as they are")
        for each in (first, then):
            if each is not None and each not in STATIONS:
                raise Refused(f"the stations are {', '.join(STATIONS)}, got {each!r}")
        if first is None or first == then:
            raise Refused("name the bottleneck first, and then another station, or None")
        self._note("name", first=first, next=then)

    def predict(self, of: str, value: float) -> None:
        """Keep a prediction of the run of the `start` or of the `result`, before that run."""
        self._between_runs()
        if of not in ("start", "result"):
            raise Refused(f"a prediction is one of the start or of the result, got {of!r}")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value < math.inf:
            raise Refused(f"a prediction must be a number above 0, got {value!r}")
        if self._was_begun(of):
            raise Refused(f"the {of} has run, so no prediction of it is accepted any more")
        self._note("predict", of=of, value=float(value))

    def buy(self, changes: Sequence[str]) -> None:
        """Choose the changes for the run of the result, in place of any chosen before."""
        self._between_runs()
        if self._was_begun("result"):
            raise Refused("your run was begun, so the changes stay as they are")
        for change in changes:
            if change not in CHANGES:
                raise Refused(f"the changes on offer are {', '.join(CHANGES)}, got {change!r}")
        if len(set(changes)) < len(changes) or len(changes) > MOST_CHANGES:
            raise Refused(f"buy at most {MOST_CHANGES} different changes, got {', '.join(changes)}")
        self._changes = list(changes)
        self._note("buy", changes=list(changes))

    def begin(self, what: str, options: dict[str, Any]) -> tuple[Network, Plan, float | None]:
        """Begin a run; return its stations, its calls, and when its fault begins, in seconds.

        `what` is `measure` with the fields of a `Load` as options, `start` or `result`.
        """
        self._still_open()
        self.abort()
        case, seconds = self._case, RUN_S * self._factor
        changes: Sequence[str] = ()
        fault_s = None
        load = Load(in_flight=MOST_IN_FLIGHT)
        if what == "measure":
            seconds = MEASURE_S * self._factor
            load = self._measured_load(options)
        elif what == "start":
            if _events(self.record, "start"):
                raise Refused("the start has run already; measure, or run your result")
        elif what == "result":
            changes = self._changes
            fault_s = case.fault_at * seconds if case.fault else None
        else:
            raise Refused(f"a run is one of measure, start, result, got {what!r}")
        if what != "measure" and case.open_loop:
            load = replace(load, rate_per_s=case.growth * self._today_per_s)
        self._running = what, load
        planned = plan(load, seconds, self._rng)
        if what != "measure":
            self._plain = simulate(case.network(changes), planned, load)
        return case.network(changes, load.proxy_attempts), planned, fault_s

    def end(self, result: Result) -> dict[str, Any]:
        """End the run that was begun with its result; return what the learner may see of it."""
        if self._running is None:
            raise Refused("no run was begun")
        what, load = self._running
        self._running = None
        shown = result.as_dict()
        if what == "result":
            self._finish(shown)
        else:
            plain = {"plain": _steady(self._plain)} if what == "start" else {}
            self._note(what, load=load.shown(), result=shown, **plain)
        return shown

    def abort(self) -> None:
        """End a run that its client has broken off: it counts, without a result."""
        if self._running is not None:
            what, load = self._running
            self._running = None
            event = what if what == "measure" else "aborted"
            self._note(event, run=what, load=load.shown(), result=None)

    @property
    def fault(self) -> str | None:
        """The fault of the run that was begun; only the run of the result has one."""
        return self._case.fault if self._running and self._running[0] == "result" else None

    def _measured_load(self, options: dict[str, Any]) -> Load:
        if "rate_per_s" in options:
            raise Refused("a measurement is a closed loop: choose in_flight")
        try:
            return Load(**options)
        except TypeError:
            known = ", ".join(name for name in Load.__dataclass_fields__ if name != "rate_per_s")
            raise Refused(f"measure() knows {known}; got {', '.join(options)}") from None
        except ValueError as error:
            raise Refused(str(error)) from None

    def _finish(self, result: dict[str, Any]) -> None:
        self._note("result", changes=self._changes)
        self.record["final"] = final = {
            "result": result,
            "plain": _steady(self._plain),
            "changes": self._changes,
            "today_per_s": self._today_per_s,
            "p99_s": P99_S,
            "most_in_flight": MOST_IN_FLIGHT,
            "case": self._case.as_dict(),
        }
        lines = lines_of(self.record)
        final["lines"] = [line._asdict() for line in lines]
        final["points"] = round(sum(line.points for line in lines), 1)
        final["met"] = is_met(lines)

    def _still_open(self) -> None:
        if self.finished:
            raise Refused("the score is final: open another service to try again")

    def _between_runs(self) -> None:
        """Refuse what is chosen before a run, once its client could have seen the result."""
        self._still_open()
        if self._running is not None:
            raise Refused("a run has begun: wait for its end")

    def _was_begun(self, what: str) -> bool:
        """Whether a run was made, or broken off: a client may have measured it all the same."""
        return any(
            each["event"] == what or each.get("run") == what for each in self.record["history"]
        )

    def _note(self, event: str, **more: Any) -> None:
        self.record["history"].append({"at": round(self._clock(), 3), "event": event, **more})


def drawn(practice: int | None = None, open_loop: bool | None = None, **more: Any) -> Sitting:
    """Return a sitting before a new case: from the system's entropy, or from a practice number.

    `open_loop` says how calls arrive in its runs; None leaves it to the draw.
    """
    rng = random.SystemRandom() if practice is None else random.Random(practice)
    case = cases.draw(rng)
    if open_loop is not None:
        case = replace(case, open_loop=open_loop)
    return Sitting(case, rng, practice=practice, **more)


# The points of a finished sitting, computed from its record alone.

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
PASS_MARK: Final = 75
"""Points from which a design passes that meets its target. Without a prediction of the start and
the names of the stations, there are 73 at most: who buys by chance does not pass."""
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
    start = next((each["plain"] for each in _events(record, "start")), None)
    # A client can be as slow as its prediction. So the plain client's figure counts if better.
    name, better = ("steady_p99_s", min) if case["open_loop"] else ("steady_per_s", max)
    reached = better(result[name], final["plain"][name]) if result["answered"] else math.nan
    unit = "s" if case["open_loop"] else "calls/s"
    when = " before the fault" if case["fault"] else ""
    by_plain = f"{when}, by the plain client" if reached != result[name] else when
    started = start["steady_per_s"] if start else math.nan
    shares = {
        START: _predicted(predicted.get("start"), started, "calls/s", ", by the plain client"),
        RESULT: _predicted(predicted.get("result"), reached, unit, by_plain),
        TARGET: _target(case, result, today_per_s, final["p99_s"]),
        LOST: _lost(result, final["most_in_flight"], case["open_loop"]),
    }
    lines = [
        Line(name, MOST[name] * share, MOST[name], why) for name, (share, why) in shares.items()
    ]
    return [_named(record, case), *lines, _spent(record)]


def _steady(plain: Result | None) -> dict[str, float]:
    """Return what the plain client reaches, of the figures that can be predicted."""
    assert plain is not None, "it is computed when a run of the start or of the result begins"
    return {name: getattr(plain, name) for name in ("steady_per_s", "steady_p99_s")}


def _events(record: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    return [each for each in record["history"] if each["event"] == kind]


def _named(record: Mapping[str, Any], case: Mapping[str, Any]) -> Line:
    events = _events(record, "name")
    first, then = (events[-1]["first"], events[-1]["next"]) if events else (None, None)
    right = case["first"], case["second"]
    points = FIRST * (first == right[0]) + NEXT * (then == right[1] and first is not None)
    if (then, first) == right:
        points = SWAPPED
    truth = f"the bottleneck is {right[0]}, next is {right[1] or 'no other within 20 %'}"
    yours = f"you named {first}, then {then or 'none'}" if first else "you named none"
    return Line(NAMED, float(points), MOST[NAMED], f"{yours}; {truth}")


Scored = tuple[float, str]
"""A share of the points of a line, and the reason."""


def _predicted(predicted: float | None, measured: float, unit: str, when: str) -> Scored:
    """Give all points within 10 %, none from a factor of 2 on, linear in the logarithm between."""
    if predicted is None:
        return 0.0, "no prediction was made before the run"
    if not measured > 0:
        return 0.0, "there is no run to compare with"
    error = abs(math.log10(predicted / measured))
    share = min(1.0, max(0.0, (TOO_FAR - error) / (TOO_FAR - SPOT_ON)))
    return share, (
        f"predicted {number(predicted)} {unit}, reached {number(measured)} {unit}{when}:"
        f" {predicted / measured:.2f} times"
    )


def _target(
    case: Mapping[str, Any], result: Mapping[str, Any], today_per_s: float, most_p99_s: float
) -> Scored:
    if case["open_loop"]:
        p99_s = result["p99_s"]
        share = min(1.0, (most_p99_s / p99_s) ** 2) if p99_s > 0 else 0.0
        why = f"p99 {p99_s:.2f} s, at most {most_p99_s:.2f} s allowed"
        if result["lost"]:
            why += f"; a lost call counts as {NEVER_S:g} s"
        return share, why
    per_s, needed_per_s = result["throughput_per_s"], case["growth"] * today_per_s
    share = min(1.0, max(0.0, (per_s - today_per_s) / (needed_per_s - today_per_s)))
    return share, f"{per_s:.1f} calls/s; {needed_per_s:.1f} are needed, it was {today_per_s:.1f}"


def _lost(result: Mapping[str, Any], most_in_flight: int, open_loop: bool) -> Scored:
    lost, answered = result["lost"], result["answered"]
    room = 1.25 * most_in_flight  # an attempt that was given up is noticed a moment later
    if not open_loop and result["most_open"] > room:
        return 0.0, f"{result['most_open']} calls were open at once, {most_in_flight} are allowed"
    share = 1.0 if answered and not lost else 0.0
    return share, f"{answered:,} calls answered, {lost:,} lost"


def _spent(record: Mapping[str, Any]) -> Line:
    counted = {kind: len(_events(record, kind)) for kind in ("measure", "aborted")}
    counted["measure"] += len(_events(record, "start"))
    counted["buy"] = len(record["final"]["changes"])
    spent = sum(COSTS[kind] * count for kind, count in counted.items())
    why = f"measurements: {counted['measure']}, changes: {counted['buy']}"
    if counted["aborted"]:
        why += f", {counted['aborted']} runs broken off"
    return Line(SPENT, max(0.0, MOST[SPENT] - spent), MOST[SPENT], f"{why}: {spent:g} points")


def is_met(lines: Iterable[Line]) -> bool:
    """Return whether the target was met and nothing was lost."""
    return all(line.points == line.of for line in lines if line.name in (TARGET, LOST))


def is_passed(lines: Iterable[Line]) -> bool:
    """Return whether a design passes: it meets its target, and has `PASS_MARK` points or more."""
    lines = list(lines)
    return is_met(lines) and round(sum(line.points for line in lines), 1) >= PASS_MARK
