"""Throughput with several load generator and server processes, limited by interpreters or cores.

    X <= min(p / D'_client, 1 / (q D'_server), cores / (D_client + D_server))

p is the number of load generators and q the share of the busiest server: 1 / s for s servers with
equal shares, `key_skew.busiest_share` with a hot key. D is the CPU time of one operation in a
process. Each bound is the utilisation law, U = X D, at full utilisation.

CPython runs one thread at a time in a process, so one process has one core for its interpreter.
Its demand on the interpreter is the serial part D' of the CPU time, not the whole: gRPC's own
threads are not Python and run beside it. On an event loop, D' is the CPU time of the loop's
thread. Without it D is used, which makes the bound too low. Client and server processes on the same
machine share its cores, which have to supply all of D.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from kvstore.model.prediction import Prediction

GENERATORS, SERVERS, BUSIEST, CORES = "generators", "servers", "busiest server", "cores"


def throughput(
    *,
    generators: int,
    servers: int,
    cores: float,
    client_s: float,
    server_s: float,
    busiest_share: float | None = None,
    client_serial_s: float | None = None,
    server_serial_s: float | None = None,
) -> Prediction:
    """Return the bound on X in operations per second, see the formula of the module.

    `client_s` and `server_s` are D, the CPU seconds of one operation in the client and the server.
    `client_serial_s` and `server_serial_s` are D', their serial parts; the default is D.
    `busiest_share` is q; the default is 1 / servers. `cores` is the number of cores that all
    processes share; infinity means that each process has its own machine. Raises `ValueError` for
    a count below 1, a time that is not above 0 and finite, or a share below 1 / servers or above 1.
    """
    counts = {"generators": generators, "servers": servers, "cores": cores}
    client_one_s = client_s if client_serial_s is None else client_serial_s
    server_one_s = server_s if server_serial_s is None else server_serial_s
    times = {
        "client_s": client_s, "server_s": server_s,
        "client_serial_s": client_one_s, "server_serial_s": server_one_s,
    }  # fmt: skip
    for name, value in counts.items():
        if not value >= 1:
            raise ValueError(f"{name} must be 1 or more, got {value}")
    for name, value in times.items():
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be above 0 seconds, got {value}")
    share = 1 / servers if busiest_share is None else busiest_share
    if not 1 / servers <= share <= 1:
        raise ValueError(
            f"busiest_share must be from 1/{servers} to 1, got {share}: the busiest of {servers}"
            " servers gets at least an equal share"
        )
    uneven = share * servers > 1 + 1e-9
    bounds = {
        GENERATORS: (
            generators / client_one_s,
            f"{_many(generators, 'generator')}, {_us(client_one_s)} an operation: p / D'_client",
        ),
        BUSIEST if uneven else SERVERS: (
            1 / (share * server_one_s),
            f"the busiest of {servers} servers gets {share:.3g} of the operations,"
            f" {_us(server_one_s)} each: 1 / (q D'_server)"
            if uneven
            else f"{_many(servers, 'server')}, {_us(server_one_s)} an operation: s / D'_server",
        ),
        CORES: (
            cores / (client_s + server_s),
            f"{_many(cores, 'core')} for {_us(client_s)} + {_us(server_s)} an operation:"
            " cores / (D_client + D_server)",
        ),
    }
    binds = min(bounds, key=lambda name: bounds[name][0])
    value, reason = bounds[binds]
    return Prediction(value, "operations/s", reason, binds)


def enough(
    *,
    cores: float,
    client_s: float,
    server_s: float,
    client_serial_s: float | None = None,
    server_serial_s: float | None = None,
) -> tuple[int, int]:
    """Return the smallest numbers of generators and servers that make the cores the bottleneck.

    p = ceil(cores * D'_client / (D_client + D_server)), and s in the same manner. Raises the
    errors of `throughput`, and `ValueError` for infinitely many cores.
    """
    bound = throughput(
        generators=1, servers=1, cores=cores, client_s=client_s, server_s=server_s,
        client_serial_s=client_serial_s, server_serial_s=server_serial_s,
    )  # fmt: skip  # checks the times
    if not math.isfinite(cores):
        raise ValueError(
            f"cores must be finite, got {cores}: every additional process adds throughput ({bound})"
        )
    per_s = cores / (client_s + server_s)
    # Rounding errors must not add a process if the division has no remainder.
    client_one_s = client_s if client_serial_s is None else client_serial_s
    server_one_s = server_s if server_serial_s is None else server_serial_s
    return math.ceil(per_s * client_one_s - 1e-9), math.ceil(per_s * server_one_s - 1e-9)


class Sized(NamedTuple):
    """A machine, the processes that fill its cores, and the throughput that they reach."""

    cores: int
    generators: int
    servers: int
    predicted: Prediction


MACHINES = (1, 2, 4, 8, 16, 32, 64)
"""Numbers of cores of the table."""


def by_cores(
    machines: Sequence[int] = MACHINES,
    *,
    client_s: float,
    server_s: float,
    client_serial_s: float | None = None,
    server_serial_s: float | None = None,
) -> list[Sized]:
    """Return for each number of cores the fewest processes that fill them, and X with these.

    Arguments and errors are those of `throughput`. Keys are spread evenly over the servers.
    """
    costs = {
        "client_s": client_s, "server_s": server_s,
        "client_serial_s": client_serial_s, "server_serial_s": server_serial_s,
    }  # fmt: skip
    found = []
    for cores in machines:
        p, s = enough(cores=cores, **costs)  # type: ignore[arg-type]
        predicted = throughput(generators=p, servers=s, cores=cores, **costs)  # type: ignore[arg-type]
        found.append(Sized(cores, p, s, predicted))
    return found


def _many(count: float, what: str) -> str:
    return f"{count:g} {what}" if count == 1 else f"{count:g} {what}s"


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:,.4g} us"
