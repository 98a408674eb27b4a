"""Three clients of one connection: synchronous, pipelined and concurrent, as published.

The published measurement ("RPC pipeline") made 524,288 echo calls with Go's net/rpc and
printed real, user and sys for each client. `race` repeats it against our server.
"""

import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pandas as pd

from kvstore.client import load, workload
from kvstore.client.strategies import Strategy, blocking, pipelined, tasks
from kvstore.course import rendering
from kvstore.course.rendering import counted
from kvstore.measure import Run
from kvstore.measure.cpu_cost import cores_busy

SYNCHRONOUS: Final = "synchronous"
ONE_AT_A_TIME: Final = "stream, window of 1"
PIPELINED: Final = "pipelined"
CONCURRENT: Final = "concurrent"


class Times(NamedTuple):
    """The three times that the command `time` prints, in seconds."""

    real_s: float
    user_s: float
    sys_s: float


PUBLISHED: Final = {
    SYNCHRONOUS: Times(64.8, 12.5, 47.5),
    PIPELINED: Times(22.4, 10.5, 44.6),
    CONCURRENT: Times(29.0, 14.8, 77.6),
}
"""The published figures, for 524,288 calls."""

PUBLISHED_CALLS: Final = 524_288

WINDOW: Final = 256
"""Requests in flight of the pipelined client; the published client had no limit."""
MOST_AT_ONCE: Final = 10_000
"""The limit in flight of the concurrent client: at about 25 kB each, 250 MB."""

ECHO: Final = workload.reads(keys=8, key_bytes_mean=16, value_bytes_mean=64, sizes="fixed")
"""Small reads of a few keys: the operation that is most like an echo."""


def published() -> pd.DataFrame:
    """Return the published table: real, user and sys, cores busy and calls per second."""
    return pd.DataFrame(
        [
            (*t, round((t.user_s + t.sys_s) / t.real_s, 2), round(PUBLISHED_CALLS / t.real_s))
            for t in PUBLISHED.values()
        ],
        columns=["real (s)", "user (s)", "sys (s)", "cores busy", "calls/s"],
        index=pd.Index(PUBLISHED, name="client (Go, as published)"),
    )


def clients(calls: int) -> Mapping[str, tuple[Strategy, int]]:
    """Return each client as a strategy with its limit in flight, for a run of so many calls.

    The second client is not in the source. It separates two effects of the published comparison:
    a stream saves CPU time on each message, and a client that does not wait saves round trips.
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
    """Run each client `rounds` times, interleaved, so that a noisy minute affects all of them.

    Each round begins with another client. `make_run` is `load.run` or `run_in_process`; `only`
    names the clients to run, all if empty.
    """
    chosen = {name: each for name, each in clients(calls).items() if not only or name in only}
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
    """Return real, user and sys of client and server as medians, one row for each client."""
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
    """Return real and CPU time over those of the synchronous client, here and as published."""
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


def times_faster(runs: Mapping[str, Sequence[Run]]) -> float:
    """Return how many times faster the pipelined client was: the median of the rounds."""
    pairs = zip(runs[SYNCHRONOUS], runs[PIPELINED], strict=True)
    return _median([slow.window_s / fast.window_s for slow, fast in pairs])


def processor_s(runs: Sequence[Run]) -> float:
    """Return user and system time of both processes together, the median of the runs."""
    return _median([run.client_cpu.total_s + run.server_cpu.total_s for run in runs])


def spread_in_words(runs: Mapping[str, Sequence[Run]]) -> str:
    """Return in words whether the rounds of the synchronous and the pipelined client overlap."""
    slow, fast = (sorted(run.window_s for run in runs[c]) for c in (SYNCHRONOUS, PIPELINED))
    shown = (
        f"{fast[0]:.2f} to {fast[-1]:.2f} s pipelined, {slow[0]:.2f} to {slow[-1]:.2f} s"
        " synchronous"
    )
    if fast[-1] < slow[0]:
        return f"every pipelined round was faster than every synchronous one: {shown}"
    return (
        f"the rounds overlap, {shown}: other programs use this machine. Close them and run the"
        " race again before you trust the ratio"
    )


def _median(values: Sequence[float]) -> float:
    return float(statistics.median(values))
