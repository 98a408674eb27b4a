"""One check over many cases, in a single test that names every case that fails."""

from collections.abc import Callable, Iterable
from typing import Any


def failures(check: Callable[[Any], object], cases: Iterable[Any]) -> dict[str, str]:
    """Return the first line of the error for each case on which the check fails."""
    found = {}
    for case in cases:
        try:
            check(case)
        except Exception as error:  # a test reports all of them at once
            found[getattr(case, "__name__", str(case))] = f"{type(error).__name__}: {error}"
    return found
