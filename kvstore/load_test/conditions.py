"""Conditions on a run: --fail-if 'p99 > 50ms' ends the command with exit status 1."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from kvstore.load_test.findings import populations
from kvstore.load_test.options import UNITS_S
from kvstore.measure import Run
from kvstore.numbers import percent, rate, seconds

_CONDITION: Final = re.compile(
    r"\s*(throughput|errors|mean|p50|p90|p99|p99\.9)\s*(<=|>=|<|>)\s*([0-9.]+)\s*(%|[a-zµ]*)\s*"
)
_OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": lambda found, limit: found < limit,
    ">": lambda found, limit: found > limit,
    "<=": lambda found, limit: found <= limit,
    ">=": lambda found, limit: found >= limit,
}


class Condition(NamedTuple):
    """A condition under which a run fails, such as p99 > 0.05."""

    name: str
    operator: str
    limit: float
    """In seconds, as a share, or in calls per second."""

    def holds(self, run: Run) -> str:
        """Return what was found if the condition holds, else "". Without a call OK, it holds."""
        value = self._value(run)
        if value == value and not _OPERATORS[self.operator](value, self.limit):
            return ""
        write: Callable[[float], str] = seconds
        if self.name == "errors":
            write = percent
        elif self.name == "throughput":
            write = rate
        shown = write(value) if value == value else "not known, because no call ended OK"
        return f"{self.name} is {shown}, and {self.operator} {write(self.limit)} was to fail"

    def _value(self, run: Run) -> float:
        if self.name == "throughput":
            return run.throughput_per_s
        ok, *others = populations(run)
        if self.name == "errors":  # calls that were cut off are no failures of the service
            failed = sum(each.calls for each in others if each.name == "failed")
            return failed / (ok.calls + failed) if ok.calls + failed else float("nan")
        return ok.mean_s if self.name == "mean" else ok.latency[self.name].value_s


def condition_of(text: str) -> Condition:
    """Return the condition that a text says. Raises `ValueError` for another text."""
    found = _CONDITION.fullmatch(text)
    if not found:
        raise ValueError(
            "a condition is NAME OPERATOR VALUE, such as 'p99 > 50ms', 'errors > 1%' or"
            f" 'throughput < 100'; names are throughput, errors, mean, p50, p90, p99, p99.9; got"
            f" {text!r}"
        )
    name, operator, value, unit = found.groups()
    if name == "throughput":
        factor = 1.0 if not unit else None
    elif name == "errors":
        factor = {"%": 0.01, "": 1.0}.get(unit)
    else:
        factor = UNITS_S.get(unit)
    try:
        return Condition(name, operator, float(value) * factor)  # type: ignore[operator]
    except (TypeError, ValueError):
        raise ValueError(
            f"{text!r} needs another unit: latencies such as 50ms, errors such as 1%, throughput"
            f" in calls/s, got {value}{unit}"
        ) from None
