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

from kvstore.model.bounds import Prediction
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


# Unevenly used keys, and the share of the busiest of several servers.
#
# With s servers of one lock each, throughput is at most 1 / (q_max S): q_max is the share of the
# calls at the busiest server, and S the service time. Evenly spread calls give q_max = 1 / s, and
# throughput grows with s. A hot key limits this growth.


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
