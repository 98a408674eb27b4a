"""Whether a number may stand beside a question, by their units.

Two words for a rate, on every page: `calls/s` counts calls, whatever their answer: what is sent,
what is offered, what a station serves. `operations/s` counts operations answered OK: the
throughput of a run. They are the same number where each call carries one operation and is answered
OK. A call of a batch carries many.
"""

from typing import Any, Final

CALLS, OPERATIONS = "calls/s", "operations/s"
RATES: Final = (CALLS, OPERATIONS)

_SECONDS: Final = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}


class UnitError(ValueError):
    """Two numbers were to stand side by side that do not measure the same thing."""


def factor(given: str, asked: str, what: str, per_call: float = 1.0) -> float:
    """What to multiply a number of unit `given` by, to have it in the unit `asked`.

    Times convert, and the two rates are one number where a call carries one operation
    (`per_call`, operations in a call). UnitError otherwise; `what` names the number in it.
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
            f"carried {per_call:,.4g} operations: multiply calls by it to have operations"
        )
    return 1.0


def operations_in_a_call(run: object) -> float:
    """How many operations a call of this run carried, in the mean; 1 where it does not say."""
    sent: Any = getattr(run, "issued_operations", None)
    calls: Any = getattr(run, "issued", None)
    return sent / calls if sent and calls else 1.0
