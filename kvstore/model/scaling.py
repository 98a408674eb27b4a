"""Several servers with keys used unevenly: the share of the busiest one.

With s servers of one lock each, throughput is at most 1 / (q_max S): q_max is the share of the
calls at the busiest server, and S the service time. Evenly spread calls give q_max = 1 / s, and
throughput grows with s. A hot key limits this growth.
"""


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
