"""fleet.py, plan.py: the parts add up, and begin at an agreed time."""

import math
import threading
import time
from itertools import islice
from types import SimpleNamespace

import grpc
import pytest
from tables import for_each

from kvstore.client import fleet
from kvstore.client.client import Client
from kvstore.client.fleet import AgreedStart
from kvstore.client.monitor import Monitor
from kvstore.client.pacing import constant_rate
from kvstore.client.plan import SEEDS_APART, WHOLE, Part, parts
from kvstore.client.workload import Operations, crud, reads
from kvstore.measure.recorder import Sampler


@for_each("processes", [1, 2, 3, 32])
@for_each("whole", [32, 100, 3001])
def test_counts_add_up_and_differ_by_one_at_most(processes, whole):
    counts = [part.count(whole) for part in parts(processes)]

    assert whole == sum(counts)
    assert max(counts) - min(counts) <= 1


def test_due_times_are_dealt_out_in_turn():
    shares = [list(part.due_times(iter(range(8)))) for part in parts(3)]

    assert [[0, 3, 6], [1, 4, 7], [2, 5]] == shares


def test_together_they_keep_the_pace_of_the_whole():
    due_s = [[*islice(part.due_times(constant_rate(10)), 5)] for part in parts(2)]

    assert [*islice(constant_rate(10), 10)] == sorted(due_s[0] + due_s[1])


def test_each_draws_from_a_seed_of_its_own_and_knows_keys_of_its_own():
    whole = reads(seed=5, keys=7)
    drawn = [part.workload(whole) for part in parts(3)]

    assert [3, 2, 2] == [each.preload for each in drawn]
    assert [5, 5 + SEEDS_APART, 5 + 2 * SEEDS_APART] == [each.seed for each in drawn]
    assert whole is WHOLE.workload(whole)
    assert 1 == Part(3, 4).workload(reads(keys=2)).preload
    assert 0 == Part(3, 4).workload(crud()).preload


def test_no_two_generators_ask_for_one_key():
    """Not even with the same seed and salt, and not with keys of a single byte."""
    requested = [
        {Operations(crud(key_bytes_mean=1, sizes="fixed"), owns=part.owns).draw().key}
        | {
            operation.key
            for operation in Operations(
                reads(keys=500, key_bytes_mean=1, sizes="fixed"), owns=part.owns
            ).preloads()
        }
        for part in parts(4)
    ]

    assert sum(map(len, requested)) == len(set.union(*requested)) > 200


@for_each("processes", [0, -1, 33, 1.0, True, "2", None])
def test_numbers_that_make_no_sense_are_refused(processes):
    with pytest.raises(ValueError, match="a whole number of workers from 1 to 32"):
        parts(processes)


def test_a_gate_opens_for_all_at_the_agreed_time():
    ready: list[float] = []
    gates = [AgreedStart(lambda: ready.append(time.perf_counter())) for _ in range(2)]
    opened: list[float] = []
    waiting = [
        threading.Thread(target=lambda gate=gate: opened.append(gate.wait())) for gate in gates
    ]
    for thread in waiting:
        thread.start()
    opens_s = time.perf_counter() + 0.1
    for gate in gates:
        gate.open_at(opens_s)
    for thread in waiting:
        thread.join(5)

    assert [opens_s, opens_s] == opened
    assert 2 == len(ready)
    assert time.perf_counter() >= opens_s
    assert all(gate.late_s >= 0 for gate in gates)


def test_a_message_that_comes_after_the_agreed_time_makes_the_worker_late():
    gate = AgreedStart()
    gate.open_at(time.perf_counter() - 0.5)
    gate.wait()

    assert 0.5 <= gate.late_s < 30


@for_each(
    ("ahead_s", "trips_s"),
    [(0.0, [0.002, 0.001, 0.003]), (1e6, [0.004, 0.002]), (-50.0, [0.0])],
)
def test_the_difference_of_two_clocks_is_known_to_half_of_the_shortest_trip(
    ahead_s, trips_s, monkeypatch
):
    """The clock is read at the very end of each trip: the worst case."""
    now_s = [100.0]
    monkeypatch.setattr(fleet, "time", SimpleNamespace(perf_counter=lambda: now_s[0]))
    trips = iter(trips_s)

    def read() -> float:
        now_s[0] += next(trips)
        return now_s[0] + ahead_s

    found = fleet.compare(read, rounds=len(trips_s))

    assert min(trips_s) / 2 == pytest.approx(found.error_s)
    assert abs(found.ahead_s - ahead_s) <= found.error_s * (1 + 1e-6)
    assert abs(found.there(7.0) - (7.0 + ahead_s)) <= found.error_s * (1 + 1e-6)


@for_each("connections_opened_late", [False, True])
def test_the_clock_counts_from_the_opening(connections_opened_late):
    """All generators count from the same moment, whenever their own connections stood."""
    gate = AgreedStart()
    with grpc.insecure_channel("127.0.0.1:1") as channel:
        client = Client(channel, "127.0.0.1:1", operations=Operations(crud()))
        monitor = Monitor(client, Sampler(None), "127.0.0.1:1", math.inf, gate)
        opens_s = time.perf_counter() + 0.05
        gate.open_at(opens_s)
        refused = monitor.admit()
        if connections_opened_late:
            client.recorder.connected()
        before_s = time.perf_counter()
        now_s, after_s = client.recorder.now_s(), time.perf_counter()

    assert not refused
    assert before_s - opens_s <= now_s <= after_s - opens_s


def test_who_is_asked_to_end_while_waiting_sends_nothing():
    gate = AgreedStart()
    with grpc.insecure_channel("127.0.0.1:1") as channel:
        client = Client(channel, "127.0.0.1:1", operations=Operations(crud()))
        monitor = Monitor(client, Sampler(None), "127.0.0.1:1", math.inf, gate)
        gate.stop()

        assert monitor.admit()
        assert "interrupted" == monitor.outcome
