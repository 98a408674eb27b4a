"""What a server tells of itself before and after a run."""

import json
import math
from typing import Any

from kvstore.client.channel import ServerNotReached
from kvstore.client.servers import Servers
from kvstore.collector import Collections, Moment
from kvstore.v1 import server_status_pb2 as pb


def status_after(servers: Servers, outcome: str) -> pb.GetServerStatusResponse | None:
    """What the servers count now; None when one cannot be asked any more."""
    if outcome in ("server gone", "memory ceiling"):
        return None
    try:
        return servers.status(2.0)
    except (ServerNotReached, ValueError):  # too busy to answer, or the channel was closed
        return None


def moments(status: pb.GetServerStatusResponse | None) -> list[Moment]:
    """How the server's collections rose; empty when it does not tell."""
    return [
        Moment(row.at_unix_s, Collections(row.young, row.middle, row.full, row.pause_s))
        for row in (status.collections if status else ())
    ]


def loop_cpu_s(
    before: pb.GetServerStatusResponse, after: pb.GetServerStatusResponse | None
) -> float:
    """Processor seconds of the server's event loop between the two; NaN where it has none."""
    if after is None or not after.loop_cpu_s:
        return math.nan
    return after.loop_cpu_s - before.loop_cpu_s


def told(
    before: pb.GetServerStatusResponse, after: pb.GetServerStatusResponse | None
) -> dict[str, Any]:
    """What the server says of itself, with the operations it answered during the run."""
    words: dict[str, Any] = {
        "identity": before.identity,
        "settings": json.loads(before.settings_json or "{}"),
        "versions": dict(before.versions),
        "operations": None,
    }
    if after is not None and after.settings_json:
        words["operations"] = {
            name: count - before.operations.get(name, 0)
            for name, count in after.operations.items()
            if count > before.operations.get(name, 0)
        }
    return words
