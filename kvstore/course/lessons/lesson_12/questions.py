"""What lesson 12 and its further lessons ask."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pandas as pd

from kvstore.client import workload
from kvstore.client.fleet import Fleet, Local, available
from kvstore.client.workload import Workload
from kvstore.course import mode, rendering
from kvstore.course.questions import Option, PredictionQuestion, QuizQuestion
from kvstore.course.rendering import escaped
from kvstore.course.views.style import rounded
from kvstore.measure import Run, during
from kvstore.model import Prediction, bounds, scaling
from kvstore.model.scaling import Played

SERVICE_S = 0.020
"""The time for which a call holds the lock of its server."""
HOTTEST = 0.4
"""Share of the calls that go to the hot key of round 2."""
LARGE_HOTTEST = 0.05
"""The same in the simulation of 1,000 servers."""
KEYS = {"seed": 10, "keys": 64, "value_bytes_mean": 16, "sizes": "fixed"}


def one_hot_key(servers: int, hottest: float = HOTTEST) -> Workload:
    """Return reads of which one key gets the share `hottest`, and a hash spreads the others."""
    share = scaling.busiest_share(servers, hottest)
    return workload.reads(**KEYS, busiest_share=share if servers > 1 else None)  # type: ignore[arg-type]


def shares(servers: int, hottest: float) -> list[float]:
    """Return the shares of the servers: the one with the hot key first."""
    return scaling.uneven(servers, scaling.busiest_share(servers, hottest))


def bound(servers: int, hottest: float, in_flight: int) -> Prediction:
    """Return min(N/S, 1/(w·S)) with w = q + (1 - q)/s."""
    stations = scaling.stations(shares(servers, hottest), SERVICE_S)
    return bounds.closed_loop(in_flight, stations)


def settled(run: Run) -> float:
    """Return the calls/s of a run without its first quarter and its end."""
    for_s = float(run.settings["duration_s"])
    return during(run, for_s / 4, for_s).answered_per_s


def simulated(servers: int, hottest: float, in_flight: int) -> Played:
    """Simulate a few servers, in a second or less."""
    return scaling.closed_loop(in_flight, shares(servers, hottest), SERVICE_S)


def moved_share(before: Sequence[int], after: Sequence[int]) -> float:
    """Return the share of keys, or slots, that are on another server afterwards."""
    return sum(a != b for a, b in zip(before, after, strict=True)) / len(before)


def gain(played: Played) -> float:
    """Return how many times the throughput of one server a simulation reaches."""
    return played.throughput_per_s * played.service_s


PREDICTIONS = (
    PredictionQuestion(
        "12.one_channel",
        "One channel to 4 servers of 50 calls/s each, and 40 calls in flight: how many calls/s?",
        measured=lambda spread: spread.answered_per_s,
        model=lambda spread: Prediction(
            1 / SERVICE_S, "calls/s", "one connection, so one server: 1/S", "server"
        ),
        main=True,
    ),
    PredictionQuestion(
        "12.hot_key",
        "4 servers with a shard each. One key gets 40 % of the calls: how many calls/s?",
        measured=settled,
        model=lambda run: bound(4, HOTTEST, run.in_flight),
        main=True,
    ),
    PredictionQuestion(
        "12.moved",
        "A fifth server beside four: what share of the keys has to move?",
        unit="of the keys",
        measured=moved_share,
        model=lambda before, after: Prediction(
            4 / 5, "of the keys", "a key stays if hash % 4 = hash % 5: 4 of 20 remainders"
        ),
    ),
    PredictionQuestion(
        "12.thousand",
        "1,000 servers, and one key with 5 % of the calls: how many times the throughput of one "
        "server?",
        unit="times",
        measured=gain,
        model=lambda played: Prediction(
            1 / scaling.busiest_share(1_000, LARGE_HOTTEST),
            "times",
            "1/(q + (1 - q)/s): the server with the hot key",
        ),
        main=True,
    ),
)

QUIZ = (
    QuizQuestion(
        "12.restart",
        "A service has 3 servers behind a load balancer for TCP connections. A gRPC client has one "
        "channel. You add 3 servers. What does the client gain?",
        (
            Option("Twice the throughput.", why="Its connection stays at the server it has."),
            Option(
                "Nothing, until it connects again.",
                right=True,
                why="A server is chosen for a connection, and the channel keeps the one it has.",
            ),
            Option(
                "A third more.",
                why="The balancer sees no calls. It sees one connection, which exists already.",
            ),
        ),
    ),
    QuizQuestion(
        "12.hottest",
        "The hottest key gets 5 % of the calls. How many times the "
        "throughput of one server do 20 servers reach?",
        (
            Option("20 times.", why="Only if all servers get the same share."),
            Option(
                "About 10 times.",
                right=True,
                why="The busiest server has 0.05 + 0.95/20 = 0.0975 of the calls, and 1/0.0975 = "
                "10.3.",
            ),
            Option(
                "19 times: only the server of the hot key is slow.",
                why="In a closed loop, callers of all servers end up in the longest queue.",
            ),
        ),
    ),
    QuizQuestion(
        "12.percentile",
        "Two load generators measured a 99th percentile of 10 ms and of 30 ms. The 99th percentile "
        "of all calls is",
        (
            Option("20 ms.", why="Percentiles cannot be averaged: the mean is no percentile."),
            Option(
                "30 ms, the higher of the two figures.",
                why="Only if the slow calls of the other one count for nothing.",
            ),
            Option(
                "not known from these two numbers.",
                right=True,
                why="It needs the calls of the two. It lies between 10 and 30 ms. Where depends on "
                "the number of calls of each, and on their distributions.",
            ),
        ),
    ),
)


@contextmanager
def fleet(workers: int) -> Iterator[Fleet | None]:
    """Yield a local fleet, with a link to its dashboard on the page.

    Yield None, which means this process, if Dask is not installed.
    """
    if not available():
        print(
            "Dask is not installed, so this process makes the load alone. For a fleet:"
            " pip install distributed bokeh, and restart the kernel."
        )
        yield None
        return
    with Local(workers, dashboard=not mode.fast()) as running:
        if url := running.dashboard:
            link = f'<a href="{escaped(url)}" target="_blank">Dask\'s dashboard</a>'
            rendering.show(
                {
                    "text/plain": f"Dask's dashboard, while the run lasts: {url}",
                    "text/html": f"<p>{link}, while the run lasts</p>",
                }
            )
        yield running


def workers_table(run: Run) -> pd.DataFrame:
    """Return one row for each worker: its calls and its p99."""
    rows = {}
    end = 0
    for number in range(1, 1 + len(run.settings.get("workers", ()))):
        first, end = end, end + run.connections // len(run.settings["workers"])
        own = run.records["connection"]
        part = run.records[(own >= first) & (own < end)]
        residence_s = pd.Series(part["done_s"] - part["sent_s"])
        rows[f"worker {number}"] = {
            "calls": len(part),
            "p99 (ms)": 1e3 * residence_s.quantile(0.99),
        }
    rows["all together"] = {
        "calls": len(run.records),
        "p99 (ms)": 1e3 * run.latency_s(0.99),
    }
    return rounded(pd.DataFrame.from_dict(rows, orient="index")).astype({"calls": int})


def first_calls_s(run: Run) -> list[float]:
    """Return when each worker sent its first call, in seconds from the common start."""
    workers = max(1, len(run.settings.get("workers", ())))
    each = max(1, run.connections // workers)
    worker = run.records["connection"] // each
    return [float(run.records["sent_s"][worker == n].min(initial=math.inf)) for n in range(workers)]
