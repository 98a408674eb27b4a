"""The mix of a client that may only ask for keys it knows, and knows none at first."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

A_QUARTER_EACH: Final[Mapping[str, float]] = MappingProxyType(
    {"create": 1.0, "retrieve": 1.0, "update": 1.0, "delete": 1.0}
)


def expected_mix(calls: float, weights: Mapping[str, float] = A_QUARTER_EACH) -> dict[str, float]:
    """The share of each operation to expect among the first `calls` calls, made one by one.

    While no key is known the only call that can be made is a create, whatever was drawn.
    The number of known keys is a random walk that is reflected at 0; its distribution is
    carried along exactly, call by call. Raises `ValueError` for less than one call.
    """
    count = round(calls)
    if count < 1:
        raise ValueError(f"calls must be 1 or more, got {calls}")
    total = sum(weights.values())
    shares = {kind: weight / total for kind, weight in weights.items()}
    up, down = shares.get("create", 0.0), shares.get("delete", 0.0)
    chance = np.zeros(count + 2)  # of knowing so many keys
    chance[0] = 1.0
    forced = 0.0
    for _ in range(count):
        none = chance[0]
        forced += none
        chance[0] = 0.0
        after = (1.0 - up - down) * chance
        after[1:] += up * chance[:-1]
        after[:-1] += down * chance[1:]
        after[1] += none
        chance = after
    forced_share = float(forced / count)
    mix = {kind: (1.0 - forced_share) * share for kind, share in shares.items()}
    mix["create"] = mix.get("create", 0.0) + forced_share
    return mix
