"""Latency and availability of an operation that needs the replies of w of n servers (a quorum).

The latency is that of the w-th fastest reply. F_i(t) is the probability that server i has replied
by time t. For equal servers, w or more of n have replied by t with the probability

    sum over j = w .. n of C(n, j) F^j (1 - F)^(n - j)

(the distribution of an order statistic: H. A. David, "Order Statistics", section 2.1). Servers
are assumed to be slow independently of one another.

Without a leader, any w replies are enough. In a protocol with a leader, such as Raft, every write
passes the leader, so its reply is one of the w. A leader that stalls then delays every write: if
each of 3 servers is late with p = 1/4 and w = 2, a write is late with p + (1 - p) p^2 = 0.30, which
is worse than the 0.25 of a single server. A failover to another leader is not part of this model.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def answered_by(
    at_s: npt.ArrayLike,
    samples_s: Sequence[npt.ArrayLike],
    needed: int,
    *,
    leader: int | None = None,
) -> Floats:
    """Return the probability that `needed` servers have replied, for each time in `at_s` (seconds).

    `samples_s` has one row of measured reply times in seconds for each server; the rows may have
    different lengths. `leader` is the number of the server whose reply must be among them; None
    means that any replies are enough. Raises `ValueError` unless 1 <= needed <= servers, for a
    server without times, and for a leader that is not one of the servers.
    """
    if not 1 <= needed <= len(samples_s):
        raise ValueError(f"needed must be from 1 to {len(samples_s)} servers, got {needed}")
    if leader is not None and not 0 <= leader < len(samples_s):
        raise ValueError(f"leader must be from 0 to {len(samples_s) - 1} or None, got {leader}")
    at = np.atleast_1d(np.asarray(at_s, dtype=float))
    # have[j] is the probability that exactly j of the servers so far have replied.
    have = np.zeros((len(samples_s) + 1, at.size))
    have[0] = 1.0
    for number, sample_s in enumerate(samples_s):
        times_s = np.sort(np.asarray(sample_s, dtype=float))
        if not times_s.size:
            raise ValueError(f"server {number} has no measured time: every server needs one")
        by = np.searchsorted(times_s, at, side="right") / times_s.size
        have[1:] = have[1:] * (0 if number == leader else 1 - by) + have[:-1] * by
        have[0] *= 0 if number == leader else 1 - by  # without the leader nothing is complete
    return np.asarray(have[needed:].sum(axis=0))


def quantile_s(
    share: float,
    samples_s: Sequence[npt.ArrayLike],
    needed: int,
    *,
    leader: int | None = None,
) -> float:
    """Return the latency in seconds that the share `share` of all operations does not exceed.

    Raises the errors of `answered_by`, and `ValueError` unless 0 < share < 1.
    """
    if not 0 < share < 1:
        raise ValueError(f"share must be between 0 and 1, got {share}")
    at = np.unique(np.concatenate([np.asarray(one, dtype=float).ravel() for one in samples_s]))
    by = answered_by(at, samples_s, needed, leader=leader)
    return float(at[np.searchsorted(by, share - 1e-12)])


def available(up: float, servers: int, needed: int) -> float:
    """Return the probability that `needed` of `servers` are up, if each is up with `up`.

    The servers fail independently of one another, and any of them is enough (no leader). Raises
    `ValueError` unless 0 <= up <= 1 and 1 <= needed <= servers.
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
