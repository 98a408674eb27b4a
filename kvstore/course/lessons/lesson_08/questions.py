"""What lesson 08 asks, and the figures of its runs."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from kvstore import numbers
from kvstore.course.questions import (
    Option,
    PredictionQuestion,
    QuizQuestion,
    computed,
    number_question,
)
from kvstore.measure import Run, latencies_s
from kvstore.model import Prediction, Station, waiting
from kvstore.model.waiting import EVEN, RANDOM

C2 = {"fixed": EVEN, "two_point": 4.0, "exponential": RANDOM, "heavy_tailed": 4.0}
"""c² of the service times, for each of the server's `disk_times`."""
DISK_S = 0.020
"""The mean disk time of the lesson."""
BUSY = 0.8
"""U of the runs that are predicted as one number."""


def mean_ms(run: Run) -> float:
    """Mean time from the due time of a call to its reply, of the calls that were not refused."""
    return 1e3 * float(latencies_s(run).mean())


def most_in_flight_s(run: Run) -> float:
    """The time in the run at which most calls were in flight."""
    sent_s, done_s = np.sort(run.records["sent_s"]), np.sort(run.records["done_s"])
    in_flight = np.arange(1, len(sent_s) + 1) - np.searchsorted(done_s, sent_s, side="right")
    return float(sent_s[in_flight.argmax()]) if len(sent_s) else 0.0  # `replay` refuses it


def law(busy: float, service_s: float, disk_times: str, disk_s: float | None = None) -> Prediction:
    """R in seconds at one worker that random arrivals keep busy for this share of the time.

    Only the disk time varies, and the rest of the service time is constant: `disk_s` is the mean
    disk time, or all of it.
    """
    station = Station("worker", service_s)
    varies = 1.0 if disk_s is None else disk_s / service_s
    return waiting.residence(busy / service_s, station, service_c2=C2[disk_times] * varies**2)


def law_ms(busy: float, service_s: float, disk_times: str) -> float:
    """R in milliseconds for the lesson's disk of 20 ms."""
    return 1e3 * law(busy, service_s, disk_times, disk_s=DISK_S).value


def simulated_means_s(run: Run, service_s: float, *, seeds: int = 500) -> np.ndarray[Any, Any]:
    """Mean response times of so many simulated runs like this one: one worker, `BUSY`, its calls.

    The queue is written with numpy, for all seeds at once: call n ends when the worker has done all
    the work since the last time that it was idle.
    """
    calls, settings = len(run.records), run.server.settings
    rng = np.random.default_rng()
    arrivals = np.cumsum(rng.exponential(service_s / BUSY, (seeds, calls)), axis=1)
    size = seeds, calls
    drawn = {
        "fixed": np.ones(size),
        "exponential": rng.exponential(1.0, size),
        "two_point": rng.choice([1 / 3, 7.0], size, p=[0.9, 0.1]),
    }[settings.disk_times]
    mean_s = settings.read_delay_s
    work = service_s - mean_s + mean_s * drawn
    done = np.cumsum(work, axis=1)
    ends = done + np.maximum.accumulate(arrivals - (done - work), axis=1)
    return np.asarray((ends - arrivals).mean(axis=1))


def _of_one_worker(service_s: float, run: Run) -> Prediction:
    """R of a long run, and where 90 % of the runs as short as this one lie."""
    settings = run.server.settings
    kind = settings.disk_times
    found = law(BUSY, service_s, kind, disk_s=settings.read_delay_s)
    low, high = np.percentile(simulated_means_s(run, service_s), [5, 95])
    waits = numbers.seconds(found.value - service_s)
    reason = (
        f"{numbers.seconds(service_s)} of service and {waits} of waiting in a long run; of runs"
        f" with {numbers.count(len(run.records), 'call')}, 90 % have a mean from"
        f" {numbers.seconds(float(low))} to {numbers.seconds(float(high))}"
    )
    return replace(found, reason=reason, interval=(float(low), float(high)))


def calls_needed(busy: float = BUSY, within: float = 0.1) -> Prediction:
    """Calls after which 90 % of the runs of an M/M/1 queue have a mean within a share of R.

    From the asymptotic variance of the mean waiting time: W. Whitt, "Planning queueing
    simulations", Management Science 35 (1989).
    """
    wait_variance = busy * (2 + 5 * busy - 4 * busy**2 + busy**3) / (1 - busy) ** 4
    runs = wait_variance * (1 - busy) ** 2
    reason = (
        f"the mean of n calls varies by {numbers.number(math.sqrt(runs))}/√n of R; that of n"
        " independent ones by 1/√n"
    )
    return Prediction(runs * (NINETY / within) ** 2, "calls", reason)


NINETY = 1.645
"""90 % of a normal distribution lie within so many standard deviations."""

PREDICTIONS = (
    PredictionQuestion(
        "08.random",
        "The worker is busy for 80 % of the time, each call takes it 20 ms, and calls arrive at "
        "random: how many ms from the due time of a call to its reply, on average?",
        unit="ms",
        measured=lambda service_s, run: mean_ms(run),
        model=_of_one_worker,
        main=True,
    ),
    PredictionQuestion(
        "08.calls",
        "U is 80 %, service times are exponential: how many calls until 90 % of the runs have a"
        " mean within 10 % of the law?",
        unit="calls",
        measured=lambda needed: needed,
        model=lambda needed: calls_needed(),
        main=True,
    ),
    PredictionQuestion(
        "08.long_jobs",
        "Nine of ten calls need a third of the mean disk time, and one needs seven times the mean."
        " U is 80 %: how many ms does a call take on average?",
        unit="ms",
        measured=lambda service_s, run: mean_ms(run),
        model=_of_one_worker,
    ),
    # further lessons
    computed(
        "08.newest_first",
        "The worker takes the call that came last: how many ms does a call take on average?",
        "ms",
    ),
    computed(
        "08.short_first",
        "The worker takes the shortest call: how many ms does a long call take on average?",
        "ms",
    ),
    computed(
        "08.pieces",
        "A long call is cut into seven pieces, and queues again for each: how many ms does a long "
        "call take on average?",
        "ms",
    ),
)

QUIZ = (
    number_question(
        "08.half_idle",
        "Random arrivals, exponential service times of {s} ms on average. U rises from 80 % to {u}"
        " %. What is the new mean time of a call?",
        "ms",
        (lambda s, u: 100 * s / (100 - u), "R = S/(1 - U): the idle share is what counts."),
        (lambda s, u: s, "Random arrivals queue below 100 %, too."),
        (lambda s, u: 5 * s, "That is the time at 80 %: S divided by an idle share of 0.2."),
        (lambda s, u: 100 * s / u, "You divide by the busy share. A call waits for the idle one."),
        s=(10, 15, 30),
        u=(90, 92, 95),
    ),
    QuizQuestion(
        "08.same_mean",
        "A release makes most calls faster and a few much slower. The mean service time and the "
        "arrival rate stay. What happens to the mean time of a call?",
        (
            Option("It stays: the mean did.", why="The wait grows with c², at the same mean."),
            Option(
                "It rises.",
                right=True,
                why="c_s² has grown, and with it the wait: short calls wait behind the long ones.",
            ),
            Option("It falls: most calls are faster.", why="They wait behind the slow ones."),
        ),
    ),
    QuizQuestion(
        "08.even_test",
        "A load test sends evenly spaced calls and finds R = S up to U = 95 %. What does "
        "it say about users who arrive at random?",
        (
            Option(
                "Nearly nothing: it left out the bursts.",
                right=True,
                why="c_a² was 0 in the test. For the users it is about 1.",
            ),
            Option("That 95 % is safe for them.", why="R is many times S at U = 95 % for them."),
            Option(
                "That the service times of all calls are constant.",
                why="Few of the calls are longer than the gap between two arrivals: no more.",
            ),
        ),
    ),
    QuizQuestion(
        "08.below_20_ms",
        "One worker, random arrivals, exponential service times of 10 ms on average, U = 80 %. The "
        "mean time of a call is 50 ms, and has to be below 20 ms. Which change alone is enough?",
        (
            Option(
                "a worker that needs 8 ms in place of 10 ms",
                why="U becomes 64 %, and the mean 8 / 0.36 = 22 ms. Nearly.",
            ),
            Option(
                "a service time that is 10 ms for every call",
                why="It halves the wait of 40 ms. 20 ms of wait and 10 ms of service remain.",
            ),
            Option(
                "half of the calls: 40 in place of 80/s",
                right=True,
                why="U is 40 %, and the mean is 10 / 0.6 = 17 ms.",
            ),
        ),
    ),
)
