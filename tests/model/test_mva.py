"""MVA in bounds.py: against numbers worked out by hand, every state of the network, bounds."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvstore.model import Station, bounds

CPU = Station("cpu", 0.010)
LOCK = Station("lock", 0.010)
SLOW = Station("slow lock", 0.020)
DISK = Station("disk", 0.040, math.inf)


def test_throughput_by_hand(subtests):
    for per_s, in_flight, stations, think_s in [
        (100.0, 1, [LOCK], 0.0),
        (100.0, 7, [LOCK], 0.0),  # one queue, nothing else: always busy
        (25.0, 1, [DISK], 0.0),
        (2500.0, 100, [DISK], 0.0),  # no queueing: N / D
        # Two equal queues: N / (N + 1) of what one could serve.
        (50.0, 1, [CPU, LOCK], 0.0),
        (200 / 3, 2, [CPU, LOCK], 0.0),
        (80.0, 4, [CPU, LOCK], 0.0),
        # 10 and 20 ms, 2 callers. With one: R = 30 ms, a third at the cpu, two at the lock;
        # so with two: 10 * 4/3 + 20 * 5/3 = 140/3 ms, and 2 / that.
        (2 / 0.140 * 3, 2, [CPU, SLOW], 0.0),
        # 10 ms behind a think of 10 ms. One: half at the lock. Two: 2 / (10 + 15 ms). Three:
        # 1.2 at the lock, 3 / (10 + 22 ms) is 1 + 1.2 services.
        (50.0, 1, [LOCK], 0.010),
        (80.0, 2, [LOCK], 0.010),
        (3 / 0.032, 3, [LOCK], 0.010),
    ]:
        with subtests.test(per_s=per_s, in_flight=in_flight, stations=stations, think_s=think_s):
            assert per_s == pytest.approx(
                bounds.mean_values(in_flight, stations, think_s).throughput_per_s
            )
            assert per_s == pytest.approx(
                bounds.exact_closed_loop(in_flight, stations, think_s).value
            )


def test_residence_and_queues_by_hand():
    """Two callers at 10 and 20 ms: the arriving one finds 1/3 and 2/3 of a call."""
    solution = bounds.mean_values(2, [CPU, SLOW])

    assert {"cpu": 0.040 / 3, "slow lock": 0.100 / 3} == pytest.approx(solution.residence_s)
    assert {"cpu": 4 / 7, "slow lock": 10 / 7} == pytest.approx(solution.in_flight)
    assert 0.140 / 3 == pytest.approx(solution.total_residence_s)


def test_calls_do_not_queue_at_a_delay_station():
    assert 0.040 == bounds.mean_values(500, [DISK, CPU]).residence_s["disk"]


def by_every_state(in_flight: int, stations: list[Station], think_s: float):
    """Throughput and calls at each station from the product form, state by state.

    The probability of a state is in proportion to the product of demand**n, divided by n! at a
    delay station (J. P. Buzen, Communications of the ACM 16, 1973).
    """

    def weighed(callers: int):
        places = len(stations) + 1
        for state in itertools.product(range(callers + 1), repeat=places):
            if sum(state) == callers:
                weight = think_s ** state[-1] / math.factorial(state[-1])
                for station, here in zip(stations, state, strict=False):
                    weight *= station.demand_s**here
                    if math.isinf(station.servers):
                        weight /= math.factorial(here)
                yield state, weight

    total = sum(weight for _, weight in weighed(in_flight))
    one_less = sum(weight for _, weight in weighed(in_flight - 1))
    queues = [
        sum(state[place] * weight for state, weight in weighed(in_flight)) / total
        for place in range(len(stations))
    ]
    return one_less / total, queues


DEMANDS_S = st.floats(0.001, 0.1)
STATIONS = st.lists(
    st.tuples(DEMANDS_S, st.sampled_from([1, math.inf])), min_size=1, max_size=3
).map(lambda drawn: [Station(f"station {n}", *each) for n, each in enumerate(drawn)])


@given(st.integers(1, 6), STATIONS, st.sampled_from([0.0, 0.05]))
def test_the_same_as_an_enumeration_of_all_states(in_flight, stations, think_s):
    per_s, queues = by_every_state(in_flight, stations, think_s)
    solution = bounds.mean_values(in_flight, stations, think_s)

    assert per_s == pytest.approx(solution.throughput_per_s, rel=1e-9)
    assert queues == pytest.approx(list(solution.in_flight.values()), rel=1e-9)


@given(st.floats(0.001, 0.01), st.floats(0.011, 0.02), DEMANDS_S)
@settings(max_examples=20)
def test_never_above_the_bound_and_close_to_it_far_from_the_knee(cpu_s, lock_s, disk_s):
    stations = [Station("cpu", cpu_s), Station("lock", lock_s), Station("disk", disk_s, math.inf)]
    values = [bounds.exact_closed_loop(number, stations).value for number in range(1, 400)]
    limits = [bounds.closed_loop(number, stations).value for number in range(1, 400)]

    assert all(value <= limit * (1 + 1e-12) for value, limit in zip(values, limits, strict=True))
    assert all(earlier < later * (1 + 1e-12) for earlier, later in itertools.pairwise(values))
    assert limits[0] == pytest.approx(values[0])
    assert limits[-1] == pytest.approx(values[-1], rel=0.001)


def test_calls_are_somewhere(subtests):
    """At a station or thinking, and at each of them L = X W."""
    for think_s in [0.0, 0.1]:
        for in_flight in [1, 5, 80]:
            with subtests.test(think_s=think_s, in_flight=in_flight):
                solution = bounds.mean_values(in_flight, [CPU, SLOW, DISK], think_s)
                thinking = solution.throughput_per_s * think_s

                assert in_flight == pytest.approx(sum(solution.in_flight.values()) + thinking)
                for name, here in solution.in_flight.items():
                    assert here == pytest.approx(
                        solution.throughput_per_s * solution.residence_s[name]
                    )


def test_the_reason_says_what_queueing_costs():
    prediction = bounds.exact_closed_loop(4, [CPU, LOCK])

    assert (
        "80 calls/s: 4 in flight, R = 50 ms with queueing: 80 % of the bound [cpu binds]"
    ) == str(prediction)


def test_what_cannot_be_solved_is_refused(subtests):
    for named, in_flight, stations, think_s in [
        ("in_flight must be a whole number of 1 or more, got 0", 0, [CPU], 0.0),
        ("in_flight must be a whole number of 1 or more, got 1.5", 1.5, [CPU], 0.0),
        ("got 8 for pool: use simulate", 1, [Station("pool", 0.01, 8)], 0.0),
        ("station names must be different", 1, [CPU, CPU], 0.0),
        ("add up to 0 s, so throughput has no bound", 1, [], 0.0),
        ("add up to 0 s, so throughput has no bound", 1, [Station("free", 0.0)], 0.0),
        ("think_s must be 0 or more seconds, got -1", 1, [CPU], -1.0),
    ]:
        with (
            subtests.test(named=named, in_flight=in_flight, stations=stations, think_s=think_s),
            pytest.raises(ValueError, match=named),
        ):
            bounds.mean_values(in_flight, stations, think_s)
