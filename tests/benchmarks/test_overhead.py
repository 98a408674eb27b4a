"""overhead.py and bare.py: ratios are taken within a round, and the server counts what was done."""

import pytest

from benchmarks import bare
from benchmarks.bare import Shape
from benchmarks.overhead import clients, row
from benchmarks.turns import Turn, in_turns
from kvstore.client import strategies


def test_ratios_are_taken_within_a_round():
    """The machine slowed down to a tenth in the second round, and all with it."""
    rounds = {
        "ours": [Turn(90.0, 2.0), Turn(9.0, 20.0)],
        "bare": [Turn(100.0, 1.0), Turn(10.0, 10.0)],
        "measured": [Turn(80.0, 3.0), Turn(8.0, 30.0)],
    }
    shown = row("x", rounds)

    assert (0.9, 2.0) == (shown["over bare"], shown["CPU over bare"])
    assert (0.8, 3.0) == (shown["measured over bare"], shown["CPU measured over bare"])


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
    rounds = in_turns(clients(shape, quick_server, 0.1), 1)

    assert {"ours", "bare", "measured"} == set(rounds)
    assert all(turn.per_s > 0 for turns in rounds.values() for turn in turns)
