"""overhead.py and peers/loops.py: turns are fair, and a bare loop looks at its answers."""

from collections.abc import Callable

import grpc
import pytest

from benchmarks.overhead import SHAPES, Shape, Turn, clients, in_turns, ratios, row
from benchmarks.peers.loops import LOOPS, LoopOptions, new_key, run_loop
from kvstore.client import strategies
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc


def test_all_take_a_turn_in_every_round_each_time_another_one_first():
    took: list[str] = []

    def turn(name: str) -> Callable[[], Turn]:
        return lambda: took.append(name) or Turn(float(len(took)), 1.0)  # type: ignore[func-returns-value]

    rounds = in_turns({name: turn(name) for name in "abc"}, 3)

    assert "abc bca cab abc".replace(" ", "") == "".join(took)
    assert {3} == {len(turns) for turns in rounds.values()}  # the first round warms up
    assert [6.0, 8.0, 10.0] == [turn.per_s for turn in rounds["a"]]


def test_ratios_are_taken_within_a_round():
    """The machine slowed down to a tenth in the second round, and all with it."""
    rounds = {
        "ours": [Turn(90.0, 2.0), Turn(9.0, 20.0)],
        "bare": [Turn(100.0, 1.0), Turn(10.0, 10.0)],
        "measured": [Turn(80.0, 3.0), Turn(8.0, 30.0)],
        "plain": [Turn(100.0, 1.5), Turn(10.0, 15.0)],
    }
    shown = row("x", rounds)

    assert [0.9, 0.9] == ratios(rounds, "ours", "bare", "per_s")
    assert (0.9, 2.0) == (shown["over bare"], shown["CPU over bare"])
    assert (0.8, 2.0) == (shown["measured over plain"], shown["CPU measured over plain"])


def test_every_bare_loop_has_its_strategy_and_no_shape_stands_twice():
    names = [str(shape) for shape in SHAPES]

    assert len(names) == len(set(names))
    assert set(LOOPS) == {shape.loop for shape in SHAPES}


@pytest.mark.slow
def test_a_bare_loop_makes_calls_and_tells_what_they_took(quick_server, subtests):
    for loop in LOOPS:
        with subtests.test(loop=loop):
            options = LoopOptions(
                quick_server.address,
                new_key(quick_server.address),
                0.1,
                in_flight=3,
                streams=2,
                batch=2,
            )
            result = run_loop(loop, options)

            assert result.operations > 0
            assert result.took_s >= 0.1
            assert result.cpu_s > 0


@pytest.mark.slow
def test_a_bare_loop_sees_an_answer_that_is_wrong(quick_server, subtests):
    for loop in LOOPS:
        with subtests.test(loop=loop):
            key = new_key(quick_server.address)
            with grpc.insecure_channel(quick_server.address) as channel:
                kvstore_pb2_grpc.KeyValueServiceStub(channel).Update(
                    pb.UpdateRequest(key=key, value=b"!")
                )
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
