"""What a step of the ladder is predicted from, ratios within a round, and counts of the server."""

import math

import pytest

from benchmarks import bare
from benchmarks.bare import Shape
from benchmarks.coverage import Case, row
from benchmarks.harness import Turn, in_turns, rows
from benchmarks.ladder import READ_S, WRITE_S, Cost, Rung, between, drawn_disk_s
from benchmarks.overhead import clients
from kvstore.client import strategies, workload


@pytest.mark.parametrize(
    ("cost", "cores", "per_s", "binds"),
    [
        (Cost(0.001, 0.004, 0.001, 0.004), 2, 250.0, "server CPU"),
        (Cost(0.004, 0.001, 0.004, 0.001), 2, 250.0, "client CPU"),
        (Cost(0.004, 0.004, 0.004, 0.004), 1, 125.0, "all cores"),
        (Cost(0.002, 0.006, 0.001, 0.002), 2, 250.0, "all cores"),
    ],
)
def test_the_busier_process_binds_or_both_where_there_is_one_core(cost, cores, per_s, binds):
    predicted = cost.most(cores)

    assert (pytest.approx(per_s), binds) == (predicted.value, predicted.binds)


def test_each_side_has_a_cost_of_a_message_and_of_an_operation():
    """Client: 100 us a message and 1 us an operation; server: 40 us and 2 us."""
    ends = {
        1: Cost(101e-6, 42e-6, 101e-6, 42e-6),
        512: Cost(612e-6 / 512, 1064e-6 / 512, 612e-6 / 512, 1064e-6 / 512),
    }

    assert pytest.approx((150e-6 / 50, 140e-6 / 50)) == between(ends, 50)[:2]


def test_the_mix_of_the_seed_lies_between_a_read_and_a_write():
    """A quarter reads in the long run: 40 ms; the standard error of 25,000 draws is 0.1 ms."""
    mix = workload.crud(preload=500, value_bytes_mean=16)

    assert READ_S < drawn_disk_s(mix, 0.5) <= WRITE_S
    assert pytest.approx(0.040, abs=0.001) == drawn_disk_s(mix, 1_000.0)


def test_a_step_says_where_other_programs_had_the_cores():
    busy = Rung("batches", "no disk", 200.0, 100.0, "server CPU", 0.2, 0.9)

    assert not busy.starved
    assert busy._replace(server_busy=0.5).starved
    assert not busy._replace(server_busy=0.5, binds="disk").starved


def test_clients_are_compared_within_a_round():
    """The machine slowed down in a round, and all with it."""
    first, second = rows(
        {
            "first": [Turn(rate, 1e-6) for rate in (100.0, 200.0, 1_000.0)],
            "other": [Turn(rate, math.nan) for rate in (40.0, 300.0, 500.0)],
        }
    )

    assert second["of the first"] == "0.50"  # the median of 0.4, 1.5 and 0.5
    assert (first["CPU us of the client"], second["CPU us of the client"]) == ("1", "?")


@pytest.mark.slow
def test_a_bare_loop_whose_calls_fail_is_no_fast_loop(quick_server, monkeypatch):
    missing = bare.retrieve(b"no such key")
    monkeypatch.setattr(bare, "retrieve", lambda key: missing)

    with pytest.raises(RuntimeError, match="and 0 were answered OK"):
        bare.run(Shape(strategies.blocking), quick_server.address, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape", [Shape(strategies.pipelined, 4, streams=2, batch=8), Shape(strategies.bounded, 4)]
)
def test_the_clients_take_turns_against_one_server(shape, quick_server):
    rounds = in_turns(clients(shape, quick_server, 0.3), 1)

    assert 3 == len(rounds)
    assert all(turn.per_s > 0 for turns in rounds.values() for turn in turns)


def test_intervals_are_counted_with_their_half_widths():
    within = [Case("a step", 80.0, 125.0, each) for each in (80.0, 100.0, 125.0)]
    beyond = Case("a step", 80.0, 125.0, 126.0)

    assert {"part": "steps", "intervals": "4", "held": "75%", "median half width": "25%"} == row(
        "steps", [*within, beyond]
    )
    assert "0" == row("none", [])["intervals"]
