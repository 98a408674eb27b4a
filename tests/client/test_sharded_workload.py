"""Each operation goes to the server that keeps its key."""

import os
import signal
from collections import Counter

import pytest

from kvstore.client import ServerGone, load, strategies
from kvstore.client.channel import Target, connected, target_of
from kvstore.client.connections import ByKey
from kvstore.client.errors import WrongServer
from kvstore.client.messages import retrieve
from kvstore.client.plan import Part
from kvstore.client.schedule import Schedule, ShardedOperations
from kvstore.client.workload import Workload, reads
from kvstore.measure import audit
from kvstore.protocol import shard_of
from kvstore.server import serving_sharded

TINY = {"key_bytes_mean": 8, "value_bytes_mean": 16, "sizes": "fixed"}
KEPT = Workload(mix={"retrieve": 1, "update": 1}, preload=50, **TINY)
QUICK = {"read_delay_s": 0.0005, "write_delay_s": 0.001, "locking": "per_key"}


@pytest.fixture(scope="module")
def both():
    with serving_sharded(2, use_asyncio=True, **QUICK) as running:
        yield running


def preloaded(workload, shards):
    operations = ShardedOperations(workload, shards)
    for create in operations.preloads():
        operations.created(create.key)
    return operations


@pytest.mark.parametrize("shards", [2, 3])
def test_servers_get_even_shares(shards):
    operations = preloaded(reads(keys=9, **TINY), shards)
    drawn = Counter(shard_of(operations.draw().key, shards) for _ in range(6_000))

    for number, shard in enumerate(operations.shards):
        assert {number} == {shard_of(shard.draw().key, shards) for _ in range(20)}
    assert 9 == len(operations.held_throughout()) or shards == 2  # an odd one is one more
    assert [drawn[n] / 6_000 for n in range(shards)] == pytest.approx(
        [1 / shards] * shards, abs=0.03
    )


def test_keys_of_a_part_are_keys_of_its_shards_too():
    part = Part(1, 2)
    drawn = ShardedOperations(reads(keys=40, **TINY), 2, "salt", part.owns).preloads()

    assert all(part.owns(each.key) for each in drawn)
    assert {20} == set(Counter(shard_of(each.key, 2) for each in drawn).values())


def test_a_batch_holds_keys_of_one_server():
    schedule = Schedule(preloaded(KEPT, 2), clock=lambda: 0.0, calls=100)
    for shard in (0, 1):
        batch = schedule.take(30, shard)
        assert {shard} == {shard_of(key, 2) for key in batch.keys}
        assert batch.written is not None

    assert [30, 10, 0] == [len(schedule.take(30, shard) or ()) for shard in (0, 1, 0)]


def test_a_call_takes_a_connection_to_the_server_of_its_key():
    way = ByKey(3, 2)
    for number in range(100):
        taken = way.take(retrieve(b"key %d" % number))
        assert taken % 3 == shard_of(b"key %d" % number, 3)
    same = [way.take(retrieve(b"one key")) for _ in range(2)]
    assert 2 == len(set(same))
    way.give(same[0])
    assert same[0] == way.take(retrieve(b"one key"))


@pytest.mark.parametrize(
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


# ---- real servers --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
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
@pytest.mark.parametrize(
    ("strategy", "elsewhere"),
    [(strategies.tasks, False), (strategies.pipelined, False), (strategies.tasks, True)],
)
def test_the_end_of_one_server_is_the_end_of_the_run(strategy, elsewhere, monkeypatch):
    """Of a server on another machine nothing is known but its address, the second one's too."""
    options = {"streams": 2} if strategy is strategies.pipelined else {}
    with serving_sharded(2, use_asyncio=True, **QUICK) as both:
        second = both.address.split(",")[1]
        killed = []

        def kill(sample) -> None:
            if sample.answered >= 50 and not killed:
                killed.append(both.pids[1])
                os.kill(both.pids[1], signal.SIGKILL)

        if elsewhere:
            monkeypatch.setattr("kvstore.client.monitor.local_pids", lambda *_: [])
        says = f"no server answers at {second} any more" if elsewhere else "ended after"
        with pytest.raises(ServerGone, match=says) as gone:
            load.run(
                strategy, both.address if elsewhere else both, KEPT, in_flight=8, duration_s=30,
                on_sample=kill, sample_interval_s=0.02, **options,
            )  # fmt: skip
    run = gone.value.run

    assert "server gone" == run.outcome
    assert run.window_s < 15
    assert audit(run).holds
    assert run.server["operations"] is None


@pytest.mark.slow
def test_what_several_servers_cannot_do_is_refused(both):
    first, _ = both.identity.split(",")
    with pytest.raises(WrongServer, match="'another' was started"):
        load.run(strategies.tasks, Target(both.address, f"{first},another"), KEPT, calls=1)
    with pytest.raises(ValueError, match="2 servers with 1 connections to each need at least 2"):
        load.run(strategies.pipelined, both, KEPT, in_flight=8, calls=10)
    with pytest.raises(ValueError, match="must be one server, got 2"), connected(Target("a:1,b:2")):
        pass
