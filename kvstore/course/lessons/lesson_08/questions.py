"""What lesson 08 asks, and the figures of its runs."""

import math
from dataclasses import replace
from typing import Any, Final

import numpy as np

from kvstore import numbers
from kvstore.course.questions import Answer
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
    prediction = law(BUSY, service_s, kind, disk_s=settings.read_delay_s)
    low, high = np.percentile(simulated_means_s(run, service_s), [5, 95])
    waits = numbers.seconds(prediction.value - service_s)
    reason = (
        f"{numbers.seconds(service_s)} of service and {waits} of waiting in a long run; of runs"
        f" with {numbers.count(len(run.records), 'call')}, 90 % have a mean from"
        f" {numbers.seconds(float(low))} to {numbers.seconds(float(high))}"
    )
    return replace(prediction, reason=reason, interval=(float(low), float(high)))


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

ANSWERS: Final = {
    "08.random": Answer(lambda service_s, run: mean_ms(run), _of_one_worker),
    "08.calls": Answer(lambda needed: needed, lambda needed: calls_needed()),
    "08.long_jobs": Answer(lambda service_s, run: mean_ms(run), _of_one_worker),
}
