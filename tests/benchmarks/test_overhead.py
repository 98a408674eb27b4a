"""overhead.py and loops.py: ratios are taken within a round, and a bare loop checks its replies."""

import grpc
import pytest

from benchmarks.loops import LOOPS, LoopOptions, new_key, run_loop
from benchmarks.overhead import Shape, Turn, clients, in_turns, row
from kvstore.client import strategies
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc


def test_ratios_are_taken_within_a_round():
    """The machine slowed down to a tenth in the second round, and all with it."""
    rounds = {
        "ours": [Turn(90.0, 2.0), Turn(9.0, 20.0)],
        "bare": [Turn(100.0, 1.0), Turn(10.0, 10.0)],
        "measured": [Turn(80.0, 3.0), Turn(8.0, 30.0)],
        "plain": [Turn(100.0, 1.5), Turn(10.0, 15.0)],
    }
    shown = row("x", rounds)

    assert (0.9, 2.0) == (shown["over bare"], shown["CPU over bare"])
    assert (0.8, 2.0) == (shown["measured over plain"], shown["CPU measured over plain"])


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_a_bare_loop_sees_an_answer_that_is_wrong(loop, quick_server):
    key = new_key(quick_server.address)
    with grpc.insecure_channel(quick_server.address) as channel:
        kvstore_pb2_grpc.KeyValueServiceStub(channel).Update(pb.UpdateRequest(key=key, value=b"!"))
    options = LoopOptions(quick_server.address, key, 5.0, in_flight=2)

    with pytest.raises(ValueError, match="must return the value that was written"):
        run_loop(loop, options)


@pytest.mark.slow
def test_ours_and_the_bare_loop_take_turns_against_one_server(quick_server):
    for shape in (
        Shape(strategies.pipelined, "stream", 4, streams=2, batch=8),
        Shape(strategies.bounded, "future", 4),
    ):
        rounds = in_turns(clients(shape, quick_server, 0.1), 1)

        assert {"ours", "bare", "measured", "plain"} == set(rounds)
        assert all(turn.per_s > 0 for turns in rounds.values() for turn in turns)
