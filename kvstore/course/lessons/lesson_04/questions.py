"""What lesson 04 and its further lessons ask."""

from typing import Final

from kvstore.course.questions import Answer
from kvstore.measure import Run
from kvstore.model import Prediction, Station, bounds


def pool(run: Run) -> Station:
    """Return the pool of the run's server as a station: one server for each thread."""
    settings = run.server.settings
    return Station("thread pool", settings.read_delay_s, settings.threads)


def hottest_key(run: Run) -> Station:
    """Return the lock of the only key that is written: its demand is averaged over all calls."""
    write_s = run.server.settings.write_delay_s
    return Station("hottest key", run.mix()["update"] * write_s)


def read_s(run: Run) -> float:
    """Return the mean residence time of a read in seconds, without the first N calls."""
    calls = run.calls[run.in_flight :]
    return float(calls["residence_s"][calls["operation"] == "retrieve"].mean())


def read_behind_the_pool(run: Run) -> Prediction:
    """Return how long a read waits for a thread: N - c calls before it leave at the key's rate."""
    in_the_queue = run.in_flight - run.server.settings.threads
    return bounds.residence(in_the_queue, [hottest_key(run)])


def times_faster(few: Run, many: Run) -> float:
    """Return the throughput with many threads over that with few."""
    return many.throughput_per_s / few.throughput_per_s


def bound_times_faster(few: Run, many: Run) -> Prediction:
    """Return the ratio of the two bounds: 1/S in both, because the lock is the bottleneck."""
    values = []
    for run in (few, many):
        lock = Station("global lock", run.server.settings.read_delay_s)
        values.append(bounds.closed_loop(run.in_flight, [lock, pool(run)]).value)
    return Prediction(values[1] / values[0], "times", "1/S in both runs", "global lock")


ANSWERS: Final = {
    "04.pool": Answer(
        lambda run: run.throughput_per_s, lambda run: bounds.closed_loop(run.in_flight, [pool(run)])
    ),
    "04.lock_threads": Answer(times_faster, bound_times_faster),
    "04.innocent_read": Answer(read_s, read_behind_the_pool),
    "04.counter": Answer(
        lambda stored: float(stored),
        lambda stored: Prediction(
            10.0,
            "adds",
            "all clients read the same number and write the next one: one step for each round",
        ),
    ),
}
