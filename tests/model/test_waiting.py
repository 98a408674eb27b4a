"""waiting.py: the mean residence time by exact tables."""

import math

import pytest

from kvstore.model import Station, waiting
from kvstore.model.waiting import EVEN, RANDOM


@pytest.mark.parametrize(
    ("queue", "busy", "servers", "arrival_c2", "service_c2", "residence_in_demands"),
    [
        ("M/M/1", 0.8, 1, RANDOM, RANDOM, 5.0),
        ("M/D/1", 0.8, 1, RANDOM, EVEN, 3.0),
        ("M/G/1", 0.8, 1, RANDOM, 4.0, 11.0),
        ("D/D/1", 0.8, 1, EVEN, EVEN, 1.0),
        ("M/M/2", 0.8, 2, RANDOM, RANDOM, 1 / (1 - 0.64)),  # R = D / (1 - U²)
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


def test_without_end_at_capacity():
    assert math.inf == waiting.residence(100, Station("disk", 0.010)).value
