"""Load generators of other projects (ghz, h2load), run against our server.

Their installation, the results of a run, and runs with the settings of ours.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import grpc
import numpy as np
import pandas as pd

from kvstore.client.channel import connected, server_status, target_of
from kvstore.course import rendering
from kvstore.course.lessons.lesson_06.figures import SPREAD, spread
from kvstore.measure import Run
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

HOW_TO_INSTALL: Final = {
    "h2load": "Debian, Ubuntu: `sudo apt install nghttp2-client`; macOS: `brew install nghttp2`",
    "ghz": "with Go: `go install github.com/bojand/ghz/cmd/ghz@v0.121.0`, or `.ci/run`",
}

OURS: Final = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    / "rpc-throughput-course"
    / "bin"
)
"""The folder in which `.ci/run` puts its programs."""

OUTPUT_SHOWN: Final = 2_000
"""The number of last characters of a failed program's output that are shown."""


class NotInstalled(RuntimeError):
    """The program is not installed."""


class PeerFailed(RuntimeError):
    """The program ended with an error, took too long, or its output could not be read."""


def path_of(name: str) -> str | None:
    """Return the path of the program: on PATH, in the folder of `.ci/run`, or in that of Go."""
    places = [os.environ.get("PATH", ""), str(OURS), str(Path.home() / "go" / "bin")]
    return shutil.which(name, path=os.pathsep.join(places))


def found(name: str) -> bool:
    """Return whether the program is installed; if not, show how to install it."""
    if path_of(name) is not None:
        return True
    text = f"{_missing(name)} The lesson goes on without it."
    rendering.show({"text/plain": text, "text/html": rendering.inline(text)})
    return False


def run(name: str, arguments: Sequence[str], timeout_s: float) -> str:
    """Run the program and return its output; raise `NotInstalled` or `PeerFailed`."""
    path = path_of(name)
    if path is None:
        raise NotInstalled(_missing(name))
    try:
        ended = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise PeerFailed(
            f"{name} did not end within {timeout_s:g} s and was stopped: use fewer requests"
        ) from None
    if ended.returncode:
        output = (ended.stderr or ended.stdout).strip()[-OUTPUT_SHOWN:]
        raise PeerFailed(f"{name} ended with status {ended.returncode}: {output or 'no output'}")
    return ended.stdout


def _missing(name: str) -> str:
    return f"{name} is not installed here. {HOW_TO_INSTALL[name]}."


class Scenario(NamedTuple):
    """The connections of a run, and the calls in flight on each."""

    connections: int
    streams: int
    """Calls in flight on each connection."""

    @property
    def in_flight(self) -> int:
        """Return the calls in flight in all."""
        return self.connections * self.streams


SCENARIOS: Final[Mapping[str, Scenario]] = MappingProxyType(
    {
        "1a": Scenario(1, 1),
        "1b": Scenario(1, 10),
        "2a": Scenario(10, 1),
        "2b": Scenario(10, 10),
        "3a": Scenario(100, 1),
        "3b": Scenario(100, 10),
    }
)
"""The scenarios of the grpcxx project's README, by its names."""


METHOD = "kvstore.v1.KeyValueService/Retrieve"
"""The method that the other clients call: a read of one key with a short value."""
KEY, VALUE = b"for clients of other makes", bytes(16)


@dataclass(frozen=True)
class PeerRun:
    """One run of another client: its own results, and the count of the server."""

    program: str
    connections: int
    streams: int
    requests: int
    """The calls that it had to make."""
    window_s: float
    """Seconds by its own clock, connecting included."""
    succeeded: int
    """Calls that it counts as successes. h2load checks the HTTP status only."""
    answered_ok: int
    """Calls that the server answered OK during the run, by its own count."""
    table: pd.DataFrame = field(repr=False, compare=False)
    """Rows of h2load's table, in milliseconds and calls per second."""

    @property
    def throughput_per_s(self) -> float:
        """Return the calls answered OK per second of the window."""
        return self.answered_ok / self.window_s if self.window_s else 0.0

    @property
    def all_ok(self) -> bool:
        """Return whether every call was answered OK, in HTTP and in gRPC."""
        return self.succeeded == self.answered_ok == self.requests


@contextmanager
def counted(server: object) -> Iterator[Callable[[], int]]:
    """Create the key, and yield a function that returns the retrieves answered OK since then.

    Raise the errors of `channel.connected`.
    """
    target = target_of(server)
    with connected(target) as (channel, _):
        try:
            kvstore_pb2_grpc.KeyValueServiceStub(channel).Create(
                pb.CreateRequest(key=KEY, value=VALUE), timeout=5.0
            )
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise

        def now() -> int:
            return int(server_status(channel, target, 5.0).operations.get("retrieve/OK", 0))

        before = now()
        yield lambda: now() - before


def checked(connections: int, streams: int, requests: int) -> None:
    """Raise `ValueError` for an invalid number."""
    numbers = {"connections": connections, "streams": streams, "requests": requests}
    for name, value in numbers.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be a whole number of 1 or more, got {value!r}")
    if requests < connections * streams:
        raise ValueError(
            f"{connections} x {streams} in flight need at least {connections * streams} requests,"
            f" got {requests}"
        )


def ghz(
    server: object,
    *,
    connections: int = 1,
    streams: int = 1,
    requests: int,
    timeout_s: float = 30,
    proto: str = "",
) -> PeerRun:
    """Let ghz make `requests` retrieves, `streams` at a time on each connection.

    `proto` is the .proto file for a server without reflection. Raise the errors of `h2load`.
    """
    checked(connections, streams, requests)
    data = json.dumps({"key": base64.b64encode(KEY).decode("ascii")})
    arguments = [
        "--insecure", f"--call={METHOD}", f"--total={requests}", f"--connections={connections}",
        f"--concurrency={connections * streams}", "--data", data, "--format=json",
        *([f"--proto={proto}"] if proto else []), target_of(server).address,
    ]  # fmt: skip
    with counted(server) as answered_ok:
        report = json.loads(run("ghz", arguments, timeout_s))
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


UNITS_MS: Final = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 60e3, "h": 3600e3}
ROWS: Final = {
    "request": "request (ms)",
    "connect": "connect (ms)",
    "TTFB": "first byte (ms)",
    "req/s": "calls/s of a connection",
}
"""The rows of h2load's table, and our names for them."""
OLD_ROWS: Final = {
    "time for request": "request",
    "time for connect": "connect",
    "time to 1st byte": "TTFB",
}
"""Names of rows before nghttp2 1.66."""
COLUMNS: Final = ("min", "max", "mean", "sd", "+/- sd")
"""The columns of h2load's table that we read; later versions have more."""


def h2load(
    server: object, *, connections: int = 1, streams: int = 1, requests: int, timeout_s: float = 30
) -> PeerRun:
    """Let h2load make `requests` retrieves, `streams` at a time on each connection.

    The run has a count and not a duration: after a duration h2load drops the calls in flight, and
    the server's count would differ from its own.

    Raises:
        ValueError: a number is invalid.
        NotInstalled, PeerFailed: see `external_clients.run`.
    """
    checked(connections, streams, requests)
    with counted(server) as answered_ok:
        output = _h2load_output(server, connections, streams, requests, timeout_s)
        ok = answered_ok()
    return PeerRun(
        program="h2load",
        connections=connections,
        streams=streams,
        requests=requests,
        window_s=_found(r"finished in ([\d.]+\w+),", output, _ms) / 1e3,
        succeeded=int(_found(r"(\d+) succeeded", output, float)),
        answered_ok=ok,
        table=parse(output),
    )


def _h2load_output(
    server: object, connections: int, streams: int, requests: int, timeout_s: float
) -> str:
    message = pb.RetrieveRequest(key=KEY).SerializeToString()
    with tempfile.TemporaryDirectory(prefix="kvstore-h2load-") as folder:
        body = Path(folder) / "body"
        body.write_bytes(b"\x00" + len(message).to_bytes(4, "big") + message)
        # Without "te: trailers" a Python server resets the stream.
        arguments = [
            f"--requests={requests}", f"--clients={connections}",
            f"--max-concurrent-streams={streams}", "--header=te: trailers",
            "--header=content-type: application/grpc", f"--data={body}",
            f"http://{target_of(server).address}/{METHOD}",
        ]  # fmt: skip
        return run("h2load", arguments, timeout_s)


def parse(output: str) -> pd.DataFrame:
    """Return h2load's table from its output; raise `PeerFailed` for what is missing in it."""
    head = re.search(r"^ +(min .*\+/- sd)$", output, re.MULTILINE)
    names = re.split(r"\s{2,}", head[1]) if head else []
    lines = {}
    for name, cells in re.findall(r"^(\S.*?)\s*:(.*)$", output, re.MULTILINE):
        lines[OLD_ROWS.get(name, name)] = dict(zip(names, cells.split(), strict=False))
    rows = {}
    for theirs, ours in ROWS.items():
        found = lines.get(theirs, {})
        if not found.keys() >= set(COLUMNS):
            raise PeerFailed(f"h2load printed no row {theirs!r}: {output[-OUTPUT_SHOWN:]}")
        *numbers, share = (found[each] for each in COLUMNS)
        read = float if theirs == "req/s" else _ms
        rows[ours] = [*(read(cell) for cell in numbers), float(share.removesuffix("%"))]
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(SPREAD))


def _ms(text: str) -> float:
    """Return the milliseconds of "143us", "2.31ms" or "1.03s"."""
    number = re.fullmatch(r"([\d.]+)(us|ms|s|m|h)", text)
    if number is None:
        raise PeerFailed(f"h2load printed {text!r} where a time was expected")
    return float(number[1]) * UNITS_MS[number[2]]


def _found(pattern: str, output: str, read: Callable[[str], float]) -> float:
    match = re.search(pattern, output)
    if match is None:
        raise PeerFailed(f"h2load printed no {pattern!r}: {output[-OUTPUT_SHOWN:]}")
    return read(match[1])


PROGRAMS = {"h2load": h2load, "ghz": ghz}
"""The other clients by the names of their programs."""
TIMEOUT_S, TIMEOUT_FACTOR = 30.0, 10.0
"""The timeout of a program is 30 s plus ten times the duration of our run."""


def beside(program: str, server: object, ours: Mapping[str, Run]) -> dict[str, PeerRun]:
    """Run h2load or ghz with the settings of each of our runs, and return the runs by name.

    Each makes as many calls as ours had answered. If the program is not installed, show how to
    install it and return nothing. Raise `ValueError` for another program or for a run with an
    unknown number of connections, and the errors of the program's own function.
    """
    if program not in PROGRAMS:
        raise ValueError(f"program must be one of {', '.join(PROGRAMS)}, got {program!r}")
    for name, run in ours.items():
        if not 1 <= run.connections <= run.in_flight:
            raise ValueError(
                f"the run {name} had {run.connections} connections for {run.in_flight} calls in"
                " flight: use a run that counted its connections"
            )
    if not found(program):
        return {}
    return {
        name: PROGRAMS[program](
            server,
            connections=run.connections,
            streams=run.in_flight // run.connections,
            requests=max(run.in_flight, run.operations_ok),
            timeout_s=TIMEOUT_S + TIMEOUT_FACTOR * run.window_s,
        )
        for name, run in ours.items()
    }
