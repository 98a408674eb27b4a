"""The mode of the course, which sets the durations and counts of its runs.

The environment variable COURSE_MODE is `fast` (tests), `short` (built pages), `class` (the default)
or `full` (the published durations). The notebooks are the same in every mode.
"""

import os
from typing import Final, TypeVar

VARIABLE: Final = "COURSE_MODE"
MODES: Final = ("fast", "short", "class", "full")
"""From the shortest runs to the longest."""

T = TypeVar("T")


def name() -> str:
    """Return the current mode; raise ValueError if COURSE_MODE is an unknown word."""
    word = os.environ.get(VARIABLE, "").strip().lower() or "class"
    if word not in MODES:
        raise ValueError(
            f"{VARIABLE} must be one of {', '.join(MODES)}, got {word!r}: "
            f"set it to one of these, or unset it for `class`, and restart the kernel"
        )
    return word


def fast() -> bool:
    """Return whether runs are as short as possible, as in tests."""
    return name() == "fast"


def or_longer() -> tuple[str, ...]:
    """Return the modes whose runs last as long as those of the current one, or longer."""
    return MODES[MODES.index(name()) :]


def choose(*, fast: T, normal: T, full: T) -> T:
    """Return the value for the current mode."""
    return {"fast": fast, "full": full}.get(name(), normal)


SCALES: Final = {"fast": 0.05, "short": 0.2, "full": 3.0}
"""How much shorter or longer runs are than in `class`."""
SHORTEST_S: Final = 0.4


def scaled(seconds: float) -> float:
    """Return the duration of a run in the current mode, in seconds: that of `class` times a factor.

    Raises ValueError unless it is above 0.
    """
    if not seconds > 0:
        raise ValueError(f"seconds must be more than 0, got {seconds!r}")
    scaled_s = seconds * SCALES.get(name(), 1.0)
    return max(scaled_s, min(SHORTEST_S, seconds))
