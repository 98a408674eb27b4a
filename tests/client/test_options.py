"""RunOptions: every refusal once; options as an object and as keywords."""

import dataclasses
import math

import pytest

from kvstore.client import load, run_in_process, workload
from kvstore.client.plan import RunOptions
from kvstore.client.strategies import (
    STRATEGIES,
    blocking,
    bounded,
    chained,
    pipelined,
    supports,
    tasks,
)

SMALL = workload.crud(value_bytes_mean=100)


@pytest.mark.parametrize("make_run", [load.run, run_in_process])
@pytest.mark.parametrize(
    ("says", "strategy", "settings"),
    [
        ("in_flight must be a whole number of 1 or more, got 0: with 0", bounded, {"in_flight": 0}),
        ("in_flight must be .* got 1.5", bounded, {"in_flight": 1.5}),
        ("in_flight must be .* got '8': write it without quotes", bounded, {"in_flight": "8"}),
        ("batch must be at most 65,535 operations, got 70,000", pipelined, {"batch": 70_000}),
        ("say how long: duration_s=10 for seconds, or calls=1000", bounded, {"calls": None}),
        ("calls must be a whole number, got 10.5", bounded, {"calls": 10.5}),
        ("duration_s must be above 0 seconds, got nan", bounded, {"duration_s": math.nan}),
        (
            "4 streams need at least as many requests in flight, got in_flight=2",
            pipelined,
            {"streams": 4, "in_flight": 2},
        ),
        ("bounded sends unary calls, so it has no batch", bounded, {"batch": 8}),
        (
            "2 connections need at least as many calls in flight, got 1",
            blocking,
            {"connections": 2},
        ),
        (
            "4 connections need at least as many streams, got 1",
            pipelined,
            {"in_flight": 8, "connections": 4},
        ),
        ("chained sends a call when another one ends", chained, {"rate_per_s": 10.0}),
        ("joins has 2 times and in_flight is 3", tasks, {"in_flight": 3, "joins": [0.0, 1.0]}),
        ("0 or more, in order", tasks, {"in_flight": 2, "joins": [2.0, 1.0]}),
        (
            "neither a run nor bounded has an option inflight: did you mean in_flight?",
            bounded,
            {"inflight": 8},
        ),
        ("bounded has an option colour$", bounded, {"colour": 8}),
        ("it lacks its parentheses$", bounded, {"workload": workload.reads}),
        ("strategy must be a function of kvstore.client.strategies.* got 'bounded'", "bounded", {}),
        ("an address is host:port", bounded, {"server": "localhost"}),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_sent(make_run, says, strategy, settings):
    usual = {"server": "127.0.0.1:1", "workload": SMALL, "calls": 1}
    with pytest.raises(ValueError, match=says):
        make_run(strategy, **{**usual, **settings})


@pytest.mark.parametrize("strategy", [s for s in STRATEGIES if not supports(s).joins])
def test_a_strategy_without_callers_of_its_own_is_refused_by_name(strategy):
    with pytest.raises(ValueError, match=f"join {strategy.__name__} one by one: only .* threads"):
        load.run(strategy, "127.0.0.1:1", SMALL, in_flight=1, calls=1, joins=[0.0])


def test_a_keyword_changes_an_option_and_the_run_keeps_all_of_them(quick_server):
    run = load.run(blocking, quick_server, SMALL, RunOptions(calls=9, deadline_s=8), calls=2)

    assert (2, 8) == (run.issued, run.settings["deadline_s"])
    assert run.settings.keys() >= {each.name for each in dataclasses.fields(RunOptions)}


def test_each_run_of_random_arrivals_draws_its_own_seed_and_keeps_one_that_it_was_told():
    options = RunOptions(rate_per_s=50, arrivals="random")
    drawn = {options.with_seed().seed for _ in range(3)}

    assert len(drawn) == 3
    assert None not in drawn
    assert dataclasses.replace(options, seed=7).with_seed().seed == 7
