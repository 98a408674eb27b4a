"""Little's law, the mean service time of a mix of operations, and the mix that a workload gives.

Little's law, L = X * R, holds for any distribution of arrivals and service times (J. D. C.
Little, Operations Research 9, 1961). A workload may only use keys that it has created, so its
first calls contain more creates than its weights say; `expected_mix` computes how many more.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np


def in_flight(throughput_per_s: float, residence_s: float) -> float:
    """Return L = X * R, the mean number of calls in flight.

    X is the throughput in calls per second, R the mean residence time of a call in seconds.
    """
    return throughput_per_s * residence_s


def service_time_s(mix: Mapping[str, float], *, read_delay_s: float, write_delay_s: float) -> float:
    """Return S, the mean disk time of one operation in seconds: the sum of share times delay.

    `mix` gives a share or a count for each kind of operation ("create", "retrieve", "update",
    "delete"). Only the proportions matter. A retrieve takes `read_delay_s`, every other kind
    `write_delay_s`. Raises `ValueError` for a mix that is empty or names another kind.
    """
    known = {"create", "retrieve", "update", "delete"}
    if set(mix) - known:
        raise ValueError(f"the kinds in mix must be among {sorted(known)}, got {sorted(mix)}")
    total = sum(mix.values())
    if not total > 0:
        raise ValueError(f"mix must have a share above 0, got {dict(mix)}")
    reads = mix.get("retrieve", 0.0) / total
    return reads * read_delay_s + (1 - reads) * write_delay_s


A_QUARTER_EACH: Final[Mapping[str, float]] = MappingProxyType(
    {"create": 1.0, "retrieve": 1.0, "update": 1.0, "delete": 1.0}
)


def expected_mix(calls: float, weights: Mapping[str, float] = A_QUARTER_EACH) -> dict[str, float]:
    """Return the expected share of each kind of operation among the first `calls` calls.

    The calls are made one after the other. While no key exists, the client can only create one,
    whatever kind it has drawn. The number of keys is a random walk on 0, 1, 2, ... that is
    reflected at 0; its distribution is computed exactly, call by call. Raises `ValueError` for
    fewer than one call.
    """
    count = round(calls)
    if count < 1:
        raise ValueError(f"calls must be 1 or more, got {calls}")
    total = sum(weights.values())
    shares = {kind: weight / total for kind, weight in weights.items()}
    up, down = shares.get("create", 0.0), shares.get("delete", 0.0)
    chance = np.zeros(count + 2)  # chance[k]: the probability that k keys exist
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
