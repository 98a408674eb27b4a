"""How unevenly keys are asked for, and the lock that this makes the slowest.

Zipf: of n keys the k-th most popular is asked for in proportion to 1 / k ** exponent; an
exponent of 0 makes all alike. G. K. Zipf, "Human Behavior and the Principle of Least
Effort" (1949); the exponent 0.99 is that of the YCSB benchmark (B. F. Cooper et al., 2010).
"""

import math

import numpy as np
import numpy.typing as npt

from kvstore.model.prediction import Station


def shares(keys: int, exponent: float = 0.0) -> npt.NDArray[np.float64]:
    """The share of the calls that each of `keys` keys gets, the hottest first; they sum to 1.

    Raises `ValueError` for less than one key, or an exponent that is not 0 or more.
    """
    if not keys >= 1:
        raise ValueError(f"keys must be 1 or more, got {keys}")
    if not 0 <= exponent < math.inf:
        raise ValueError(f"exponent must be 0 or more and finite, got {exponent}")
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -exponent
    return weights / float(weights.sum())


def hottest_share(keys: int, exponent: float = 0.0) -> float:
    """p_max: the share of the calls that ask for the hottest of `keys` keys.

    1 / (1 + 2**-s + ... + n**-s); for keys all alike 1 / n. Raises as `shares` does.
    """
    return float(shares(keys, exponent)[0])


def hottest_lock(
    keys: int, exponent: float = 0.0, *, hold_s: float, locking_share: float = 1.0
) -> Station:
    """The lock of the hottest key as a station: at most 1 / (p_max * locking_share * hold_s).

    `hold_s` is how long a call that takes the lock keeps it, and `locking_share` is the share
    of the calls that take one (the writes, where readers take none).
    """
    demand_s = hottest_share(keys, exponent) * locking_share * hold_s
    return Station("lock of the hottest key", demand_s)
