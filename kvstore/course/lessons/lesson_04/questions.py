"""What lesson 04 and its further lessons ask."""

from kvstore.course.questions import Option, PredictionQuestion, QuizQuestion, computed
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


PREDICTIONS = (
    PredictionQuestion(
        "04.pool",
        "32 calls in flight, 8 threads, 20 ms for a read: how many calls per second?",
        measured=lambda run: run,
        model=lambda run: bounds.closed_loop(run.in_flight, [pool(run)]),
        main=True,
    ),
    PredictionQuestion(
        "04.lock_threads",
        "32 threads in place of 2: how many times the throughput?",
        unit="times",
        measured=times_faster,
        model=bound_times_faster,
    ),
    PredictionQuestion(
        "04.innocent_read",
        "How many seconds does a read take, on average?",
        unit="s",
        measured=read_s,
        model=read_behind_the_pool,
    ),
    PredictionQuestion(
        "04.counter",
        "4 clients add 10 each to a counter, at the same time. What does the store have in the "
        "end?",
        unit="adds",
        measured=lambda stored: float(stored),
        model=lambda stored: Prediction(
            10.0,
            "adds",
            "all clients read the same number and write the next one: one step for each round",
        ),
    ),
    # further/04_lost_update
    computed("04.server_lost", "Of four races, how many can no order explain?", "races"),
    computed("04.disk_uses", "Eight updates of one key: how often does the disk work?", "times"),
)

QUIZ = (
    QuizQuestion(
        "04.double",
        "The queue of the pool is long, so you double the threads. The queue is empty now, and "
        "the throughput is the same. Why?",
        (
            Option("The new threads need time to start.", why="A thread starts in microseconds."),
            Option(
                "The calls now wait at the bottleneck, which comes later.",
                right=True,
                why="The bottleneck sets the throughput. The other stations only decide where "
                "calls wait.",
            ),
            Option(
                "Too many threads slow each other down, as they switch all the time.",
                why="That can happen where threads compute. Here the throughput did not fall: it "
                "did not change at all.",
            ),
        ),
    ),
    QuizQuestion(
        "04.busy_threads",
        "A pool answers 400 calls/s. Each call needs a thread for 20 ms. How many threads are "
        "busy on average?",
        (
            Option(
                "8",
                right=True,
                why="Little's law for the threads: L = X · S = 400/s · 0.020 s = 8.",
            ),
            Option("20", why="20 is the number of milliseconds. Multiply it by the throughput."),
            Option(
                "It depends on the number of calls in flight.",
                why="Calls that wait for a thread do not make a thread busy. X and S are enough.",
            ),
        ),
    ),
    QuizQuestion(
        "04.reader",
        "Writers of one hot key make all calls slow, also reads, which take no lock. What makes "
        "the reads fast again?",
        (
            Option(
                "A lock that readers may share.",
                why="Readers take no lock already. They wait for a thread, before any lock.",
            ),
            Option(
                "A faster network.",
                why="The reads wait in the server: for a thread that a waiting writer occupies.",
            ),
            Option(
                "A second pool, for reads alone.",
                right=True,
                why="Then a waiting writer occupies no thread that a read needs. An event loop "
                "has the same effect.",
            ),
        ),
    ),
)
