"""waiting.py: exact tables, identities, and queues that are played call by call."""

import itertools
import math
import random

import numpy as np
import pytest

from kvstore.model import Station, waiting
from kvstore.model.simulate import Pool, open_loop
from kvstore.model.waiting import EVEN, RANDOM

ONE = Station("disk", 0.010)


@pytest.mark.parametrize(
    ("queue", "busy", "servers", "arrival_c2", "service_c2", "residence_in_demands"),
    [
        ("M/M/1", 0.5, 1, RANDOM, RANDOM, 2.0),
        ("M/M/1", 0.8, 1, RANDOM, RANDOM, 5.0),
        ("M/M/1", 0.9, 1, RANDOM, RANDOM, 10.0),
        ("M/D/1", 0.5, 1, RANDOM, EVEN, 1.5),
        ("M/D/1", 0.8, 1, RANDOM, EVEN, 3.0),
        ("M/G/1", 0.8, 1, RANDOM, 4.0, 11.0),
        ("M/G/1", 0.5, 1, RANDOM, 4.0, 3.5),
        ("D/D/1", 0.8, 1, EVEN, EVEN, 1.0),
        ("M/M/2", 0.8, 2, RANDOM, RANDOM, 1 / (1 - 0.64)),  # R = D / (1 - U²)
        ("M/M/2", 0.5, 2, RANDOM, RANDOM, 1 / (1 - 0.25)),
        ("M/M/3", 2 / 3, 3, RANDOM, RANDOM, 1 + 4 / 9),  # L = 26/9 by hand, so R = L / 2
    ],
)
def test_mean_residence_time_by_the_table(
    queue, busy, servers, arrival_c2, service_c2, residence_in_demands
):
    station = Station(queue, 0.010, servers)
    arrivals = busy * station.most_per_s
    found = waiting.residence(arrivals, station, arrival_c2=arrival_c2, service_c2=service_c2)

    assert 0.010 * residence_in_demands == pytest.approx(found.value)


def test_the_percentiles_are_those_of_an_exponential_time():
    mean_s = waiting.residence(80, ONE).value

    assert waiting.percentile(1 - 1 / math.e, 80, ONE).value == pytest.approx(mean_s)
    assert waiting.percentile(0.99, 80, ONE).value == pytest.approx(4.605 * mean_s, rel=1e-3)
    assert waiting.percentile(0, 80, ONE).value == 0


def test_without_end_at_capacity():
    assert math.inf == waiting.residence(100, ONE).value == waiting.percentile(0.5, 200, ONE).value


# ---- played call by call ------------------------------------------------------------------------

DRAWN = {  # the times of a service with mean 1, and their variability
    "exponential": (lambda rng, count: rng.exponential(1.0, count), 1.0),
    "constant": (lambda rng, count: np.ones(count), 0.0),
    "two_point": (lambda rng, count: rng.choice([1 / 3, 7.0], count, p=[0.9, 0.1]), 4.0),
}


def residences(gaps: np.ndarray, services: np.ndarray) -> np.ndarray:
    """Residence times behind one server, by Lindley's recursion: the past maximum of a walk."""
    steps = np.concatenate([[0.0], services[:-1] - gaps[1:]])
    walk = np.cumsum(steps)
    return walk - np.minimum.accumulate(np.minimum(walk, 0.0)) + services


@pytest.mark.parametrize(
    ("kind", "busy"), [("exponential", 0.5), ("exponential", 0.8), ("constant", 0.8),
                       ("two_point", 0.5), ("two_point", 0.7)],
)  # fmt: skip
def test_random_arrivals_wait_as_long_as_the_law_says(kind, busy):
    """Four million calls: the law within 1 % in the mean, and p99 where it has a law."""
    rng = np.random.default_rng(8)
    draw, c2 = DRAWN[kind]
    count = 4_000_000
    played = residences(rng.exponential(1 / busy, count), draw(rng, count))
    station = Station("server", 1.0)

    law = waiting.residence(busy, station, service_c2=c2).value
    assert law == pytest.approx(played.mean(), rel=0.01)
    if kind == "exponential":
        p99 = waiting.percentile(0.99, busy, station).value
        assert p99 == pytest.approx(np.quantile(played, 0.99), rel=0.02)


def test_several_servers_wait_as_long_as_erlang_says():
    """Three threads in simpy, 30,000 calls."""
    rng = random.Random(5)
    due_s = itertools.accumulate(rng.expovariate(2.0) for _ in range(30_000))
    times_s = (rng.expovariate(1.0) for _ in itertools.count())
    played = open_loop(
        due_s, Pool(threads=3, disk_s=1.0), deadline_s=math.inf, disk_times_s=times_s
    )

    mean = sum(call.ended_s - call.due_s for call in played.calls) / len(played.calls)
    assert waiting.residence(2.0, Station("pool", 1.0, 3)).value == pytest.approx(mean, rel=0.03)
