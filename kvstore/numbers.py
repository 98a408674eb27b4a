"""Numbers written for people: the one way in which the whole product writes them.

A measurement (a float) has three significant digits, and all digits before its decimal point up to
9,999. A count (an int) is exact. Thousands are separated by commas, a unit follows a space, and
there is no notation with an exponent. What is not known (NaN) is "not known"; what has no limit is
"∞".
"""

import math
from collections.abc import Callable
from typing import Final

DIGITS: Final = 3
"""Significant digits of a measurement."""
NOT_KNOWN: Final = "not known"
_SIBILANTS: Final = ("s", "x", "ch", "sh")


def number(value: float) -> str:
    """Return a number without a unit: 0.0312, 12.3, 3,841, 58,100; an int is exact."""
    if isinstance(value, int):
        return f"{value:,}"
    value = float(value)  # such as a number of numpy
    if math.isnan(value):
        return NOT_KNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return _written(_rounded(value))


def count(things: int, one: str, several: str = "") -> str:
    """Return a count with its noun: "1 call", "2,345 calls", "3 replies", "2 processes".

    `several` is the plural where it does not follow the rules of English.
    """
    if things == 1:
        return f"1 {one}"
    return f"{things:,} {several or _plural(one)}"


def seconds(duration_s: float) -> str:
    """Return a duration, given in seconds, in the unit that suits it: 58.1 µs, 38.4 ms, 3.84 s."""
    if not math.isfinite(duration_s):
        return number(duration_s)
    rounded = _rounded(float(duration_s))
    for unit, factor in ((" s", 1.0), (" ms", 1e3), (" µs", 1e6)):
        if not rounded or abs(rounded) * factor >= 1 - 1e-9:
            return _written(_rounded(rounded * factor)) + unit
    return _written(_rounded(1e9 * rounded)) + " ns"


def rate(per_s: float, what: str = "") -> str:
    """Return a rate per second: "8,039/s", or "8,039 calls/s" with "calls" as `what`."""
    written = number(float(per_s))
    if written == NOT_KNOWN:
        return written
    return f"{written} {what}/s" if what else f"{written}/s"


def percent(share: float) -> str:
    """Return a share (0 to 1) in percent: 8 %, 42 %; 0.3 % and 99.7 % where 0 and 100 are wrong."""
    value = 100 * float(share)
    if not math.isfinite(value):
        return number(value)
    distance = abs(value)
    decimals = 0
    if 0 < distance < 10:
        decimals = max(0, 1 - math.floor(math.log10(distance)))
    elif 99 < distance < 100:
        decimals = -math.floor(math.log10(100 - distance))
    return f"{_written(value, decimals)} %"


def size(n_bytes: float) -> str:
    """Return a size, given in bytes: 512 B, 31.2 kB, 384 MB. 1 kB is 1,000 B."""
    if not math.isfinite(n_bytes):
        return number(n_bytes)
    value = float(n_bytes)
    for unit in ("B", "kB", "MB"):
        if abs(_rounded(value)) < 1000:
            return f"{_written(_rounded(value))} {unit}"
        value /= 1000
    return f"{_written(_rounded(value))} GB"


def with_interval(
    value: float, low: float, high: float, write: Callable[[float], str] = number
) -> str:
    """Return a value and its interval, each as `write` says: 12.3 ms (12.1 ms to 12.6 ms)."""
    return f"{write(value)} ({write(low)} to {write(high)})"


def _plural(noun: str) -> str:
    if noun.endswith(_SIBILANTS):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def _rounded(value: float) -> float:
    """Round to `DIGITS` significant digits, to whole numbers from 100, to four digits from 10^4."""
    if not value:
        return 0.0
    before = math.floor(math.log10(abs(value))) + 1
    if DIGITS < before <= DIGITS + 1:
        return float(round(value))
    return float(f"{value:.{DIGITS if before <= DIGITS else DIGITS + 1}g}")


def _written(value: float, decimals: int | None = None) -> str:
    """Write a rounded number without an exponent and without zeros at its end."""
    if decimals is None:
        before = math.floor(math.log10(abs(value))) + 1 if value else 1
        decimals = max(0, DIGITS - before)
    text = f"{value:,.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text
