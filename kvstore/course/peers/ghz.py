"""ghz: a gRPC client in Go, which knows the methods by reflection."""

import base64
import json

import numpy as np
import pandas as pd

from kvstore.client.channel import target_of
from kvstore.course.peers import programs
from kvstore.course.peers.beside import KEY, METHOD, PeerRun, checked, counted
from kvstore.course.tables.spread import SPREAD, spread


def ghz(
    server: object, *, connections: int = 1, streams: int = 1, requests: int, timeout_s: float = 30
) -> PeerRun:
    """Have ghz make `requests` retrieves, `streams` at a time on each of the connections.

    Raises what `h2load` raises.
    """
    checked(connections, streams, requests)
    data = json.dumps({"key": base64.b64encode(KEY).decode("ascii")})
    arguments = [
        "--insecure", f"--call={METHOD}", f"--total={requests}", f"--connections={connections}",
        f"--concurrency={connections * streams}", "--data", data, "--format=json",
        target_of(server).address,
    ]  # fmt: skip
    with counted(server) as answered_ok:
        report = json.loads(programs.run("ghz", arguments, timeout_s))
        ok = answered_ok()
    took_ms = np.array([call["latency"] for call in report["details"]]) / 1e6
    return PeerRun(
        program="ghz",
        connections=connections,
        streams=streams,
        requests=requests,
        window_s=report["total"] / 1e9,
        succeeded=report["statusCodeDistribution"].get("OK", 0),
        answered_ok=ok,
        table=pd.DataFrame([spread(took_ms)], index=["request (ms)"], columns=list(SPREAD)),
    )
