"""What the further lessons of lesson 06 ask, and the conditions of their claims."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import pandas as pd

from kvstore.course import views
from kvstore.course.external_clients import PeerRun
from kvstore.course.questions.base import PredictionQuestion
from kvstore.measure import Run
from kvstore.measure.cpu_cost import pace_s, price_s, serial_s
from kvstore.model import Prediction
from kvstore.model.usl import Fit


def refused_at_start(connections: int, streams: int, cap: int) -> int:
    """Return how many requests fail when each connection begins before it knows the cap."""
    return connections * max(0, streams - cap)


def explained(failed: int, connections: int, streams: int, cap: int) -> bool:
    """Whether the failed requests are those of whole connections: c' · (m - cap), c' ≤ c.

    A connection that hears of the cap before it sends its first requests loses none.
    """
    each = streams - cap
    return failed % each == 0 and 0 <= failed <= connections * each


def counts_add_up(run: Run) -> bool:
    """Whether calls sent = OK + UNAVAILABLE, and the server carried out the OK ones only."""
    refused = run.outcomes().get("UNAVAILABLE", 0)
    carried_out = sum(run.server["operations"].values())
    return run.issued == run.operations_ok + refused and carried_out == run.operations_ok


def refused_none(run: Run) -> bool:
    """Whether every call of the run was answered OK."""
    return set(run.outcomes()) == {"OK"}


def different_n(runs: Sequence[Run]) -> int:
    """Return how many different numbers in flight there are: the points that a fit of X(N) has."""
    return len({run.in_flight for run in runs})


def one_layout(runs: Sequence[Run]) -> bool:
    """Whether all runs have the same number of connections: only N differs."""
    return len({run.connections for run in runs}) == 1


def fit_is_wrong_beyond(fit: Fit, run: Run, share: float = 0.1) -> bool:
    """Whether the fitted law differs from a run outside its data by more than a share."""
    return abs(fit.throughput_per_s(run.in_flight) / run.answered_per_s - 1) > share


def few_cores(run: Run) -> bool:
    """Whether the server used fewer than 2.5 cores."""
    return run.server_cpu.total_s < 2.5 * run.window_s


def threads_gain(one: Run, many: Run) -> float:
    """Return the throughput of the run with many threads over that with one."""
    return many.answered_per_s / one.answered_per_s


def all_counted(others: Sequence[PeerRun]) -> bool:
    """Whether each call of the other clients was OK by the server's own count."""
    return all(each.all_ok for each in others)


def h2load_tables(ours: Run, theirs: PeerRun | None) -> dict[str, pd.DataFrame]:
    """Return h2load's table of our run, and of h2load's own run where there is one."""
    tables = {"ours": views.h2load_table(ours)}
    return tables if theirs is None else {**tables, "h2load": theirs.table}


def each_carried(runs: Mapping[str, Run]) -> bool:
    """Whether each connection of each run carried calls."""
    return all(len(set(run.records["connection"])) == run.connections for run in runs.values())


def open_by_connection(run: Run) -> dict[int, tuple[list[float], list[int]]]:
    """Return for each connection the times in seconds, and the calls in flight from then on."""
    found = {}
    for connection in sorted(set(run.records["connection"].tolist())):
        calls = run.records[run.records["connection"] == connection]
        steps = sorted([*((s, 1) for s in calls["sent_s"]), *((s, -1) for s in calls["done_s"])])
        in_flight = list(accumulate(step for _, step in steps))
        found[connection] = ([float(at_s) for at_s, _ in steps], in_flight)
    return found


def most_on_one(run: Run) -> int:
    """Return the highest number of calls that were in flight on one connection."""
    return max(max(in_flight) for _, in_flight in open_by_connection(run).values())


PUBLISHED: tuple[tuple[str, int, int, float, float | None], ...] = (
    ("one thread", 100, 1, 55_935.0, 1.62e-3),
    ("worker threads", 100, 1, 48_881.0, 1.88e-3),
    ("worker threads, many streams", 100, 10, 141_222.0, 5.24e-3),
    ("read buffer of 1 KiB", 100, 1, 69_466.0, None),
    ("read buffer of 1 KiB, many streams", 100, 10, 168_327.0, None),
)
"""Rows of the log of grpcxx: build, connections, streams, requests/s, mean seconds of a request."""


def published_table() -> pd.DataFrame:
    """Return the published rows with N, and X·R beside it where a mean time is published."""
    rows = {
        name: {
            "N": connections * streams,
            "X (requests/s)": rate_per_s,
            "R (ms)": None if mean_s is None else 1e3 * mean_s,
            "X·R": None if mean_s is None else round(rate_per_s * mean_s, 1),
            "X·R ÷ N": None
            if mean_s is None
            else round(rate_per_s * mean_s / (connections * streams), 2),
        }
        for name, connections, streams, rate_per_s, mean_s in PUBLISHED
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("build")


def can_be_true(table: pd.DataFrame) -> bool:
    """Whether no row has more calls in flight, X·R, than the client kept open, N."""
    known = table["X·R"].notna()
    return bool((table["X·R"][known].astype(float) <= table["N"][known]).all())


def like_for_like(table: pd.DataFrame) -> float:
    """Return the gain of many streams with the same build: 141,222 over 48,881."""
    rates = table["X (requests/s)"]
    return float(rates["worker threads, many streams"] / rates["worker threads"])


def gain(python: Run, go: Run) -> float:
    """Return the throughput with the server in Go over that with the server in Python."""
    return go.answered_per_s / python.answered_per_s


def expected_gain(python: Run) -> Prediction:
    """Return the gain of a server that costs no CPU time, if the client's demand stays the same.

    With D from the run in Python, the client alone allows X = 1/D_client.
    """
    gained = pace_s(python) / serial_s(python).client_s
    return Prediction(gained, "times", "D_max ÷ D_client", "the client's CPU")


def client_is_cheaper(python: Run, go: Run) -> bool:
    """Whether a call costs the client less CPU time, though only the server has changed."""
    return serial_s(go).client_s < serial_s(python).client_s


def client_binds(go: Run) -> bool:
    """Whether a call costs the client more than all of the server: it is the bottleneck now."""
    return serial_s(go).client_s > price_s(go).server_s


def server_saves(python: Run, go: Run) -> bool:
    """Whether a call costs the server in Go less CPU time than the server in Python."""
    return price_s(go).server_s < price_s(python).server_s


def _number(measured: float) -> float:
    return measured


def _question(name: str, text: str, unit: str) -> PredictionQuestion:
    """Return a question whose notebook computes both numbers and passes them to `compare`."""
    return PredictionQuestion(name, text, unit=unit, measured=_number)


PREDICTIONS = (
    _question(
        "06.failed",
        "100 connections, 10 requests at once on each, a cap of 1 stream: how many of 3,000 "
        "requests fail?",
        "requests",
    ),
    _question(
        "06.two_connections",
        "The same 20 calls over two connections, 4 streams each, 20 ms: how many calls/s?",
        "calls/s",
    ),
    PredictionQuestion(
        "06.go_with_disk",
        "A disk of 20 ms, 50 calls in flight: how many times the throughput with the server in Go?",
        unit="times",
        measured=gain,
        model=lambda python, go: Prediction(1.0, "times", "N/S in both", "the disk"),
        main=True,
    ),
    PredictionQuestion(
        "06.go",
        "No disk: how many times the throughput with the server in Go?",
        unit="times",
        measured=gain,
        model=lambda python, go: expected_gain(python),
    ),
    _question("06.threads", "64 threads in place of 1: how many times the throughput?", "times"),
)
