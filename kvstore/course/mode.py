"""How long the runs of the course last: the notebooks are the same bytes in every mode.

The environment variable COURSE_MODE says which: `fast` (tests), `class` (the default)
or `full` (the published durations). Only durations and counts depend on it.
"""

import os
from typing import Final, TypeVar

VARIABLE: Final = "COURSE_MODE"
MODES: Final = ("fast", "class", "full")

T = TypeVar("T")


def name() -> str:
    """The mode in force; a ValueError when COURSE_MODE holds another word."""
    word = os.environ.get(VARIABLE, "").strip().lower() or "class"
    if word not in MODES:
        raise ValueError(
            f"{VARIABLE} must be one of {', '.join(MODES)}, got {word!r}: "
            f"set it to one of these, or unset it for `class`, and restart the kernel"
        )
    return word


def fast() -> bool:
    """Whether the runs are kept as short as they can be, as in the tests."""
    return name() == "fast"


def choose(*, fast: T, normal: T, full: T) -> T:
    """The one of the three values that belongs to the mode in force."""
    return {"fast": fast, "class": normal, "full": full}[name()]


def seconds(*, fast: float, normal: float, full: float) -> float:
    """How long a run lasts in the mode in force, in seconds; more than 0 in each."""
    for argument, value in (("fast", fast), ("normal", normal), ("full", full)):
        if not value > 0:
            raise ValueError(f"{argument} must be more than 0 seconds, got {value}")
    return choose(fast=fast, normal=normal, full=full)
