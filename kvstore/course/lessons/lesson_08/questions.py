"""What lesson 08 asks, and the figures of its runs."""

import math
import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import repeat

import numpy as np

from kvstore import numbers
from kvstore.course.questions import Curve, Option, PredictionQuestion, QuizQuestion
from kvstore.measure import Run, latencies_s
from kvstore.model import Prediction, Station, waiting
from kvstore.model.simulate import Pool, open_loop
from kvstore.model.waiting import EVEN, RANDOM
from kvstore.server.store import DRAWS

C2 = {"fixed": EVEN, "two_point": 4.0, "exponential": RANDOM, "heavy_tailed": 4.0}
"""c² of the service times, for each of the server's `disk_times`."""
BUSY = 0.8
"""U of the runs that are predicted as one number."""


def mean_ms(run: Run) -> float:
    """Mean time from the due time of a call to its reply, of the calls that were not refused."""
    return 1e3 * float(latencies_s(run).mean())


def p99_ms(run: Run) -> float:
    """The time within which 99 % of the answered calls end, from their due time."""
    return 1e3 * run.latency_s(0.99)


def most_in_flight_s(run: Run) -> float:
    """The time in the run at which most calls were in flight."""
    sent_s, done_s = np.sort(run.records["sent_s"]), np.sort(run.records["done_s"])
    in_flight = np.arange(1, len(sent_s) + 1) - np.searchsorted(done_s, sent_s, side="right")
    return float(sent_s[in_flight.argmax()])


def law(busy: float, service_s: float, disk_times: str, workers: int = 1) -> Prediction:
    """R in seconds for random arrivals at a rate of `busy` divided by the service time of a call.

    With several workers each of them is busy for `busy / workers` of the time.
    """
    station = Station("worker" if workers == 1 else "workers", service_s, workers)
    return waiting.residence(busy / service_s, station, service_c2=C2[disk_times])


def random_arrivals(service_s: float) -> Prediction:
    """R for random arrivals and constant times, with a reason that leaves the later rounds open."""
    found = law(BUSY, service_s, "fixed")
    waits = numbers.seconds(found.value - service_s)
    reason = f"{numbers.seconds(service_s)} of service, and {waits} of waiting for others"
    return replace(found, reason=reason)


def played_ms(run: Run, service_s: float) -> list[float]:
    """The residence times of a queue with the arrivals and the disk times of the run.

    A worker takes the disk time of the call, and what it needs besides: that is what the measured
    service time has more than the mean disk time.
    """
    settings = run.server["settings"]
    rng = random.Random(settings["disk_seed"])
    draw = DRAWS.get(settings["disk_times"])
    drawn = (draw(rng) for _ in repeat(None)) if draw else repeat(1.0)
    mean_s = settings["read_delay_s"]
    calls = open_loop(
        sorted(run.records["due_s"]),
        Pool(threads=settings["threads"], disk_s=mean_s),
        deadline_s=math.inf,
        disk_times_s=(each * mean_s + service_s - mean_s for each in drawn),
    ).calls
    return [1e3 * (each.ended_s - each.due_s) for each in calls]


def _curve(service_s: float, runs: Mapping[float, Run]) -> dict[float, float]:
    steps = (n / 20 for n in range(1, round(20 * max(runs)) + 1))
    return {busy: 1e3 * law(busy, service_s, "exponential").value for busy in steps}


PREDICTIONS = (
    PredictionQuestion(
        "08.random",
        "The worker is busy for 80 % of the time, each call takes it 20 ms, and calls arrive at "
        "random: how many ms from the arrival of a call to its reply, on average?",
        unit="ms",
        measured=lambda service_s, run: mean_ms(run),
        model=lambda service_s, run: random_arrivals(service_s),
        main=True,
    ),
    Curve(
        "08.curve",
        "How many ms does a call take on average, at each utilisation?",
        unit="ms",
        over="utilisation, U",
        xs=(0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9),
        most=400,
        measured=lambda service_s, runs: {busy: mean_ms(run) for busy, run in runs.items()},
        model=_curve,
    ),
    PredictionQuestion(
        "08.long_jobs",
        "Nine of ten calls take a third of S, and one takes seven times S. U is 80 %: how many ms "
        "does a call take on average?",
        unit="ms",
        measured=lambda service_s, run: mean_ms(run),
        model=lambda service_s, run: law(BUSY, service_s, "two_point"),
    ),
    PredictionQuestion(
        "08.second_worker",
        "The same calls with a second worker: how many ms does a call take on average?",
        unit="ms",
        measured=lambda service_s, run: mean_ms(run),
        model=lambda service_s, run: law(BUSY, service_s, "two_point", workers=2),
    ),
)

QUIZ = (
    QuizQuestion(
        "08.half_idle",
        "Random arrivals, exponential service times. U rises from 80 % to 90 %. The mean time of a "
        "call ...",
        (
            Option("... rises by about a tenth.", why="U does. But R = S/(1 - U)."),
            Option(
                "... doubles.",
                right=True,
                why="The idle share, 1 - U, is halved: from 5 S to 10 S.",
            ),
            Option("... does not change below 100 %.", why="Random arrivals queue below 100 %."),
        ),
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
        "A load test sends its calls at even distances and finds R = S up to U = 95 %. What does "
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
                why="Few of the calls are longer than the distance of two arrivals: no more.",
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
