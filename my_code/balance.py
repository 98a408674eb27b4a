"""My balancing: which server gets the next call, or has a key, and a simulator of such choices."""

import bisect
import hashlib
import json
import math
import random

import grpc


# The course's version: yours takes its place when it has passed its check.
def spread(addresses):
    """Return one channel that sends its calls to all addresses, in rotation."""
    config = {"loadBalancingConfig": [{"round_robin": {}}]}
    options = [("grpc.service_config", json.dumps(config))]
    return grpc.insecure_channel("ipv4:" + ",".join(addresses), options=options)


def position(text):
    """Return a place on the circle, from 0 to 2**64."""
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big")


rings = {}
"""The points of each tuple of servers on the circle, in order."""


# The course's version: yours takes its place when it has passed its check.
def owner(key, servers):
    """Return the server of the first point after the key's position."""
    if servers not in rings:
        names = [(name, n) for name in servers for n in range(100)]
        rings[servers] = sorted((position(f"{name}/{n}".encode()), name) for name, n in names)
    points = rings[servers]
    after = bisect.bisect(points, (position(key), ""))
    return points[after % len(points)][1]


# The course's version: yours takes its place when it has passed its check.
def least_outstanding(open_calls):
    """Return a server with the fewest open calls; one of several at random."""
    fewest = min(open_calls)
    return random.choice([k for k, calls in enumerate(open_calls) if calls == fewest])


# The course's version: yours takes its place when it has passed its check.
def simulate(arrivals_s, service_s, servers, choose, every_s):
    """Return the response time of each call; `choose` gets the open calls of the last report.

    Each server takes `service_s` for a call. A report comes every `every_s` seconds.
    """
    free_s, report, reported_s, times_s = [0.0] * servers, [0] * servers, -math.inf, []
    for at_s in arrivals_s:
        if at_s - reported_s >= every_s:
            report = [math.ceil(max(0, each_s - at_s) / service_s) for each_s in free_s]
            reported_s = at_s
        server = choose(report)
        free_s[server] = max(free_s[server], at_s) + service_s
        times_s.append(free_s[server] - at_s)
    return times_s
