"""What the further lessons of lesson 04 ask, and the conditions of their claims."""

from kvstore.course.questions.base import PredictionQuestion
from kvstore.measure import Run
from kvstore.model import Prediction, Station, bounds, key_skew


def zipf_stations(run: Run) -> list[Station]:
    """Return the lock of the hottest key, and the disk of all other calls."""
    write_s = run.server["settings"]["write_delay_s"]
    share = key_skew.hottest_share(run.settings["workload"]["preload"], 1.0)
    return [
        Station("hottest key", share * write_s),
        Station("disk, of the others", (1 - share) * write_s, float("inf")),
    ]


def knee_of_the_pool(run: Run) -> Prediction:
    """Return N*: the number in flight from which on all threads of the pool are busy."""
    settings = run.server["settings"]
    pool = Station("thread pool", settings["read_delay_s"], settings["threads"])
    return Prediction(bounds.knee([pool]), "calls", "N* = S · c/S = c", "thread pool")


def server_cores(run: Run) -> float:
    """Return how many cores the server kept busy, on average over the run."""
    return run.server_cpu.total_s / run.window_s


def few_cores(run: Run) -> bool:
    """Whether the server kept less than two cores busy."""
    return server_cores(run) < 2


PREDICTIONS = (
    PredictionQuestion(
        "04.knee_pool",
        "8 threads: from how many calls in flight on does the queue grow?",
        unit="calls",
        measured=lambda few, many: many.throughput_per_s * few.mean_residence_s,
        model=lambda few, many: knee_of_the_pool(many),
    ),
    PredictionQuestion(
        "04.zipf",
        "16 keys after Zipf's law, 32 writes of 20 ms in flight: how many writes per second?",
        measured=lambda run: run,
        model=lambda run: bounds.closed_loop(run.in_flight, zipf_stations(run)),
        main=True,
    ),
    PredictionQuestion(
        "04.gil",
        "No disk: how many times the throughput of 1 thread do 32 threads reach?",
        unit="times",
        measured=lambda one, many: many.throughput_per_s / one.throughput_per_s,
        model=lambda one, many: Prediction(
            1.0, "times", "one thread at a time runs Python", "the GIL"
        ),
    ),
    PredictionQuestion(
        "04.server_lost",
        "Of four races, how many can no order explain?",
        unit="races",
        measured=lambda count: count,
    ),
    PredictionQuestion(
        "04.lost",
        "In how many of six orders is an increment lost?",
        unit="orders",
        measured=lambda count: count,
    ),
)
