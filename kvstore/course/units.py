"""Conversion of units between a question, a prediction and a result.

There are two units of a rate. `calls/s` counts calls with any status: an offered rate, or the
capacity of a station. `operations/s` counts operations answered OK: the throughput of a run. They
are equal if each call has one operation and is answered OK. A call of a batch has many.
"""

from typing import Any, Final

CALLS, OPERATIONS = "calls/s", "operations/s"
RATES: Final = (CALLS, OPERATIONS)

_SECONDS: Final = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}


class UnitError(ValueError):
    """Two numbers cannot be compared, because their units differ."""


def factor(given: str, asked: str, what: str, per_call: float = 1.0) -> float:
    """Return the factor from the unit `given` to the unit `asked`.

    Times convert. The two rates are equal if a call has one operation (`per_call` is the number of
    operations in a call). Raise UnitError otherwise; `what` names the number in its message.
    """
    if given == asked:
        return 1.0
    if given in _SECONDS and asked in _SECONDS:
        return _SECONDS[given] / _SECONDS[asked]
    if {given, asked} != set(RATES):
        raise UnitError(
            f"the question asks for {asked}, but {what} is in {given}: "
            "give the quantity that the question names, or its unit to `predict(..., unit=...)`"
        )
    if abs(per_call - 1) > 1e-9:
        raise UnitError(
            f"the question asks for {asked}, but {what} is in {given}, and a call of this run "
            f"has {per_call:,.4g} operations: multiply calls by it to get operations"
        )
    return 1.0


def operations_in_a_call(run: object) -> float:
    """Return the mean number of operations in a call of this run; 1 if it is unknown."""
    sent: Any = getattr(run, "issued_operations", None)
    calls: Any = getattr(run, "issued", None)
    return sent / calls if sent and calls else 1.0
