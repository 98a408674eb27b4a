"""When things go wrong in the middle: every call has an end, and the error names the cause."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from itertools import count

import numpy as np
import psutil
import pytest
from stacks import midway

from kvstore import numbers
from kvstore.client import load, monitor, workload
from kvstore.client.errors import RunFailed, RunInterrupted, ServerGone
from kvstore.client.separate_process import run_in_process
from kvstore.client.strategies import bounded, chained, pipelined, tasks, threads
from kvstore.measure import Outcome, accounts, audit
from kvstore.protocol import CREATE, OK, STATUSES
from kvstore.server import Server, serving, serving_replicas

SMALL = workload.crud(value_bytes_mean=100)
SETTINGS = {"read_delay_s": 0.01, "write_delay_s": 0.02, "locking": "per_key"}

each_way = pytest.mark.parametrize("strategy", [threads, chained, tasks, pipelined])
"""By threads, by callbacks, by coroutines and on a stream."""


def assert_accounted(run) -> None:
    assert audit(run).holds, repr(audit(run))
    assert run.issued == sum(run.outcomes().values()) > 3


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that outlives what is done to it here."""
    with serving(**SETTINGS) as server:
        yield server


@pytest.mark.slow
@each_way
def test_a_server_killed_in_the_middle_is_named_and_every_call_has_an_end(strategy, server, caplog):
    """gRPC reports the ends of cancelled calls late; the next run must not stumble over them."""
    with serving(**SETTINGS) as doomed:
        started_s = time.perf_counter()
        with pytest.raises(ServerGone) as gone:
            load.run(
                strategy,
                doomed,
                SMALL,
                in_flight=8,
                duration_s=30,
                on_sample=midway(os.kill, doomed.pid, signal.SIGKILL),
            )
    run = gone.value.run

    assert time.perf_counter() - started_s < 10  # not the 30 s that were asked for
    assert isinstance(gone.value, RunFailed)
    assert f"the server at {doomed.address} ended after" in str(gone.value)
    assert "Start it again with `with serving() as server:`" in str(gone.value)
    assert "server gone" == run.outcome
    assert run.outcomes()["OK"] > 0
    assert_accounted(run)
    assert {"OK", "NOT_FOUND", "ALREADY_EXISTS", "UNAVAILABLE", "CANCELLED", "NO_ANSWER"} >= set(
        run.outcomes()
    )
    after = load.run(strategy, server, SMALL, in_flight=4, calls=40)
    assert ("complete", 40) == (after.outcome, after.issued)
    assert [] == [record for record in caplog.records if record.name == "asyncio"]


@pytest.fixture
def resumed(server, monkeypatch) -> Iterator[Server]:
    """The server, which runs again after the test that stops it."""
    monkeypatch.setattr(monitor, "ANSWER_S", 0.2)  # a stopped one would not answer in 2 s either
    yield server
    os.kill(server.pid, signal.SIGCONT)


@pytest.mark.slow
@each_way
def test_a_server_that_stops_answering_is_named_and_keeps_no_call_past_its_deadline(
    strategy, resumed
):
    """The outcome is the same whether calls or a whole stream end at the deadline."""
    started_s = time.perf_counter()
    run = load.run(
        strategy,
        resumed,
        SMALL,
        in_flight=4,
        duration_s=1.0,
        deadline_s=0.3,
        on_sample=midway(os.kill, resumed.pid, signal.SIGSTOP),
    )
    status = "NO_ANSWER" if strategy is pipelined else "DEADLINE_EXCEEDED"
    (last_answer_s,) = run.unresponsive.values()
    after = run.records["status"][np.flatnonzero(run.records["status"] == OK)[-1] :]
    lost = np.count_nonzero(after == STATUSES.index(status))  # one may have been late before it

    assert time.perf_counter() - started_s < 10
    assert run.records["done_s"].max() < 8
    assert_accounted(run)
    assert Outcome.SERVER_UNRESPONSIVE is run.outcome
    assert run.server.operations is None
    assert 0 < last_answer_s < run.window_s
    assert f"{resumed.address} stopped answering after {numbers.seconds(last_answer_s)}:" in repr(
        run
    )
    assert f"{numbers.count(lost, 'call')} ended with {status}]>" in repr(run)


@pytest.mark.slow
def test_a_run_is_complete_when_the_server_answers_again(resumed):
    """Calls ended at their deadline meanwhile, as the run says; it went on afterwards."""

    def stop_for_a_while() -> None:
        os.kill(resumed.pid, signal.SIGSTOP)
        threading.Timer(0.6, os.kill, (resumed.pid, signal.SIGCONT)).start()

    run = load.run(
        bounded,
        resumed,
        SMALL,
        in_flight=4,
        duration_s=2.0,
        deadline_s=0.2,
        on_sample=midway(stop_for_a_while),
    )

    assert Outcome.COMPLETE is run.outcome
    assert {} == run.unresponsive
    assert run.outcomes()["DEADLINE_EXCEEDED"] >= 1
    assert_accounted(run)


@pytest.mark.slow
def test_of_several_servers_the_one_that_stopped_answering_is_named(monkeypatch):
    monkeypatch.setattr(monitor, "ANSWER_S", 0.2)
    with serving_replicas([SETTINGS] * 2) as both:
        stopped, address = both.pids[1], both.address.split(",")[1]
        try:
            run = load.run(
                bounded,
                both,
                SMALL,
                in_flight=8,
                duration_s=1.0,
                deadline_s=0.3,
                on_sample=midway(os.kill, stopped, signal.SIGSTOP),
            )
        finally:
            os.kill(stopped, signal.SIGCONT)

    assert [address] == list(run.unresponsive)
    assert_accounted(run)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [bounded, tasks])
def test_a_server_that_is_only_slow_has_not_stopped_answering(strategy):
    """No call is answered in time, and the server answers all the same when it is asked."""
    reads = workload.reads(keys=5, value_bytes_mean=10)
    with serving(read_delay_s=0.5, write_delay_s=0, locking="per_key") as slow:
        run = load.run(strategy, slow, reads, in_flight=4, calls=4, deadline_s=0.1)

    assert {"DEADLINE_EXCEEDED": 4} == run.outcomes()
    assert Outcome.COMPLETE is run.outcome


@pytest.mark.slow
def test_a_deadline_that_breaks_a_stream_accounts_for_each_operation_of_its_batches():
    """A window of 4 messages of 5: the effect of these 20 is unknown, and no more were sent."""
    reads = workload.reads(keys=5, value_bytes_mean=10)
    with (
        serving(read_delay_s=0.5, write_delay_s=0, locking="per_key") as slow,
        pytest.raises(RunFailed, match=r"no reply within the deadline of 0\.3 s") as ended,
    ):
        load.run(pipelined, slow, reads, in_flight=4, calls=40, batch=5, deadline_s=0.3)

    assert (20, 0, 0, 20) == accounts(ended.value.run)
    assert audit(ended.value.run).holds


@pytest.mark.slow
@each_way
def test_an_interrupted_run_is_whole_and_the_next_one_works(strategy, server):
    with pytest.raises(RunInterrupted, match="with every call accounted for") as ended:
        load.run(
            strategy,
            server,
            SMALL,
            in_flight=8,
            duration_s=30,
            on_sample=midway(os.kill, os.getpid(), signal.SIGINT),
        )
    run = ended.value.run
    after = load.run(strategy, server, SMALL, in_flight=4, calls=20)

    assert isinstance(ended.value, KeyboardInterrupt)
    assert "interrupted" == run.outcome
    assert {"OK", "NOT_FOUND", "ALREADY_EXISTS"} >= set(run.outcomes())  # drained, not cut off
    assert_accounted(run)
    assert server.alive()
    assert 20 == after.issued
    assert audit(after).holds


@pytest.mark.slow
def test_an_interrupt_does_not_wait_for_long_calls():
    """Calls on the disk for 50 s are cancelled, and counted as such."""

    def on_sample(sample) -> None:
        if sample.in_flight == 8:
            raise KeyboardInterrupt

    with serving(write_delay_s=50, locking="per_key") as slow:
        started_s = time.perf_counter()
        with pytest.raises(RunInterrupted) as ended:
            load.run(bounded, slow, SMALL, in_flight=8, duration_s=60, on_sample=on_sample)

    assert time.perf_counter() - started_s < 25
    assert {"CANCELLED"} == set(ended.value.run.outcomes())
    assert_accounted(ended.value.run)


@pytest.mark.slow
@pytest.mark.parametrize("started", [False, True])
def test_a_run_in_a_process_of_its_own_can_be_interrupted(started, server):
    before = psutil.Process().children()
    interrupt = (os.kill, os.getpid(), signal.SIGINT)
    if not started:
        threading.Timer(0.2, interrupt[0], interrupt[1:]).start()
    with pytest.raises(KeyboardInterrupt) as ended:
        run_in_process(
            bounded,
            server,
            SMALL,
            in_flight=8,
            duration_s=30,
            on_sample=midway(*interrupt) if started else None,
        )

    if started:
        assert isinstance(ended.value, RunInterrupted)
        assert_accounted(ended.value.run)
    assert before == psutil.Process().children()
    assert server.alive()


@pytest.mark.slow
@each_way
def test_an_operation_that_cannot_be_sent_ends_the_run_with_its_reason(
    strategy, server, monkeypatch
):
    """A value of 5 MB among others: the message names size, limit and next step."""
    numbers = count()

    class OneTooLarge(workload.Operations):
        def draw(self, *due):
            operation = super().draw(*due)
            too_large = operation._replace(kind=CREATE, value=bytes(5_000_000))
            return too_large if next(numbers) == 20 else operation

    monkeypatch.setattr(load, "Operations", OneTooLarge)
    with pytest.raises(RunFailed, match=r"over gRPC's limit of 4,194,304 bytes") as failed:
        load.run(strategy, server, SMALL, in_flight=4, calls=200)

    assert "failed" == failed.value.run.outcome
    assert_accounted(failed.value.run)
    assert server.alive()
