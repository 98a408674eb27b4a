"""What several generator and server processes bring: the interpreters first, then the cores.

Python runs one thread at a time in a process, so p generators make at most p / d_client
operations a second and s servers answer at most s / d_server, with d the processor time of one
operation on that side. Both sides draw on the same cores when they share a machine, and then
cores / (d_client + d_server) is the end of it, however many processes there are. Each is the
utilisation law, U = X D, with U at its most (see `laws`).

Of the processor time of an operation a part is spent by gRPC's own threads, which are not Python
and work beside the interpreter. The cores pay for all of it, but the interpreter only for its
own part: where that is known (on an event loop it is what the loop's thread takes), the first
two bounds are p / d'_client and s / d'_server with the serial part d'.
"""

import math

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
    """Operations per second of `generators` client and `servers` server processes.

    X <= min(p / d_client, 1 / (q d_server), cores / (d_client + d_server)).

    `client_s` and `server_s` are the processor seconds of one operation on each side, and the
    serial ones those of them that only one thread of a process can do: all, where none is given.
    `busiest_share` is q, the share of the operations that the busiest server gets, 1 / servers
    when they are spread evenly. `cores` are those that both sides have between them: give
    infinity where each process has a machine of its own. Raises `ValueError` when a count is
    below 1, a time is not positive, or the share cannot be the busiest one's.
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
            f"busiest_share must be from 1/{servers} to 1, got {share}: of {servers} servers the"
            " busiest gets at least its even share"
        )
    uneven = share * servers > 1 + 1e-9
    bounds = {
        GENERATORS: (
            generators / client_one_s,
            f"{_many(generators, 'generator')}, {_us(client_one_s)} an operation: p / d_client",
        ),
        BUSIEST if uneven else SERVERS: (
            1 / (share * server_one_s),
            f"the busiest of {servers} servers gets {share:.3g} of the operations,"
            f" {_us(server_one_s)} each: 1 / (q d_server)"
            if uneven
            else f"{_many(servers, 'server')}, {_us(server_one_s)} an operation: s / d_server",
        ),
        CORES: (
            cores / (client_s + server_s),
            f"{_many(cores, 'core')} for {_us(client_s)} + {_us(server_s)} an operation:"
            " cores / (d_client + d_server)",
        ),
    }
    binds = min(bounds, key=lambda name: bounds[name][0])
    value, reason = bounds[binds]
    return Prediction(value, "operations/s", reason, binds)


def enough(*, cores: float, client_s: float, server_s: float) -> tuple[int, int]:
    """How many generators and servers it takes until the cores bind, and no more.

    p = ceil(cores * d_client / (d_client + d_server)), and s likewise. Raises `ValueError`
    as `throughput` does, and for infinitely many cores, which never bind.
    """
    bound = throughput(
        generators=1, servers=1, cores=cores, client_s=client_s, server_s=server_s
    )  # checks the times
    if not math.isfinite(cores):
        raise ValueError(f"{cores} cores never bind: every process more brings more ({bound})")
    per_s = cores / (client_s + server_s)
    # Rounding must not ask for one process more where the division comes out even.
    return math.ceil(per_s * client_s - 1e-9), math.ceil(per_s * server_s - 1e-9)


def _many(count: float, what: str) -> str:
    return f"{count:g} {what}" if count == 1 else f"{count:g} {what}s"


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:,.4g} us"
