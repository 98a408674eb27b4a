"""simulate.py: against numbers worked out by hand, the bounds, MVA, and its own trace.

Callers who join one after the other, worked out on paper.
"""

import itertools
import math
import random

import pytest

from kvstore.model import Prediction, Station, bounds, scaling
from kvstore.model.simulate import LOCKINGS, Service, Simulated, closed_loop, joined
from kvstore.server.store import LOCKS

SAME = {"read_delay_s": 0.040, "write_delay_s": 0.040}
"""All calls alike and constant: then every number can be worked out."""


def limits(service: Service) -> list[Station]:
    """The stations that could be the bottleneck, each with the time for which a call holds it."""
    stations = [Station("cpu", service.cpu_s, service.cores)]
    if service.locking == "global":
        stations.append(Station("global lock", service.disk_s))
    if service.locking == "per_key_held":
        keys, writes = (service.keys, service.zipf_exponent), 1 - service.read_share
        stations.append(
            scaling.hottest_lock(*keys, hold_s=service.write_delay_s, locking_share=writes)
        )
    # Last: if the pool and a lock have the same limit, the lock is the cause.
    return [*stations, Station("pool", service.busy_s, service.threads)]


def bound(in_flight: int, service: Service, think_s: float = 0.0) -> Prediction:
    """The asymptotic bound of the loop that `closed_loop` simulates."""
    found = (
        bounds.closed_loop(
            in_flight,
            [limit, Station("the rest", max(0.0, service.busy_s - limit.demand_s), math.inf)],
            think_s,
        )
        for limit in limits(service)
    )
    return min(found, key=lambda prediction: prediction.value)


# ---- by hand -------------------------------------------------------------------------------


def test_throughput_by_hand(subtests):
    for per_s, in_flight, settings in [
        (25.0, 1, {}),
        (25.0, 100, {}),  # behind one lock
        (2500.0, 100, {"locking": "per_key"}),  # source 1, step 03
        (2500.0, 100, {"locking": "per_key_held", "read_share": 1.0}),  # readers take no lock
        (25.0, 100, {"locking": "per_key_held", "read_share": 0.0, "keys": 1}),
        (200.0, 100, {"locking": "per_key", "threads": 8}),
        (125.0, 5, {"locking": "per_key", "threads": 8}),
        (1000.0, 100, {"locking": "per_key", "cpu_s": 0.001}),
        (2000.0, 100, {"locking": "per_key", "cpu_s": 0.001, "cores": 2}),
        (20.0, 1, {"cpu_s": 0.010}),
        (25.0, 100, {"cpu_s": 0.010}),
    ]:
        with subtests.test(per_s=per_s, in_flight=in_flight, settings=settings):
            service = Service(**SAME, **settings)

            assert per_s == pytest.approx(
                closed_loop(in_flight, service, calls=1_000).throughput_per_s
            )
            assert per_s == pytest.approx(bound(in_flight, service).value)


def test_think_time_is_not_residence_time():
    """Ten callers with 60 ms of think time and 40 ms on the disk make 100 calls per second."""
    service = Service(**SAME, locking="per_key")

    played = closed_loop(10, service, calls=1_000, think_s=0.060)
    assert 100.0 == pytest.approx(played.throughput_per_s)
    assert 0.040 == pytest.approx(played.residence_s)


def test_where_calls_wait_by_hand(subtests):
    for station_s, settings in [
        # 20 callers, 40 ms each behind one lock: 800 ms, of which 40 on the disk
        ({"pool": 0.0, "cpu": 0.0, "lock": 0.760, "disk": 0.040}, {}),
        # 5 threads: the other 15 wait for a thread instead
        ({"pool": 0.600, "cpu": 0.0, "lock": 0.160, "disk": 0.040}, {"threads": 5}),
        (
            {"pool": 0.120, "cpu": 0.0, "lock": 0.0, "disk": 0.040},
            {"threads": 5, "locking": "per_key"},
        ),
        # the processor does one in 4 ms, so one returns from the disk as 10 are on it
        (
            {"pool": 0.0, "cpu": 0.040, "lock": 0.0, "disk": 0.040},
            {"cpu_s": 0.004, "locking": "per_key"},
        ),
    ]:
        with subtests.test(station_s=station_s, settings=settings):
            played = closed_loop(20, Service(**SAME, **settings), calls=2_000)

            assert station_s == pytest.approx(played.station_s, abs=1e-9)


def test_a_mix_of_reads_and_writes_is_drawn():
    """A quarter at 10 ms and the rest at 50: 25 a second behind one lock, to 2 %."""
    played = closed_loop(10, Service(), calls=10_000)

    assert 25.0 == pytest.approx(played.throughput_per_s, rel=0.02)
    assert 25.0 == pytest.approx(bound(10, Service()).value)


# ---- against the other models --------------------------------------------------------------


@pytest.mark.slow
def test_as_mva_says_where_times_are_exponential(subtests):
    """A processor, a lock that is nearly as slow, and thinking: product form, so exact."""
    for think_s in [0.0, 0.030]:
        for in_flight in [1, 2, 5, 12]:
            with subtests.test(think_s=think_s, in_flight=in_flight):
                service = Service(
                    read_delay_s=0.010, write_delay_s=0.010, cpu_s=0.008, exponential=True
                )
                played = closed_loop(in_flight, service, calls=20_000, think_s=think_s)
                exact = bounds.mean_values(
                    in_flight, [Station("cpu", 0.008), Station("lock", 0.010)], think_s
                )
                at_lock_s = played.station_s["lock"] + played.station_s["disk"]

                assert exact.throughput_per_s == pytest.approx(played.throughput_per_s, rel=0.03)
                assert exact.residence_s["cpu"] == pytest.approx(played.station_s["cpu"], rel=0.08)
                assert exact.residence_s["lock"] == pytest.approx(at_lock_s, rel=0.08)


@pytest.mark.slow
def test_a_lock_for_each_key_is_a_station_for_each_key(subtests):
    for in_flight in [3, 12]:
        for exponent in [0.0, 1.0]:
            with subtests.test(in_flight=in_flight, exponent=exponent):
                service = Service(
                    locking="per_key_held",
                    read_share=0.0,
                    keys=6,
                    zipf_exponent=exponent,
                    exponential=True,
                )
                played = closed_loop(in_flight, service, calls=20_000)
                locks = [
                    Station(f"key {number}", 0.050 * share)
                    for number, share in enumerate(scaling.shares(6, exponent))
                ]

                assert bounds.mean_values(in_flight, locks).throughput_per_s == pytest.approx(
                    played.throughput_per_s, rel=0.03
                )


def test_the_hottest_key_binds_when_many_wait():
    """Two thirds of the writes for one of two keys: 1 / (2/3 * 50 ms) = 30 a second."""
    service = Service(locking="per_key_held", read_share=0.0, keys=2, zipf_exponent=1.0)
    played = closed_loop(60, service, calls=6_000)

    assert 30.0 == pytest.approx(played.throughput_per_s, rel=0.03)
    assert (30.0, "lock of the hottest key") == (
        pytest.approx(bound(60, service).value),
        bound(60, service).binds,
    )


@pytest.mark.slow
def test_never_above_the_bound(subtests):
    """Whatever the settings, within the 4 % that a drawn mix may be lucky."""
    for seed in range(12):
        with subtests.test(seed=seed):
            rng = random.Random(seed)
            service = Service(
                locking=rng.choice(LOCKINGS),
                threads=rng.choice([2, 8, math.inf]),
                read_share=rng.choice([0.0, 0.25, 0.9]),
                keys=rng.choice([1, 4, 50]),
                zipf_exponent=rng.choice([0.0, 1.0]),
                cpu_s=rng.choice([0.0, 0.001, 0.020]),
                cores=rng.choice([1, 2]),
                exponential=rng.random() < 0.5,
            )
            in_flight, think_s = rng.choice([1, 10, 60]), rng.choice([0.0, 0.1])
            played = closed_loop(in_flight, service, calls=6_000, think_s=think_s, seed=seed)

            assert played.throughput_per_s <= 1.04 * bound(in_flight, service, think_s).value


@pytest.mark.slow
def test_constant_times_lie_between_mva_and_the_bound():
    """Why MVA is too careful about our disk, and the bound too bold about a drawn key."""
    settings = {"locking": "per_key_held", "read_share": 0.0, "keys": 6}
    constant = closed_loop(6, Service(**settings), calls=20_000).throughput_per_s
    varying = bounds.mean_values(
        6, [Station(f"key {n}", 0.050 / 6) for n in range(6)]
    ).throughput_per_s

    assert 1.03 * varying < constant < 0.97 * bound(6, Service(**settings)).value


def test_the_bound_is_that_of_the_stations_where_no_call_holds_two():
    service = Service(**SAME, cpu_s=0.001, locking="per_key")
    stations = [Station("cpu", 0.001), Station("disk", 0.040, math.inf)]
    for in_flight in (1, 40, 42, 200):
        expected = bounds.closed_loop(in_flight, stations, 0.010)
        found = bound(in_flight, service, 0.010)

        assert (expected.value, expected.binds) == (pytest.approx(found.value), found.binds)


# ---- its own trace -------------------------------------------------------------------------


def mean_inside(played: Simulated, enter: int, leave: int) -> float:
    """Time-average of the calls between two stamps, from a walk along all their events."""
    moments = sorted(
        (min(max(call[stamp], played.begin_s), played.end_s), change)
        for call in played.calls
        for stamp, change in ((enter, 1), (leave, -1))
    )
    inside, area, last_s = 0, 0.0, played.begin_s
    for moment_s, change in moments:
        area += inside * (moment_s - last_s)
        inside, last_s = inside + change, moment_s
    assert inside == 0
    return area / (played.end_s - played.begin_s)


BUSY = Service(threads=12, cpu_s=0.008, locking="per_key_held", keys=5, zipf_exponent=1.0)


def test_littles_law_holds_at_each_place(subtests):
    """L counted moment by moment, lambda and W call by call."""
    for exponential in [False, True]:
        for place in range(4):
            with subtests.test(exponential=exponential, place=place):
                service = Service(**{**vars(BUSY), "exponential": exponential})
                played = closed_loop(20, service, calls=4_000)
                counted = played.throughput_per_s * list(played.station_s.values())[place]

                assert counted > 0.1
                assert mean_inside(played, place, place + 1) == pytest.approx(counted, rel=0.02)


def test_all_callers_are_somewhere():
    played = closed_loop(20, BUSY, calls=4_000)

    assert 20.0 == pytest.approx(mean_inside(played, 0, 4))
    assert 20.0 == pytest.approx(played.throughput_per_s * played.residence_s, rel=0.01)


def test_the_places_of_a_call_add_up_to_its_residence():
    played = closed_loop(20, BUSY, calls=1_000)

    assert played.residence_s == pytest.approx(sum(played.station_s.values()))
    for call in played.calls:
        assert sorted(call) == list(call)


def test_no_more_than_the_servers_are_ever_inside():
    played = closed_loop(20, BUSY, calls=1_000)
    for most, enter, leave in ((12, 1, 4), (20, 0, 4)):
        changes = sorted(
            (call[stamp], change)
            for call in played.calls
            for stamp, change in ((enter, 1), (leave, -1))
        )
        inside = itertools.accumulate(change for _, change in changes)
        assert most == max(inside)


def test_the_same_seed_plays_the_same():
    assert closed_loop(9, BUSY, calls=500) == closed_loop(9, BUSY, calls=500)
    assert closed_loop(9, BUSY, calls=500) != closed_loop(9, BUSY, calls=500, seed=2)


def test_the_warm_up_is_kept_and_not_counted():
    played = closed_loop(10, Service(**SAME), calls=1_000)

    assert 1_000 == len(played.counted)
    assert 100 + 1_000 + 9 == len(played.calls)  # the last ones in flight are played to their end


def test_it_speaks_as_the_other_models_do():
    prediction = closed_loop(20, Service(**SAME), calls=1_000).prediction

    assert "25 calls/s: 1,000 calls simulated, 95 % of their time at the lock" == str(prediction)


# ---- settings ------------------------------------------------------------------------------


def test_lockings_are_called_what_the_server_calls_them():
    assert set(LOCKINGS) <= set(LOCKS)


def test_a_service_that_makes_no_sense_is_refused(subtests):
    for named, settings in [
        ("locking must be one of .*, got 'none'", {"locking": "none"}),
        ("threads must be 1 or more, got 0", {"threads": 0}),
        ("cores must be 1 or more, got 0", {"cores": 0}),
        ("read_delay_s must be 0 or more seconds, got -1", {"read_delay_s": -1}),
        ("cpu_s must be 0 or more seconds, got nan", {"cpu_s": math.nan}),
        ("read_share must be from 0 to 1, got 2", {"read_share": 2}),
        ("keys must be 1 or more, got 0", {"keys": 0}),
        ("add up to 0 s, so throughput has no bound", {"read_delay_s": 0, "write_delay_s": 0}),
    ]:
        with subtests.test(named=named, settings=settings), pytest.raises(ValueError, match=named):
            Service(**settings)


def test_a_loop_that_makes_no_sense_is_refused(subtests):
    for named, in_flight, settings in [
        ("in_flight must be a whole number of 1 or more, got 0", 0, {}),
        ("in_flight must be a whole number of 1 or more, got 2.5", 2.5, {}),
        (r"calls must be in_flight .10. or more, got 5", 10, {"calls": 5}),
        ("think_s must be 0 or more seconds, got -1", 1, {"think_s": -1}),
    ]:
        with (
            subtests.test(named=named, in_flight=in_flight, settings=settings),
            pytest.raises(ValueError, match=named),
        ):
            closed_loop(in_flight, Service(), **settings)


def test_callers_who_join_later_call_later():
    """Two threads, 40 ms: a third caller comes when none is idle, and waits for 20 ms."""
    service = Service(read_delay_s=0.040, read_share=1.0, locking="per_key", threads=2)
    played = joined([0.0, 0.0, 0.020], service, 0.021)

    assert [(0, 0, 40), (0, 0, 40), (20, 40, 80)] == [
        (round(1e3 * call.sent_s), round(1e3 * call.began_s), round(1e3 * call.done_s))
        for call in played
    ]


def test_a_caller_that_has_joined_makes_calls_until_the_end():
    service = Service(read_delay_s=0.010, read_share=1.0, locking="per_key")
    played = joined([0.0, 0.025], service, 0.041, think_s=0.005)

    assert [0, 15, 25, 30, 40] == sorted(round(1e3 * call.sent_s) for call in played)


def test_a_climb_that_makes_no_sense_is_not_played(subtests):
    for wrong in [((), 1.0), ((-1.0,), 1.0), ((math.inf,), 1.0), ((0.0,), 0.0)]:
        with subtests.test(wrong=wrong):
            joins_s, until_s = wrong
            with pytest.raises(ValueError, match=r"must (be|have)"):
                joined(joins_s, Service(), until_s)
