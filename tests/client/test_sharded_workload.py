"""Each operation goes to the server that keeps its key."""

import os
import signal
from collections import Counter

import pytest
from tables import for_each

from kvstore.client import ServerGone, load, strategies
from kvstore.client.channel import Target, connected, target_of
from kvstore.client.connections import ByKey, EvenShare, route
from kvstore.client.errors import WrongServer
from kvstore.client.messages import retrieve
from kvstore.client.monitor import combined
from kvstore.client.plan import Part
from kvstore.client.schedule import Schedule, ShardedOperations
from kvstore.client.workload import Workload, crud, reads
from kvstore.measure import audit
from kvstore.protocol import CREATE, shard_of
from kvstore.server import serving_sharded
from kvstore.v1 import server_status_pb2 as pb

TINY = {"key_bytes_mean": 8, "value_bytes_mean": 16, "sizes": "fixed"}
KEPT = Workload(mix={"retrieve": 1, "update": 1}, preload=50, **TINY)
QUICK = {"read_delay_s": 0.0005, "write_delay_s": 0.001, "locking": "per_key"}


@pytest.fixture(scope="module")
def both():
    with serving_sharded(2, use_asyncio=True, **QUICK) as running:
        yield running


# ---- what is drawn -------------------------------------------------------------------------


@for_each("shards", [2, 3])
def test_each_shard_draws_keys_of_its_own(shards):
    operations = ShardedOperations(crud(**TINY), shards)
    for _ in range(50):
        for number, shard in enumerate(operations.shards):
            drawn = shard.draw()
            assert number == shard_of(drawn.key, shards)
            if drawn.kind == CREATE:
                operations.created(drawn.key)

    assert all(len(shard.known) > 0 for shard in operations.shards)


def test_an_operation_for_any_server_is_drawn_for_all_of_them_alike():
    operations = ShardedOperations(reads(keys=9, **TINY), 3)
    for create in operations.preloads():
        operations.created(create.key)
    drawn = Counter(shard_of(operations.draw().key, 3) for _ in range(3_000))

    assert [3, 3, 3] == [len(shard.known) for shard in operations.shards]
    assert 9 == len(operations.held_throughout())
    assert min(drawn.values()) > 900


@for_each(("share", "shards"), [(0.7, 3), (1.0, 2), (0.5, 2)])
def test_the_first_server_may_get_more(share, shards):
    operations = ShardedOperations(reads(keys=9, busiest_share=share, **TINY), shards)
    for create in operations.preloads():
        operations.created(create.key)
    drawn = Counter(shard_of(operations.draw().key, shards) for _ in range(6_000))

    assert drawn[0] / 6_000 == pytest.approx(share, abs=0.03)
    others = [drawn[number] / 6_000 for number in range(1, shards)]
    assert others == pytest.approx([(1 - share) / (shards - 1)] * (shards - 1), abs=0.03)


@for_each("share", [0.3, 1.1])
def test_a_share_that_cannot_be_the_busiest_one_is_refused(share):
    with pytest.raises(ValueError, match="busiest_share must be from 1/3 to 1"):
        ShardedOperations(reads(busiest_share=share, **TINY), 3)


def test_keys_of_a_part_are_keys_of_its_shards_too():
    part = Part(1, 2)
    drawn = ShardedOperations(reads(keys=40, **TINY), 2, "salt", part.owns).preloads()

    assert all(part.owns(each.key) for each in drawn)
    assert {20} == set(Counter(shard_of(each.key, 2) for each in drawn).values())


def test_a_batch_holds_keys_of_one_server():
    operations = ShardedOperations(KEPT, 2)
    for create in operations.preloads():
        operations.created(create.key)
    schedule = Schedule(operations, clock=lambda: 0.0, calls=100)
    for shard in (0, 1):
        batch = schedule.take(30, shard)
        assert {shard} == {shard_of(key, 2) for key in batch.keys}
        assert batch.written is not None

    assert [30, 10, 0] == [len(schedule.take(30, shard) or ()) for shard in (0, 1, 0)]


# ---- where it goes -------------------------------------------------------------------------


def test_a_call_takes_a_connection_to_the_server_of_its_key():
    way = ByKey(3, 2)
    for number in range(100):
        taken = way.take(retrieve(b"key %d" % number))
        assert taken % 3 == shard_of(b"key %d" % number, 3)
    same = [way.take(retrieve(b"one key")) for _ in range(2)]
    assert 2 == len(set(same))
    way.give(same[0])
    assert same[0] == way.take(retrieve(b"one key"))


def test_there_is_a_route_only_where_there_is_a_choice():
    assert route(1, 1) is None
    assert isinstance(route(1, 2), EvenShare)
    assert isinstance(route(2, 1), ByKey)


def test_a_target_of_several_servers():
    several = Target("a:1,b:2", "one,two")

    assert [Target("a:1", "one"), Target("b:2", "two")] == several.shards
    assert [Target("a:1"), Target("b:2")] == target_of("a:1,b:2").shards
    assert [Target("a:1", "one")] == Target("a:1", "one").shards


@for_each(
    ("target", "says"),
    [
        (Target("a:1,b", None), "an address is host:port, such as 127.0.0.1:40123, got 'b'"),
        (Target("a:1,b:2,a:1"), "so give each address once, got 'a:1,b:2,a:1'"),
        (Target("a:1,b:2", "one"), "each server has an identity: got 'a:1,b:2' and 'one'"),
    ],
)
def test_a_target_that_makes_no_sense_is_refused(target, says):
    with pytest.raises(ValueError, match=says):
        target_of(target)


def test_several_statuses_taken_together():
    one = pb.GetServerStatusResponse(
        identity="one",
        settings_json="{}",
        operations={"create/OK": 2, "delete/OK": 1},
        cpu_user_s=1,
    )
    two = pb.GetServerStatusResponse(identity="two", operations={"create/OK": 3}, cpu_user_s=2)
    whole = combined([one, two])

    assert ("one,two", "{}", 3.0) == (whole.identity, whole.settings_json, whole.cpu_user_s)
    assert {"create/OK": 5, "delete/OK": 1} == dict(whole.operations)
    assert combined([one]) is one


# ---- real servers --------------------------------------------------------------------------


@pytest.mark.slow
@for_each(
    ("strategy", "in_flight", "options", "connections"),
    [
        (strategies.blocking, 1, {}, 2),
        (strategies.bounded, 8, {"connections": 2}, 4),
        (strategies.tasks, 8, {}, 2),
        (strategies.pipelined, 8, {"streams": 3, "batch": 5}, 2),
    ],
)
def test_every_operation_finds_its_key(strategy, in_flight, options, connections, both):
    """A key that was looked for on the other server would not be found there."""
    run = load.run(strategy, both, KEPT, in_flight=in_flight, calls=203, **options)

    assert {"OK": len(run.records)} == run.outcomes()
    assert 203 == run.operations_ok == sum(run.server["operations"].values())
    assert connections == run.connections
    assert set(range(connections)) == set(run.records["connection"])
    assert both.identity == run.server["identity"]
    assert audit(run).holds
    assert run.samples["server_rss_bytes"].max() > 2e6


@pytest.mark.slow
@for_each("strategy", [strategies.tasks, strategies.pipelined])
def test_the_end_of_one_server_is_the_end_of_the_run(strategy):
    options = {"streams": 2} if strategy is strategies.pipelined else {}
    with serving_sharded(2, use_asyncio=True, **QUICK) as both:
        killed = []

        def kill(sample) -> None:
            if sample.answered >= 50 and not killed:
                killed.append(both.pids[1])
                os.kill(both.pids[1], signal.SIGKILL)

        with pytest.raises(ServerGone) as gone:
            load.run(
                strategy, both, KEPT, in_flight=8, duration_s=30, on_sample=kill,
                sample_interval_s=0.02, **options,
            )  # fmt: skip
    run = gone.value.run

    assert "server gone" == run.outcome
    assert run.window_s < 15
    assert audit(run).holds
    assert run.server["operations"] is None


@pytest.mark.slow
def test_the_end_of_one_server_elsewhere_is_the_end_of_the_run(monkeypatch):
    """Of a server on another machine nothing is known but its address, the second one's too."""
    monkeypatch.setattr("kvstore.client.monitor.local_pids", lambda *_: [])
    with serving_sharded(2, use_asyncio=True, **QUICK) as both:
        second = both.address.split(",")[1]
        killed = []

        def kill(sample) -> None:
            if sample.answered >= 50 and not killed:
                killed.append(both.pids[1])
                os.kill(both.pids[1], signal.SIGKILL)

        with pytest.raises(ServerGone, match=f"no server answers at {second} any more") as gone:
            load.run(
                strategies.tasks, both.address, KEPT, in_flight=8, duration_s=30, on_sample=kill,
                sample_interval_s=0.02,
            )  # fmt: skip

    assert 1 == len(killed)
    assert gone.value.run.window_s < 15
    assert audit(gone.value.run).holds


@pytest.mark.slow
def test_one_server_that_is_another_is_found_out(both):
    first, _ = both.identity.split(",")
    with pytest.raises(WrongServer, match="'another' was started"):
        load.run(strategies.tasks, Target(both.address, f"{first},another"), KEPT, calls=1)


@pytest.mark.slow
def test_a_stream_speaks_to_one_server(both):
    with pytest.raises(ValueError, match="2 servers with 1 connections to each need at least 2"):
        load.run(strategies.pipelined, both, KEPT, in_flight=8, calls=10)


def test_what_needs_one_server_says_so():
    with (
        pytest.raises(ValueError, match="the target must be one server, got 2: a:1,b:2"),
        connected(Target("a:1,b:2")),
    ):
        pass


@pytest.mark.slow
def test_batches_know_no_busiest_server(both):
    hot = reads(busiest_share=0.8, **TINY)
    with pytest.raises(ValueError, match="leave busiest_share"):
        load.run(strategies.pipelined, both, hot, in_flight=4, calls=8, streams=2)
    run = load.run(strategies.tasks, both, hot, in_flight=4, calls=200)

    assert {"OK": 200} == run.outcomes()
    assert 0.8 == run.settings["workload"]["busiest_share"]
