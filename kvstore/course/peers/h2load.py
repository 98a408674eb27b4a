"""h2load, of nghttp2: raw HTTP/2 requests with a gRPC message in them, and its table."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pandas as pd

from kvstore.client.channel import target_of
from kvstore.course.peers import programs
from kvstore.course.peers.beside import KEY, METHOD, PeerRun, checked, counted
from kvstore.course.tables.spread import SPREAD
from kvstore.v1 import kvstore_pb2 as pb

UNITS_MS: Final = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 60e3, "h": 3600e3}
ROWS: Final = {
    "time for request": "request (ms)",
    "time for connect": "connect (ms)",
    "time to 1st byte": "first byte (ms)",
    "req/s": "calls/s of a connection",
}
"""The rows of h2load's table, and what we call them."""


def h2load(
    server: object, *, connections: int = 1, streams: int = 1, requests: int, timeout_s: float = 30
) -> PeerRun:
    """Have h2load make `requests` retrieves, `streams` at a time on each of the connections.

    A count and not a duration, because h2load drops what is in flight when its time is up, and
    then no count of the server's could be compared with its own.

    Raises:
        ValueError: a number makes no sense.
        NotInstalled, PeerFailed: see `programs.run`.
    """
    checked(connections, streams, requests)
    message = pb.RetrieveRequest(key=KEY).SerializeToString()
    with tempfile.TemporaryDirectory(prefix="kvstore-h2load-") as folder:
        body = Path(folder) / "body"
        body.write_bytes(b"\x00" + len(message).to_bytes(4, "big") + message)
        with counted(server) as answered_ok:
            # Without "te: trailers" a Python server resets the stream.
            arguments = [
                f"--requests={requests}", f"--clients={connections}",
                f"--max-concurrent-streams={streams}", "--header=te: trailers",
                "--header=content-type: application/grpc", f"--data={body}",
                f"http://{target_of(server).address}/{METHOD}",
            ]  # fmt: skip
            said = programs.run("h2load", arguments, timeout_s)
            ok = answered_ok()
    return PeerRun(
        program="h2load",
        connections=connections,
        streams=streams,
        requests=requests,
        window_s=_found(r"finished in ([\d.]+\w+),", said, _ms) / 1e3,
        succeeded=int(_found(r"(\d+) succeeded", said, float)),
        answered_ok=ok,
        table=parsed(said),
    )


def parsed(said: str) -> pd.DataFrame:
    """The table that h2load prints, as numbers. Raises `PeerFailed` where a row is missing."""
    rows = {}
    for theirs, ours in ROWS.items():
        line = re.search(rf"^{re.escape(theirs)}\s*:(.*)$", said, re.MULTILINE)
        cells = line[1].split() if line else []
        if len(cells) != len(SPREAD):
            raise programs.PeerFailed(f"h2load printed no row {theirs!r}: {said[-programs.SAID :]}")
        *numbers, share = cells
        read = float if theirs == "req/s" else _ms
        rows[ours] = [*(read(cell) for cell in numbers), float(share.removesuffix("%"))]
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(SPREAD))


def _ms(text: str) -> float:
    """Milliseconds of "143us", "2.31ms" or "1.03s"."""
    number = re.fullmatch(r"([\d.]+)(us|ms|s|m|h)", text)
    if number is None:
        raise programs.PeerFailed(f"h2load printed {text!r} where a time was expected")
    return float(number[1]) * UNITS_MS[number[2]]


def _found(pattern: str, said: str, read: Callable[[str], float]) -> float:
    match = re.search(pattern, said)
    if match is None:
        raise programs.PeerFailed(f"h2load printed no {pattern!r}: {said[-programs.SAID :]}")
    return read(match[1])
