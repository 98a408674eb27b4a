"""Every strategy on every server, from 1 call in flight to 10,000, beside bare loops and others.

Rounds are interleaved, so that a machine that slows down slows all of them; medians are shown.
"over bare" is against the shortest loop of the same shape over the same stub, round by round, and
so is "CPU over bare", the client's processor time, which says the same where the machine is busy.
"over predicted" is against the processor time of a call in a short run with fewer in flight (one
core for each process), or with one in flight against the bare loop. Memory is counted from 1,000
in flight on. Where the processor is to bind and "cores busy" (client / server) is well below 1,
another program had the cores. The last rows ask whether 10,000 in flight hide 40 ms of work.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.go_pipeline import GoPipeline, go_pipeline
from benchmarks.plans import CROWD, GO, Plan, make, plans, predict
from benchmarks.results import Results, Round, Row
from kvstore.server import serving

SERVERS: dict[str, dict[str, Any]] = {
    "asyncio": {"use_asyncio": True},
    "threads": {"threads": 16},
    CROWD: {"use_asyncio": True, "read_delay_s": 0.040},
}


def measure(quick: bool, path: Path) -> Iterator[dict[str, Any]]:
    """One row for each plan; the rounds are saved after each of them, and kept at Ctrl-C."""
    rounds, seconds = (1, 0.3) if quick else (3, 1.5)
    asked = plans(quick)
    rows = {plan: plan.row() for plan in asked}
    results = Results({"quick": quick, "rounds": rounds, "seconds": seconds}, list(rows.values()))
    try:
        with go_pipeline() as go:
            for number in range(rounds):
                started_s = time.perf_counter()
                for server_name in SERVERS:
                    _one_round(server_name, rows, seconds, predicting=number == 0)
                _go_round(go, rows, seconds)
                results.save(path)
                took_s = time.perf_counter() - started_s
                print(f"  round {number + 1} of {rounds} took {took_s:.0f} s", flush=True)
    except KeyboardInterrupt:
        results.save(path)
        print(f"\n  stopped; {path} holds what was measured until then", flush=True)
        yield from shown(results)
        raise
    yield from shown(results)
    print(f"  saved as {path}; compare with: python3 course.py bench --compare {path} ...")


def _one_round(
    server_name: str, rows: dict[Plan, Row], seconds: float, *, predicting: bool
) -> None:
    with ExitStack() as servers:
        shared = servers.enter_context(_server(server_name))
        for plan, row in rows.items():
            if plan.server != server_name:
                continue
            if predicting and (predicted := predict(plan, shared, seconds, rows)):
                row.predicted_per_s, row.binds = predicted.value, predicted.binds
            if plan.counts_memory:  # memory that a server once took it does not give back
                with _server(server_name) as fresh:
                    row.rounds.append(make(plan, fresh, seconds))
            else:
                row.rounds.append(make(plan, shared, seconds))
            place = f"{list(rows).index(plan) + 1:3} of {len(rows)}"
            print(f"    {place}  {row.name}: {row.rounds[-1].per_s:,.0f}/s", flush=True)


def _go_round(go: GoPipeline | None, rows: dict[Plan, Row], seconds: float) -> None:
    for plan, row in rows.items():
        if go is not None and plan.server == GO:
            row.rounds.append(Round(*go.calls(plan.in_flight, seconds)))


def _server(name: str) -> Any:
    settings: dict[str, Any] = {"read_delay_s": 0, "write_delay_s": 0, "locking": "per_key"}
    return serving(**{**settings, **SERVERS[name]})


def shown(results: Results) -> Iterator[dict[str, Any]]:
    """The rows as text; those without a round are left out."""
    by_name = {row.name: row for row in results.rows}
    for row in results.rows:
        if not row.rounds:
            continue
        low, high = row.spread()
        yield {
            "server": row.server,
            "client": row.client,
            "in flight": f"{row.in_flight:,}" if row.in_flight else "",
            "operations/s": f"{row.median():,.0f}",
            "spread": f"{low:,.0f} to {high:,.0f}" if len(row.rounds) > 1 else "",
            "over bare": _ratio(over_bare(row, by_name.get(row.bare))),
            "CPU over bare": _ratio(over_bare(row, by_name.get(row.bare), "client_cpu_s")),
            "over predicted": _ratio(row.median() / row.predicted_per_s),
            "binds": row.binds,
            "CPU us client/server": _pair(row, "client_cpu_s", "server_cpu_s", 1e6, "{:.3g}"),
            "cores busy": _busy(row),
            "KiB/call client/server": _pair(
                row, "client_call_bytes", "server_call_bytes", 1 / 1024, "{:.1f}"
            ),
            "lost": sum(each.lost for each in row.rounds),
        }


def over_bare(row: Row, bare: Row | None, figure: str = "per_s") -> float:
    """The median of the rounds' own ratios: both sides of each were measured side by side."""
    if bare is None:
        return float("nan")
    pairs = zip(row.known(figure), bare.known(figure), strict=False)
    ratios = [ours / theirs for ours, theirs in pairs if theirs]
    return float(np.median(ratios)) if ratios else float("nan")


def _ratio(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.2f}"


def _busy(row: Row) -> str:
    """Cores that client and server kept busy: utilisation is throughput times demand."""
    sides = [
        [each.per_s * getattr(each, side) for each in row.rounds]
        for side in ("client_cpu_s", "server_cpu_s")
    ]
    return " / ".join(f"{np.median(side):.2f}" for side in sides)


def _pair(row: Row, client: str, server: str, factor: float, form: str) -> str:
    """Client's and server's median; empty where neither is known."""
    values = [row.median(client), row.median(server)]
    known = ["-" if np.isnan(value) else form.format(factor * value) for value in values]
    return "" if set(known) == {"-"} else " / ".join(known)
