"""Lesson 12: what its exercises accept, and the models of its questions."""

import dataclasses

import grpc
import numpy as np
import pandas as pd
import pytest
from made_runs import closed_loop

from kvstore.course.experiments import several_servers
from kvstore.course.lessons.lesson_12 import exercises as lesson_12
from kvstore.course.lessons.lesson_12 import questions as core
from kvstore.server import serving_sharded

# ---- the exercises -------------------------------------------------------------------------------


# ---- the experiment ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_channel_is_pinned_to_one_server_until_its_policy_is_another():
    """A canary for gRPC's default, `pick_first`, against real servers."""
    settings = {"use_asyncio": True, "locking": "global", "read_delay_s": 0.005}
    with serving_sharded(2, **settings) as both:
        addresses = [server.address for server in both.servers]
        with grpc.insecure_channel("ipv4:" + ",".join(addresses)) as channel:
            one = several_servers.spread_over(both.servers, channel, in_flight=8, duration_s=0.3)
        with lesson_12.spread(addresses) as channel:
            turns = several_servers.spread_over(both.servers, channel, in_flight=8, duration_s=0.3)

    assert max(one.answered) == sum(one.answered)
    assert max(turns.answered) < 1.2 * sum(turns.answered) / 2
    assert one.answered_per_s * one.window_s == pytest.approx(sum(one.answered))


# ---- models of the questions ---------------------------------------------------------------------


def of_fleet(*, first_s=(0.0, 0.01), counted=None, p99=None):
    """A run of two workers with one connection each."""
    run = closed_loop(2, 50, rounds=20)
    records = run.records.copy()
    half = len(records) // 2
    records["connection"] = np.repeat([0, 1], [half, len(records) - half])
    for worker, at_s in enumerate(first_s):
        mine = records["connection"] == worker
        shift = at_s - records["sent_s"][mine].min()
        records["sent_s"][mine] += shift
        records["done_s"][mine] += shift
    return dataclasses.replace(
        run,
        records=records,
        connections=2,
        settings={"workers": [{}, {}], "duration_s": 1.0},
        server={"operations": {"retrieve/OK": len(records) if counted is None else counted}},
        window_s=float(records["done_s"].max()),
    )


def test_the_table_of_workers_has_the_percentile_of_all_calls():
    run = of_fleet()
    table = core.workers_table(run)

    assert ["worker 1", "worker 2", "all together"] == list(table.index)
    assert len(run.records) == table.loc["all together", "calls"]
    assert len(run.records) == table["calls"].iloc[:2].sum()
    residence_s = pd.Series(run.records["done_s"] - run.records["sent_s"])
    assert 1e3 * residence_s.quantile(0.99) == pytest.approx(
        table.loc["all together", "p99 (ms)"], rel=0.01
    )
    alone = core.workers_table(closed_loop(2, 50, rounds=5))
    assert ["all together"] == list(alone.index)


def test_models_by_hand():
    question = {each.id: each for each in core.PREDICTIONS}

    assert 50 == pytest.approx(question["12.one_channel"].model(None).value)
    assert 90.9 == pytest.approx(question["12.hot_key"].model(closed_loop(40, 90)).value, rel=1e-3)
    assert 0.8 == question["12.moved"].model([], []).value
    assert 0.5 == question["12.moved"].measured([0, 1, 0, 1], [0, 1, 2, 2])
    assert 19.6 == pytest.approx(question["12.thousand"].model(None).value, rel=1e-2)
    assert 2.6 > core.bound(10**6, 0.4, 10**9).value * core.SERVICE_S


def test_without_dask_the_lesson_says_so_and_goes_on(monkeypatch, capsys):
    monkeypatch.setattr(core, "available", lambda: False)

    with core.fleet(2) as fleet:
        assert fleet is None
    assert "pip install distributed" in capsys.readouterr().out
