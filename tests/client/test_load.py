"""load.py: what a run keeps and tells; whole runs are in the contract tests."""

import itertools
import json
import math
import time
from datetime import datetime

import grpc
import numpy as np
import pytest
from stacks import listening

from kvstore.client import load, pacing, strategies, workload
from kvstore.client.strategies import blocking, bounded, futures
from kvstore.measure import Run, audit
from kvstore.measure.audit import in_flight_steps
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import (
    KeyValueServiceServicer,
    add_KeyValueServiceServicer_to_server,
)

SMALL = workload.crud(value_bytes_mean=100)


def test_a_run_tells_how_it_was_asked_for_and_where_it_was_made(quick_server, tmp_path):
    run = load.run(bounded, quick_server, SMALL, in_flight=3, calls=10, deadline_s=7)

    assert ("bounded", 3) == (run.strategy, run.in_flight)
    assert SMALL == workload.Workload(**run.settings["workload"])
    assert (10, None, 7, False) == tuple(
        run.settings[name] for name in ("calls", "duration_s", "deadline_s", "paced")
    )
    assert quick_server.settings == run.server.settings
    assert quick_server.identity == run.server.identity
    assert {"grpcio", "cores", "processor"} <= set(run.host)
    assert datetime.fromisoformat(run.started_at).tzinfo
    assert run.records["done_s"].max() == run.window_s
    loaded = Run.load(run.save(tmp_path / "run.npz"))
    assert audit(run) == audit(loaded)
    assert json.loads(json.dumps(run.settings)) == loaded.settings


def test_samples_come_in_the_callers_thread_and_are_kept(quick_server):
    seen = []
    run = load.run(
        blocking, quick_server, SMALL, calls=400, on_sample=seen.append, sample_interval_s=0.01
    )

    assert len(seen) >= 2
    assert len(run.samples) >= len(seen)
    assert sorted(s.elapsed_s for s in seen) == [s.elapsed_s for s in seen]
    last = run.samples.iloc[-1]
    assert (400, 400, 0) == (last["issued"], last["answered"], last["in_flight"])
    assert last["server_rss_bytes"] > 1e6


def test_an_error_of_the_onlooker_ends_the_run_and_is_heard(quick_server):
    def stumbles(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        load.run(bounded, quick_server, SMALL, in_flight=4, duration_s=30, on_sample=stumbles)


@pytest.mark.slow
def test_a_ceiling_that_is_reached_already_sends_next_to_nothing(quick_server):
    run = load.run(futures, quick_server, SMALL, duration_s=30, memory_ceiling_bytes=1e6)

    assert "memory ceiling" == run.outcome
    assert run.issued < 1_000
    assert audit(run).holds


class Creates(KeyValueServiceServicer):
    """Does every create, and answers the first ones with an error all the same."""

    def __init__(self, unanswered):
        self.seen, self.unanswered, self.keys = itertools.count(), unanswered, set()

    def Create(self, request, context):
        if request.key in self.keys:
            context.abort(grpc.StatusCode.ALREADY_EXISTS, "this key has a value")
        self.keys.add(request.key)
        if next(self.seen) < self.unanswered:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the back end took too long")
        return pb.CreateResponse()

    def Retrieve(self, request, context):
        return pb.RetrieveResponse(value=b"")


def creating(unanswered):
    add = add_KeyValueServiceServicer_to_server
    return listening(lambda server: add(Creates(unanswered), server), threads=1)


def test_values_that_cannot_be_created_before_the_run_are_named():
    reads = workload.reads(keys=3)
    with creating(math.inf) as address, pytest.raises(ConnectionError) as refused:
        load.run(blocking, address, reads, calls=1)

    assert "none of 3 keys" in str(refused.value)
    assert "3 UNAVAILABLE" in str(refused.value)


def test_values_are_created_although_the_first_creates_are_done_without_an_answer():
    """As by a front that waits too short a time for its back end."""
    with creating(3) as address:
        run = load.run(blocking, address, workload.reads(keys=3), calls=1)

    assert {"OK"} <= set(run.outcomes())


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [strategies.threads, strategies.tasks])
def test_no_more_calls_are_in_flight_than_users_have_joined(strategy, quick_server):
    reads = workload.reads(value_bytes_mean=100)
    joins = list(pacing.joins(pacing.climb(0, 8, steps=8, over_s=0.4)))
    run = load.run(strategy, quick_server, reads, in_flight=8, calls=2_000, joins=iter(joins))
    at_s, in_flight = in_flight_steps(run.records["sent_s"], run.records["done_s"])

    assert joins == list(run.settings["joins"])
    assert max(in_flight) > 4
    assert all(np.searchsorted(joins, at_s, side="right") >= in_flight)
    assert audit(run).holds
    assert {"OK"} == set(run.outcomes())
    started_s = time.perf_counter()  # a run that ends before all have joined waits for no caller
    assert 5 == load.run(strategy, quick_server, reads, in_flight=2, calls=5, joins=[0, 60]).issued
    assert time.perf_counter() - started_s < 20
