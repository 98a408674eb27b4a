"""Every strategy on every server with 1 to 10,000 calls in flight, bare loops and other programs.

Rounds are interleaved, so that a machine that slows down affects all rows; medians are shown.
"over bare" compares with the bare loop of the same shape, within each round. "CPU over bare" does
so for the CPU time of the client, which is comparable on a busy machine too. "over predicted"
compares with the bound from the CPU time of a call in a short run with fewer calls in flight (one
core for each process); with one call in flight it compares with the bare loop. Memory is measured
with 1,000 calls in flight or more. If a CPU is the predicted bottleneck and "cores busy" (client /
server) is far below 1, other programs used the cores. The last rows have 40 ms of work for each of
10,000 calls in flight.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from tqdm import tqdm

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
    """Yield one row for each plan. Every round is saved, also at Ctrl-C."""
    rounds, seconds = (1, 0.3) if quick else (3, 1.5)
    rows = {plan: plan.row() for plan in plans(quick)}
    results = Results({"quick": quick, "rounds": rounds, "seconds": seconds}, list(rows.values()))
    try:
        with (
            go_pipeline() as go,
            tqdm(total=rounds * len(rows), desc="table", unit="run") as progress,
        ):
            for number in range(rounds):
                for server_name in SERVERS:
                    _one_round(server_name, rows, seconds, progress, predicting=number == 0)
                _go_round(go, rows, seconds, progress)
                results.save(path)
    except KeyboardInterrupt:
        results.save(path)
        print(f"\n  stopped; {path} has the rounds measured until then", flush=True)
        yield from shown(results)
        raise
    yield from shown(results)
    print(f"  saved as {path}; compare with: python3 course.py bench --compare {path} ...")


def _one_round(
    server_name: str,
    rows: dict[Plan, Row],
    seconds: float,
    progress: "tqdm[NoReturn]",
    *,
    predicting: bool,
) -> None:
    with ExitStack() as servers:
        shared = servers.enter_context(_server(server_name))
        for plan, row in rows.items():
            if plan.server != server_name:
                continue
            if predicting and (predicted := predict(plan, shared, seconds, rows)):
                row.predicted_per_s, row.binds = predicted.value, predicted.binds
            if plan.counts_memory:  # a server does not return memory to the system
                with _server(server_name) as fresh:
                    row.rounds.append(make(plan, fresh, seconds))
            else:
                row.rounds.append(make(plan, shared, seconds))
            _advance(progress, row)


def _go_round(
    go: GoPipeline | None, rows: dict[Plan, Row], seconds: float, progress: "tqdm[NoReturn]"
) -> None:
    for plan, row in rows.items():
        if go is not None and plan.server == GO:
            row.rounds.append(Round(*go.calls(plan.in_flight, seconds)))
            _advance(progress, row)


def _advance(progress: "tqdm[NoReturn]", row: Row) -> None:
    """Show the last round of a row."""
    progress.update()
    progress.set_postfix_str(f"{row.name}: {row.rounds[-1].per_s:,.0f}/s")


def _server(name: str) -> Any:
    settings: dict[str, Any] = {"read_delay_s": 0, "write_delay_s": 0, "locking": "per_key"}
    return serving(**{**settings, **SERVERS[name]})


def shown(results: Results) -> Iterator[dict[str, Any]]:
    """Yield the rows as text, without rows that have no round."""
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
    """Return the median of the ratios within each round, row over bare loop."""
    if bare is None:
        return float("nan")
    pairs = zip(row.known(figure), bare.known(figure), strict=False)
    ratios = [ours / theirs for ours, theirs in pairs if theirs]
    return float(np.median(ratios)) if ratios else float("nan")


def _ratio(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.2f}"


def _busy(row: Row) -> str:
    """Return the cores that client and server used: utilisation U = X D."""
    sides = [
        [each.per_s * getattr(each, side) for each in row.rounds]
        for side in ("client_cpu_s", "server_cpu_s")
    ]
    return " / ".join(f"{np.median(side):.2f}" for side in sides)


def _pair(row: Row, client: str, server: str, factor: float, form: str) -> str:
    """Return the medians of client and server as text; empty if neither is known."""
    values = [row.median(client), row.median(server)]
    known = ["-" if np.isnan(value) else form.format(factor * value) for value in values]
    return "" if set(known) == {"-"} else " / ".join(known)
