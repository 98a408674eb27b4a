"""Several processes and several servers: their cores, keys used unevenly.

    X <= min(p / D'_client, s / D'_server, cores / (D_client + D_server))

p is the number of load generators and s the number of servers, with keys spread evenly over them.
D is the CPU time of one operation in a process. Each bound is the utilisation law, U = X D, at
full utilisation.

CPython runs one thread at a time in a process, so one process has one core for its interpreter.
Its demand on the interpreter is the serial part D' of the CPU time, not the whole: gRPC's own
threads are not Python and run beside it. On an event loop, D' is the CPU time of the loop's
thread. Without it D is used, which makes the bound too low. Client and server processes on the same
machine share its cores, which have to supply all of D.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvstore.model.bounds import Prediction, Station
from kvstore.numbers import count, seconds

GENERATORS, SERVERS, CORES = "generators", "servers", "cores"


def throughput(
    *,
    generators: int,
    servers: int,
    cores: float,
    client_s: float,
    server_s: float,
    client_serial_s: float,
    server_serial_s: float,
) -> Prediction:
    """Return the bound on X in operations per second, see the formula of the module.

    `client_s` and `server_s` are D, the CPU seconds of one operation in the client and the server.
    `client_serial_s` and `server_serial_s` are D', their serial parts. `cores` is the number of
    cores that all processes share. Raises `ValueError` for a value that is not above 0 and finite.
    """
    for name, value in locals().copy().items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be above 0 and finite, got {value}")
    bounds = {
        GENERATORS: (
            generators / client_serial_s,
            f"{count(generators, 'generator')}, {seconds(client_serial_s)} an operation:"
            " p / D'_client",
        ),
        SERVERS: (
            servers / server_serial_s,
            f"{count(servers, 'server')}, {seconds(server_serial_s)} an operation: s / D'_server",
        ),
        CORES: (
            cores / (client_s + server_s),
            f"{cores:g} core{'s' * (cores != 1)} for {seconds(client_s)} + {seconds(server_s)} an"
            " operation: cores / (D_client + D_server)",
        ),
    }
    binds = min(bounds, key=lambda name: bounds[name][0])
    value, reason = bounds[binds]
    return Prediction(value, "operations/s", reason, binds)


# ---- key skew -----------------------------------------------------------------------------------
# Unevenly used keys, and the share of the busiest of several servers.
#
# With s servers of one lock each, throughput is at most 1 / (q_max S): q_max is the share of the
# calls at the busiest server, and S the service time. Evenly spread calls give q_max = 1 / s, and
# throughput grows with s. A hot key limits this growth.


def shares(keys: int, exponent: float = 0.0) -> npt.NDArray[np.float64]:
    """Return the share of the calls for each of `keys` keys, the hottest key first.

    Zipf's law: the share of key k is in proportion to k ** -exponent; the shares sum to 1. With
    exponent 0 all shares are equal. Raises `ValueError` for fewer than one key, or an exponent
    that is negative or infinite.
    """
    if not keys >= 1:
        raise ValueError(f"keys must be 1 or more, got {keys}")
    if not 0 <= exponent < math.inf:
        raise ValueError(f"exponent must be 0 or more and finite, got {exponent}")
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -exponent
    return weights / float(weights.sum())


Shares = Sequence[float]
"""The share of the calls for each server; the shares sum to 1."""


def uneven(servers: int, busiest_share: float) -> list[float]:
    """Return shares with `busiest_share` for the first server and equal shares for all others."""
    return [busiest_share, *[(1 - busiest_share) / max(1, servers - 1)] * (servers - 1)]


def busiest_share(servers: int, hottest_share: float) -> float:
    """Return the share of the server with the hottest key: q + (1 - q) / s.

    A hash assigns keys to s = `servers` servers. The server of the hottest key gets its share q =
    `hottest_share`, and on average 1 / s of all other calls. So s servers give at most
    1 / (q + (1 - q) / s) times the throughput of one server, and never more than 1 / q times.
    Raises `ValueError` for fewer than one server, or a share that is not from 0 to 1.
    """
    if not servers >= 1:
        raise ValueError(f"servers must be 1 or more, got {servers}")
    if not 0 <= hottest_share <= 1:
        raise ValueError(f"hottest_share must be from 0 to 1, got {hottest_share}")
    return hottest_share + (1 - hottest_share) / servers


def stations(shares_of_servers: Shares, service_s: float) -> list[Station]:
    """Return the servers as stations for the laws of `bounds`: D_i = q_i S, in seconds."""
    return [
        Station(f"server {number}", share * service_s)
        for number, share in enumerate(shares_of_servers)
    ]


@dataclass(frozen=True)
class Played:
    """A simulated closed loop with several servers, in rounds that last one service time."""

    answered: npt.NDArray[np.int64]
    """Calls answered in each round, including the warm-up."""
    service_s: float
    """Seconds of a round."""
    warm_up: int
    """The number of rounds at the start that do not count."""

    @property
    def throughput_per_s(self) -> float:
        """X: calls answered per second after the warm-up."""
        return float(self.answered[self.warm_up :].mean() / self.service_s)

    def rates(self, slices: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the middle of each time slice in seconds, and the calls per second in it."""
        parts = np.array_split(self.answered, min(slices, len(self.answered)))
        ends_s = np.cumsum([len(part) for part in parts]) * self.service_s
        middles_s = ends_s - np.array([len(part) for part in parts]) * self.service_s / 2
        return middles_s, np.array([part.mean() for part in parts]) / self.service_s


def closed_loop(
    in_flight: int,
    shares_of_servers: Shares,
    service_s: float,
    *,
    rounds: int = 2_000,
    warm_up: int = 200,
) -> Played:
    """Simulate `in_flight` callers, each of which waits for a reply before the next call.

    The server of each call is drawn from the shares. All calls take `service_s` seconds there and
    all callers begin at once, so every call begins and ends at a multiple of `service_s`: the
    simulation takes one step for each such round. After `warm_up` rounds, `rounds` rounds count.
    The same arguments give the same result. Raises `ValueError` for fewer than one caller or round,
    shares that do not sum to 1, or a service time that is not above 0.
    """
    if in_flight != int(in_flight) or not in_flight >= 1:
        raise ValueError(f"in_flight must be a whole number of 1 or more, got {in_flight}")
    if not (rounds >= 1 and warm_up >= 0):
        raise ValueError(f"rounds must be 1 or more and warm_up 0 or more, got {rounds}, {warm_up}")
    if not 0 < service_s < math.inf:
        raise ValueError(f"service_s must be above 0 seconds, got {service_s}")
    if not math.isclose(sum(shares_of_servers), 1) or not all(q >= 0 for q in shares_of_servers):
        raise ValueError(f"shares must be 0 or more and sum to 1, got {sum(shares_of_servers)}")
    rng = np.random.default_rng(1)
    up_to = np.cumsum(shares_of_servers)
    queues = np.zeros(len(up_to), dtype=np.int64)
    answered = np.empty(warm_up + rounds, dtype=np.int64)
    callers = int(in_flight)  # who send a call now
    for each in range(len(answered)):
        chosen = np.searchsorted(up_to, rng.random(callers) * up_to[-1], side="right")
        queues += np.bincount(chosen, minlength=len(queues))
        answering = queues > 0  # each server answers one call in a round
        queues -= answering
        answered[each] = callers = int(np.count_nonzero(answering))
    return Played(answered, service_s, warm_up)
