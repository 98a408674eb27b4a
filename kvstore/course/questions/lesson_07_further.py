"""What the further lesson 07 on a real back end asks, and the conditions of its claims."""

from collections.abc import Mapping, Sequence

from kvstore.course.experiments.search import Parts, Searches
from kvstore.course.questions import PredictionQuestion
from kvstore.model import Prediction

FREE = 1.5
"""Cores that a process must have been given, to show what a second one brings."""


def on_the_loop(parts: Parts) -> Prediction:
    """Return X in calls/s if every search keeps the one thread of the event loop."""
    return Prediction(
        1 / parts.search_s,
        "calls/s",
        f"a search keeps the thread for {1e3 * parts.search_s:.3g} ms: 1 / D",
        "event loop",
    )


def with_connections(parts: Parts, connections: int) -> Prediction:
    """Return X in calls/s with a thread for each call: c / D, or what all cores can do."""
    of_connections = connections / parts.search_s
    of_cores = parts.cores / (parts.search_s + parts.call_s)
    if of_connections < of_cores:
        reason = f"{connections} at once, {1e3 * parts.search_s:.3g} ms of CPU time each: c / D"
        return Prediction(of_connections, "calls/s", reason, "connections")
    reason = (
        f"{parts.cores} cores for {1e3 * parts.search_s:.3g} ms of search and"
        f" {1e3 * parts.call_s:.2g} ms of the call: cores / (D + D_call)"
    )
    return Prediction(of_cores, "calls/s", reason, "cores")


def in_python(parts: Parts) -> Prediction:
    """Return X in calls/s if a search keeps the interpreter lock to its end."""
    reason = f"one thread at a time runs Python, {1e3 * parts.python_s:.3g} ms each: 1 / D"
    return Prediction(1 / parts.python_s, "calls/s", reason, "interpreter")


PREDICTIONS = (
    PredictionQuestion(
        "07.search_loop",
        "An event loop, 16 searches in flight: how many calls per second?",
        measured=lambda run, parts: run.answered_per_s,
        model=lambda run, parts: on_the_loop(parts),
    ),
    PredictionQuestion(
        "07.search_threads",
        "16 threads with a connection each, 16 searches in flight: how many calls per second?",
        measured=lambda run, parts: run.answered_per_s,
        model=lambda run, parts: with_connections(parts, 16),
    ),
)


def one_core(run: Searches) -> bool:
    """Whether the process kept one core busy at most; what gRPC's own threads need may add 0.3."""
    return run.cores_busy < 1.3


def same_work(runs: Sequence[Searches]) -> bool:
    """Whether a call cost about the same CPU time in all runs: within a factor of 1.6."""
    costs_s = [run.cpu_s / run.answered for run in runs]
    return max(costs_s) < 1.6 * min(costs_s)


def has_free_cores(given: Sequence[float]) -> bool:
    """Whether the machine gave this process more than one core, before the runs and after."""
    return min(given) > FREE


def threads_gain(runs: Mapping[str, Searches], loop: str, threads: str) -> bool:
    """Whether the threads had at least 1.2 times the throughput of the event loop."""
    return runs[threads].answered_per_s > 1.2 * runs[loop].answered_per_s
