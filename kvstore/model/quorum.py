"""What an answer costs that needs w of n servers: the w-th fastest of them, not the mean.

With F_i(t) the share of times in which server i has answered by t, the answer is there by t
with the chance that w or more of the n have: for servers alike the sum over j = w .. n of
C(n, j) F^j (1 - F)^(n - j), the order statistic (H. A. David, "Order Statistics", section
2.1). The servers are taken to be fast and slow independently of one another.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def answered_by(at_s: npt.ArrayLike, samples_s: Sequence[npt.ArrayLike], needed: int) -> Floats:
    """The chance that `needed` servers have answered by each of these times, in seconds.

    `samples_s` has one row of measured times for each server: its own, however many.
    Raises `ValueError` unless 1 <= needed <= servers, and for a server without times.
    """
    if not 1 <= needed <= len(samples_s):
        raise ValueError(f"needed must be from 1 to {len(samples_s)} servers, got {needed}")
    at = np.atleast_1d(np.asarray(at_s, dtype=float))
    # have[j] is the chance that exactly j of the servers so far have answered.
    have = np.zeros((len(samples_s) + 1, at.size))
    have[0] = 1.0
    for sample_s in samples_s:
        times_s = np.sort(np.asarray(sample_s, dtype=float))
        if not times_s.size:
            raise ValueError("every server needs at least one measured time")
        by = np.searchsorted(times_s, at, side="right") / times_s.size
        have[1:] = have[1:] * (1 - by) + have[:-1] * by
        have[0] *= 1 - by
    return np.asarray(have[needed:].sum(axis=0))


def quantile_s(share: float, samples_s: Sequence[npt.ArrayLike], needed: int) -> float:
    """Seconds within which this share of the answers is there.

    Raises `ValueError` as `answered_by` does, and unless 0 < share < 1.
    """
    if not 0 < share < 1:
        raise ValueError(f"share must be between 0 and 1, got {share}")
    at = _times(samples_s)
    by = answered_by(at, samples_s, needed)
    return float(at[np.searchsorted(by, share - 1e-12)])


def mean_s(samples_s: Sequence[npt.ArrayLike], needed: int) -> float:
    """Mean seconds until `needed` have answered. Raises `ValueError` as `answered_by` does."""
    at = _times(samples_s)
    return float(at @ np.diff(answered_by(at, samples_s, needed), prepend=0.0))


def available(up: float, servers: int, needed: int) -> float:
    """The chance that `needed` of `servers` are up, each being up with the chance `up`.

    Raises `ValueError` unless 0 <= up <= 1 and 1 <= needed <= servers.
    """
    if not 0 <= up <= 1:
        raise ValueError(f"up must be from 0 to 1, got {up}")
    have = np.zeros(servers + 1)
    have[0] = 1.0
    if not 1 <= needed <= servers:
        raise ValueError(f"needed must be from 1 to {servers} servers, got {needed}")
    for _ in range(servers):
        have[1:] = have[1:] * (1 - up) + have[:-1] * up
        have[0] *= 1 - up
    return float(have[needed:].sum())


def _times(samples_s: Sequence[npt.ArrayLike]) -> Floats:
    return np.unique(np.concatenate([np.asarray(one, dtype=float).ravel() for one in samples_s]))
