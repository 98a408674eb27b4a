"""Each operation goes to the server that keeps its key."""

import os
import signal

import pytest

from kvstore.client import ServerGone, load, strategies
from kvstore.client.channel import Target, connected, target_of
from kvstore.client.errors import WrongServer
from kvstore.client.workload import Workload
from kvstore.measure import audit
from kvstore.server import serving_replicas

TINY = {"key_bytes_mean": 8, "value_bytes_mean": 16, "sizes": "fixed"}
KEPT = Workload(mix={"retrieve": 1, "update": 1}, preload=50, **TINY)
QUICK = {
    "use_asyncio": True,
    "read_delay_s": 0.0005,
    "write_delay_s": 0.001,
    "locking": "per_key",
}


@pytest.fixture(scope="module")
def both():
    with serving_replicas([QUICK] * 2) as running:
        yield running


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
    assert 203 == run.operations_ok == run.server.answered
    assert connections == run.connections
    assert set(range(connections)) == set(run.records["connection"])
    assert both.identity == run.server.identity
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
    with serving_replicas([QUICK] * 2) as both:
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
                strategy,
                both.address if elsewhere else both,
                KEPT,
                in_flight=8,
                duration_s=30,
                on_sample=kill,
                sample_interval_s=0.02,
                **options,
            )
    run = gone.value.run

    assert "server gone" == run.outcome
    assert run.window_s < 15
    assert audit(run).holds
    assert run.server.operations is None


@pytest.mark.slow
def test_what_several_servers_cannot_do_is_refused(both):
    first, _ = both.identity.split(",")
    with pytest.raises(WrongServer, match="'another' was started"):
        load.run(strategies.tasks, Target(both.address, f"{first},another"), KEPT, calls=1)
    with pytest.raises(ValueError, match="2 servers with 1 connections to each need at least 2"):
        load.run(strategies.pipelined, both, KEPT, in_flight=8, calls=10)
    with pytest.raises(ValueError, match="must be one server, got 2"), connected(Target("a:1,b:2")):
        pass
