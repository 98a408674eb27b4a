"""load.py: what a run refuses, keeps and tells; whole runs are in the contract tests."""

import inspect
import json
import math
from datetime import datetime

import pytest

from kvstore.client import asked, load, pacing, run_in_process, strategies, workload
from kvstore.client.strategies import blocking, bounded, chained, futures, pipelined
from kvstore.measure import Run, audit

SMALL = workload.crud(value_bytes_mean=100)


@pytest.mark.parametrize(
    ("named", "settings"),
    [
        ("in_flight must be a whole number of 1 or more, got 0: with none", {"in_flight": 0}),
        ("in_flight must be .* got -1", {"in_flight": -1}),
        ("in_flight must be .* got 1.5", {"in_flight": 1.5}),
        ("in_flight must be .* got True", {"in_flight": True}),
        ("in_flight must be .* got '8'", {"in_flight": "8"}),
        ("say how long: duration_s=10 for seconds, or calls=1000", {"calls": None}),
        ("calls must be a whole number above 0, got 0", {"calls": 0}),
        ("duration_s must be above 0 seconds, got 0", {"duration_s": 0}),
        ("duration_s must be above 0 seconds, got -1", {"duration_s": -1}),
        ("duration_s must be above 0 seconds, got nan", {"duration_s": math.nan}),
        ("deadline_s must be above 0 seconds, got 0", {"deadline_s": 0}),
        ("batch must be a whole number of 1 or more, got 0", {"batch": 0}),
        ("batch must be at most 65,535 operations, got 70,000", {"batch": 70_000}),
        ("4 streams need at least as many requests in flight, got in_flight=2",
         {"streams": 4, "in_flight": 2}),
    ],
)  # fmt: skip
def test_a_run_that_makes_no_sense_is_refused_before_it_connects(named, settings):
    with pytest.raises(ValueError, match=named):
        load.run(pipelined, "127.0.0.1:1", SMALL, **{"calls": 1, **settings})


@pytest.mark.parametrize("strategy", ["bounded", None, 5])
def test_what_is_no_strategy_is_refused(strategy):
    with pytest.raises(ValueError, match=r"strategy must be a function of kvstore\.client"):
        load.run(strategy, "127.0.0.1:1", SMALL, calls=1)


def test_answers_that_send_cannot_keep_due_times():
    with pytest.raises(ValueError, match="chained sends a call when an answer comes"):
        load.run(chained, "127.0.0.1:1", SMALL, calls=1, due_times=pacing.constant_rate(10))


def test_what_is_no_address_is_refused():
    with pytest.raises(ValueError, match="an address is host:port"):
        load.run(blocking, "localhost", SMALL, calls=1)


@pytest.mark.parametrize("make_run", [load.run, run_in_process])
@pytest.mark.parametrize(
    ("says", "settings"),
    [
        ("neither a run nor bounded knows a setting batch$", {"batch": 8}),
        ("knows a setting inflight: did you mean in_flight", {"inflight": 8}),
        ("in_flight must be a whole number of 1 or more, got '100'", {"in_flight": "100"}),
        ("duration_s must be above 0 seconds, got '10'", {"duration_s": "10"}),
        ("deadline_s must be above 0 seconds, got None", {"deadline_s": None}),
        ("calls must be a whole number above 0, got 10.5", {"calls": 10.5}),
        ("calls must be a whole number above 0, got True", {"calls": True}),
        ("say how long", {"calls": None}),
        ("it lacks its parentheses$", {"workload": workload.reads}),
        ("such as `workload.reads\\(\\)`, got 'reads'$", {"workload": "reads"}),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_sent(make_run, says, settings):
    with pytest.raises(ValueError, match=says):
        make_run(bounded, "127.0.0.1:1", **{"workload": SMALL, "calls": 1, **settings})


def test_a_strategy_of_ones_own_may_know_settings(quick_server):
    def patient(client, schedule, in_flight, *, pause_s=0.0):
        blocking(client, schedule)

    assert 2 == load.run(patient, quick_server, SMALL, calls=2, pause_s=0.0).issued
    with pytest.raises(ValueError, match="did you mean pause_s"):
        load.run(patient, quick_server, SMALL, calls=2, pauses=1)


def test_a_run_tells_how_it_was_asked_for_and_where_it_was_made(quick_server):
    run = load.run(bounded, quick_server, SMALL, in_flight=3, calls=10, deadline_s=7)

    assert ("bounded", 3) == (run.strategy, run.in_flight)
    assert SMALL == workload.Workload(**run.settings["workload"])
    assert (10, None, 7, False) == tuple(
        run.settings[name] for name in ("calls", "duration_s", "deadline_s", "paced")
    )
    assert quick_server.settings.as_dict() == run.server["settings"]
    assert quick_server.identity == run.server["identity"]
    assert {"grpcio", "cores", "processor"} <= set(run.host)
    assert datetime.fromisoformat(run.started_at).tzinfo


def test_the_window_ends_with_the_last_call(quick_server):
    run = load.run(bounded, quick_server, SMALL, in_flight=3, calls=10)

    assert run.records["done_s"].max() == run.window_s


def test_a_run_can_be_saved_and_audited_again(quick_server, tmp_path):
    run = load.run(bounded, quick_server, SMALL, in_flight=3, calls=10)
    loaded = Run.load(run.save(tmp_path / "run.npz"))

    assert audit(run) == audit(loaded)
    assert json.loads(json.dumps(run.settings)) == loaded.settings


def test_samples_come_in_the_callers_thread_and_are_kept(quick_server):
    seen = []
    run = load.run(
        blocking, quick_server, SMALL, calls=40, on_sample=seen.append, sample_interval_s=0.01
    )

    assert len(seen) >= 2
    assert len(run.samples) >= len(seen)
    assert sorted(s.elapsed_s for s in seen) == [s.elapsed_s for s in seen]
    last = run.samples.iloc[-1]
    assert (40, 40, 0) == (last["issued"], last["answered"], last["in_flight"])
    assert last["server_rss_bytes"] > 1e6


def test_an_error_of_the_onlooker_ends_the_run_and_is_heard(quick_server):
    def stumbles(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        load.run(bounded, quick_server, SMALL, in_flight=4, duration_s=30, on_sample=stumbles)


@pytest.mark.slow
def test_processor_time_of_both_sides_is_kept(quick_server):
    run = load.run(bounded, quick_server, SMALL, in_flight=4, calls=200)

    assert run.client_cpu.total_s > 0
    assert run.server_cpu.total_s >= 0


def test_due_times_make_an_open_loop(quick_server):
    run = load.run(futures, quick_server, SMALL, calls=20, due_times=pacing.constant_rate(1_000))

    assert run.settings["paced"]
    assert [number / 1_000 for number in range(20)] == sorted(run.calls["due_s"])
    assert (run.calls["sent_s"] >= run.calls["due_s"]).all()


@pytest.mark.slow
def test_a_ceiling_that_is_reached_already_sends_next_to_nothing(quick_server):
    run = load.run(futures, quick_server, SMALL, duration_s=30, memory_ceiling_bytes=1e6)

    assert "memory ceiling" == run.outcome
    assert run.issued < 1_000
    assert audit(run).holds


def test_values_that_cannot_be_created_before_the_run_are_named(quick_server, monkeypatch):
    """The keys are there already, from a run with the same salt."""
    monkeypatch.setattr(load.secrets, "token_hex", lambda _: "the same salt")
    reads = workload.reads(keys=3, seed=99, value_bytes_mean=10)
    load.run(blocking, quick_server, reads, calls=1)

    with pytest.raises(ConnectionError, match="none of 3 keys could be created"):
        load.run(blocking, quick_server, reads, calls=1)


def test_a_strategy_of_ones_own_is_as_good(quick_server):
    """An exercise hands in a function."""

    def mine(client, schedule, in_flight):
        for operation in schedule:
            client.call(operation)

    run = load.run(mine, quick_server, SMALL, calls=5)

    assert ("mine", 5) == (run.strategy, run.issued)
    assert mine not in strategies.STRATEGIES


def test_what_every_run_can_be_told_is_what_load_knows():
    """A learner is asked "did you mean" of these; what processes tell each other is not among."""
    inner = {"strategy", "server", "workload", "part", "gate", "journal", "options"}

    assert set(inspect.signature(load.run).parameters) - inner == set(asked.OF_EVERY_RUN)
