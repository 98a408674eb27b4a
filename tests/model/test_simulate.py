"""simulate.py: against numbers worked out by hand, the bounds, and its own trace."""

import itertools

import pytest

from kvstore.model import scaling
from kvstore.model.simulate import LOCKINGS, Pool, Service, closed_loop, open_loop
from kvstore.server.store import LOCKS

SAME = {"read_delay_s": 0.040, "write_delay_s": 0.040}
"""All calls alike and constant: then every number can be worked out."""


@pytest.mark.parametrize(
    ("per_s", "in_flight", "settings"),
    [
        (25.0, 100, {}),  # behind one lock
        (2500.0, 100, {"locking": "per_key"}),  # source 1, step 03
        (2500.0, 100, {"locking": "per_key_held", "read_share": 1.0}),  # readers take no lock
        (25.0, 100, {"locking": "per_key_held", "read_share": 0.0, "keys": 1}),
        (200.0, 100, {"locking": "per_key", "threads": 8}),
        (1000.0, 100, {"locking": "per_key", "cpu_s": 0.001}),
    ],
)
def test_throughput_by_hand(per_s, in_flight, settings):
    played = closed_loop(in_flight, Service(**SAME, **settings), calls=1_000)

    assert per_s == pytest.approx(played.throughput_per_s)
    assert 1_000 == pytest.approx(len(played.counted), abs=in_flight)


def test_a_mix_of_reads_and_writes_is_drawn():
    """A quarter at 10 ms and the rest at 50: 25 a second behind one lock, to 2 %."""
    assert 25.0 == pytest.approx(closed_loop(10, Service()).throughput_per_s, rel=0.02)


@pytest.mark.parametrize(("exponent", "per_s"), [(0.0, 40.0), (1.0, 30.0)])
def test_the_hottest_key_binds_when_many_wait(exponent, per_s):
    """Of two keys, a half or two thirds of the writes at 50 ms are for one: 1 / (p_max S)."""
    service = Service(locking="per_key_held", read_share=0.0, keys=2, zipf_exponent=exponent)
    played = closed_loop(60, service, calls=6_000)

    assert per_s == pytest.approx(1 / (scaling.shares(2, exponent)[0] * 0.050))
    assert per_s == pytest.approx(played.throughput_per_s, rel=0.05)


def test_lockings_are_called_what_the_server_calls_them():
    assert set(LOCKINGS) <= set(LOCKS)


def test_one_thread_by_hand():
    """One thread, 1 s each, five calls at once, 2.5 s to wait: the third begins at 2 s."""
    played = open_loop([0.0] * 5, Pool(threads=1, disk_s=1.0), deadline_s=2.5)

    assert {"in time": 2, "late": 1, "dropped": 2} == played.ends
    assert 0.5 == played.goodput_per_s(4.0)


def test_arrivals_and_disk_times_of_a_run_can_be_played():
    """Two threads, the third call waits until 3 s; the fourth is not due any more."""
    played = open_loop(
        itertools.count(),
        Pool(threads=2, disk_s=9.0),
        deadline_s=9.0,
        until_s=3.0,
        disk_times_s=[4.0, 2.0, 0.5],
    )

    assert [4.0, 3.0, 3.5] == [call.ended_s for call in played.calls]
