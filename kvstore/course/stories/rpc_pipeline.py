"""Three clients of one connection: synchronous, pipelined and concurrent, as published.

The published measurement ("RPC pipeline") made 524,288 echo calls with Go's net/rpc and
printed real, user and sys for each client. `race` plays it against a server of ours.
"""

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pandas as pd

from kvstore.client import load, workload
from kvstore.client.strategies import Strategy, blocking, pipelined, tasks
from kvstore.course import rendering
from kvstore.course.stories.counted import counted
from kvstore.measure import Run
from kvstore.measure.price import cores_busy, paced_s
from kvstore.model import Station

SYNCHRONOUS: Final = "synchronous"
ONE_AT_A_TIME: Final = "stream, window of 1"
PIPELINED: Final = "pipelined"
CONCURRENT: Final = "concurrent"


class Times(NamedTuple):
    """What `time` prints, in seconds."""

    real_s: float
    user_s: float
    sys_s: float


PUBLISHED: Final = {
    SYNCHRONOUS: Times(64.8, 12.5, 47.5),
    PIPELINED: Times(22.4, 10.5, 44.6),
    CONCURRENT: Times(29.0, 14.8, 77.6),
}
"""The authors' own figures, for 524,288 calls."""

PUBLISHED_CALLS: Final = 524_288

WINDOW: Final = 256
"""Requests that the pipelined client keeps open; the published one set itself no limit."""
MOST_AT_ONCE: Final = 10_000
"""Calls the concurrent client may have in flight: at some 25 kB each, 250 MB."""

ECHO: Final = workload.reads(keys=8, key_bytes_mean=16, value_bytes_mean=64, sizes="fixed")
"""As near to an echo as a key-value store comes: small reads of a few keys."""


def published() -> pd.DataFrame:
    """The published table: real, user and sys, and what follows from them."""
    return pd.DataFrame(
        [
            (*t, round((t.user_s + t.sys_s) / t.real_s, 2), round(PUBLISHED_CALLS / t.real_s))
            for t in PUBLISHED.values()
        ],
        columns=["real (s)", "user (s)", "sys (s)", "cores busy", "calls/s"],
        index=pd.Index(PUBLISHED, name="client (Go, as published)"),
    )


def clients(calls: int) -> Mapping[str, tuple[Strategy, int]]:
    """Each client as a strategy with its limit in flight, for a run of so many calls.

    The second is not in the source. It tells apart what the published comparison mixes:
    what a stream saves on each message, and what not waiting saves.
    """
    return {
        SYNCHRONOUS: (blocking, 1),
        ONE_AT_A_TIME: (pipelined, 1),
        PIPELINED: (pipelined, min(WINDOW, calls)),
        CONCURRENT: (tasks, min(MOST_AT_ONCE, calls)),
    }


def race(
    server: object,
    *,
    calls: int,
    rounds: int,
    make_run: Callable[..., Run] = load.run,
    only: Collection[str] = (),
) -> dict[str, list[Run]]:
    """`rounds` runs of each client, interleaved: a noisy minute then hits all of them.

    Each round begins with another client, so that none is always the first. `make_run` is
    `load.run` or `run_in_process`; `only` names the clients to run, all if empty.
    """
    chosen = {n: how for n, how in clients(calls).items() if not only or n in only}
    runs: dict[str, list[Run]] = {name: [] for name in chosen}
    load.run(pipelined, server, ECHO, in_flight=16, calls=200)  # warms the server; not counted
    order: list[str] = []
    for number in range(rounds):
        first = number % len(chosen)
        order += [*chosen][first:] + [*chosen][:first]
    for name in counted(order):
        strategy, in_flight = chosen[name]
        runs[name].append(make_run(strategy, server, ECHO, in_flight=in_flight, calls=calls))
    return runs


def as_published(runs: Mapping[str, Sequence[Run]]) -> pd.DataFrame:
    """One row for each client: real, user and sys of both sides, each the median of its runs."""
    rows: list[dict[str, Any]] = []
    for name, repeated in runs.items():
        real = [run.window_s for run in repeated]
        rows.append(
            {
                "client": name,
                "real (s)": _median(real),
                "from (s)": min(real),
                "to (s)": max(real),
                "client user (s)": _median([run.client_cpu.user_s for run in repeated]),
                "client sys (s)": _median([run.client_cpu.system_s for run in repeated]),
                "server user (s)": _median([run.server_cpu.user_s for run in repeated]),
                "server sys (s)": _median([run.server_cpu.system_s for run in repeated]),
                "cores busy": _median([cores_busy(run) for run in repeated]),
                "calls/s": round(repeated[0].issued / _median(real)),
            }
        )
    return pd.DataFrame(rows).set_index("client").round(2)


def ratios(runs: Mapping[str, Sequence[Run]]) -> pd.DataFrame:
    """Real and processor time as a share of the synchronous client's: here and as published."""
    first = runs[SYNCHRONOUS]
    rows: list[dict[str, Any]] = []
    for name, repeated in runs.items():
        shares = [a.window_s / b.window_s for a, b in zip(repeated, first, strict=True)]
        row: dict[str, Any] = {
            "client": name,
            "real here": _median(shares),
            "from": min(shares),
            "to": max(shares),
            "processor here": processor_s(repeated) / processor_s(first),
        }
        if name in PUBLISHED:
            own, base = PUBLISHED[name], PUBLISHED[SYNCHRONOUS]
            row["real published"] = own.real_s / base.real_s
            row["processor published"] = (own.user_s + own.sys_s) / (base.user_s + base.sys_s)
        rows.append(row)
    table = pd.DataFrame(rows).set_index("client").rename_axis("client (synchronous: 1)").round(2)
    return table.astype(object).where(table.notna(), rendering.NONE)


def times_faster(runs: Mapping[str, Sequence[Run]], than: str = SYNCHRONOUS) -> float:
    """How many times faster the pipelined client was, in the middle round."""
    pairs = zip(runs[than], runs[PIPELINED], strict=True)
    return _median([slow.window_s / fast.window_s for slow, fast in pairs])


def fastest_s(runs: Sequence[Run]) -> float:
    """The shortest of repeated runs, in seconds: the one that was disturbed least."""
    return min(run.window_s for run in runs)


def processor_s(runs: Sequence[Run]) -> float:
    """User and system time of both processes together, of the middle run."""
    return _median([run.client_cpu.total_s + run.server_cpu.total_s for run in runs])


class Parts(NamedTuple):
    """What one message costs on this machine, in seconds, from runs with no disk."""

    round_trip_s: float
    """From sending to the answer, with nothing else in flight."""
    client_s: float
    """Time of the client's event loop for each message, with many in flight."""
    server_s: float
    """The same of the server."""


def parts(runs: Mapping[str, Sequence[Run]]) -> Parts:
    """The parts from a race: of repeated runs the least disturbed one."""
    return Parts(
        min(run.mean_residence_s for run in runs[ONE_AT_A_TIME]),
        min(paced_s(run).client_s for run in runs[PIPELINED]),
        min(paced_s(run).server_s for run in runs[PIPELINED]),
    )


def stations(message: Parts, delay_s: float) -> list[Station]:
    """Where a message spends its time: a way on which nobody waits, and two processors."""
    busy_s = message.client_s + message.server_s
    way_s = max(0.0, delay_s + message.round_trip_s - busy_s)
    return [
        Station("the way", way_s, math.inf),
        Station("client processor", message.client_s),
        Station("server processor", message.server_s),
    ]


def spread_in_words(runs: Mapping[str, Sequence[Run]]) -> str:
    """Whether the rounds of the synchronous and the pipelined client can be told apart."""
    slow, fast = (sorted(run.window_s for run in runs[c]) for c in (SYNCHRONOUS, PIPELINED))
    shown = f"{fast[0]:.2f} to {fast[-1]:.2f} s pipelined, {slow[0]:.2f} to {slow[-1]:.2f} s not"
    if fast[-1] < slow[0]:
        return f"every pipelined round was faster than every synchronous one: {shown}"
    return (
        f"the rounds overlap, {shown}: something else uses this machine. Close other"
        " programs and run the race again before you trust the ratio"
    )


def _median(values: Sequence[float]) -> float:
    return float(statistics.median(values))
