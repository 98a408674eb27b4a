"""Clients that take turns against one server: rounds are short, and their order changes."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np

MIDDLE_HALF: Final = (0.25, 0.75)


class Turn(NamedTuple):
    """The figures of one turn of one client."""

    per_s: float
    """Operations per second."""
    cpu_s: float
    """CPU seconds of the client for each operation; NaN if they are not measured."""
    operations: int = 0


Rounds = dict[str, list[Turn]]
"""The turns of each client, round by round."""


def in_turns(turns: Mapping[str, Callable[[], Turn]], rounds: int) -> Rounds:
    """Let each client take a turn in every round, in changing order; the first round warms up."""
    names = list(turns)
    taken: Rounds = {name: [] for name in names}
    for number in range(rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            turn = turns[name]()
            if number:
                taken[name].append(turn)
    return taken


def ratios(rounds: Rounds, client: str, reference: str, figure: str) -> list[float]:
    """Return a figure of a client over that of the reference, in each round."""
    pairs = zip(rounds[client], rounds[reference], strict=True)
    return [getattr(one, figure) / getattr(other, figure) for one, other in pairs]


def median(values: list[float]) -> float:
    """Return the median with three decimals."""
    return round(float(np.median(values)), 3)


def middle_half(values: list[float]) -> str:
    """Return the lower and the upper quartile as text."""
    low, high = np.quantile(values, MIDDLE_HALF)
    return f"{low:.2f} to {high:.2f}"
