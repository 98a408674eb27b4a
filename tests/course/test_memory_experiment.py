"""The forecast of when memory is full: by hand on made-up samples, and once for real."""

import dataclasses
import math

import numpy as np
import pandas as pd
import psutil
import pytest
from made_runs import run_of

from kvstore.course.lessons.lesson_02 import memory_experiment
from kvstore.course.lessons.lesson_02.memory_experiment import Line, Probe, memory_by_in_flight
from kvstore.measure import audit

MB = 1e6


def filled(calls=200, base=(100 * MB, 90 * MB), each=(50_000, 30_000)):
    """Calls sent at 100/s, of which none is answered; memory grows in proportion."""
    end_s = calls / 100
    sent_s = np.linspace(0.0, end_s, calls)
    at_s = np.linspace(0.0, end_s, 50)
    samples = pd.DataFrame({"elapsed_s": at_s, "in_flight": 100 * at_s, "answered": 0.0})
    for side, start, bytes_per_call in zip(memory_experiment.SIDES, base, each, strict=True):
        samples[f"{side}_rss_bytes"] = start + bytes_per_call * samples["in_flight"]
    after = {"elapsed_s": end_s + 1, "in_flight": 0.0, "answered": calls}
    freed = {
        f"{side}_rss_bytes": start
        for side, start in zip(memory_experiment.SIDES, base, strict=True)
    }
    samples = pd.concat([samples, pd.DataFrame([after | freed])], ignore_index=True)
    made = run_of([(sent, end_s + 1, "create") for sent in sent_s])
    return dataclasses.replace(made, sample_rows=samples.to_records(index=False))


def test_a_probe_reads_rates_and_the_cost_of_a_call_while_it_sends():
    """What happens after the last call was sent, when memory is freed, does not count."""
    seen = memory_experiment.probe(filled())

    assert (seen.sent_per_s, seen.answered_per_s) == pytest.approx((100.0, 0.0))
    assert seen.lines["client"].base_bytes == pytest.approx(100 * MB)
    assert seen.lines["client"].bytes_per_call == pytest.approx(50_000)
    assert seen.lines["server"].bytes_per_call == pytest.approx(30_000)


def test_a_probe_that_ended_at_once_says_so():
    with pytest.raises(ValueError, match=r"only 20 calls .* higher ceiling"):
        memory_experiment.probe(filled(calls=20))


def test_the_sooner_of_both_processes_binds():
    """100 MB of room at 50 kB and 980 calls more each second: 2.04 s; the server takes 3.4 s."""
    seen = Probe(1000.0, 20.0, {"client": Line(1e8, 50e3), "server": Line(1e8, 30e3)})

    assert memory_experiment.forecast(seen, 200 * MB).binds == "client"
    assert memory_experiment.forecast(seen, 200 * MB).value == pytest.approx(2.0408, abs=1e-4)
    assert memory_experiment.forecasts(seen, 200 * MB)["server"].value == pytest.approx(
        3.4014, abs=1e-4
    )


def test_a_server_that_keeps_up_is_never_full():
    seen = Probe(20.0, 20.0, {"client": Line(1e8, 50e3), "server": Line(1e8, 30e3)})

    assert memory_experiment.forecast(seen, 200 * MB).value == math.inf


def test_the_fact_is_read_off_the_run():
    run = filled()

    assert memory_experiment.stopped_s(run) == pytest.approx(2.0)
    assert memory_experiment.most_bytes(run) == pytest.approx(110 * MB)
    assert memory_experiment.reached_by(run) == "client"


def test_the_table_sets_each_number_of_the_forecast_beside_the_fact():
    table = memory_experiment.table(memory_experiment.probe(filled()), filled(400), 120 * MB)

    assert table.loc["ceiling reached (s)", "forecast"] == pytest.approx(4.0)
    assert [1.0] == list(table["fact ÷ forecast"].astype(float).dropna().round(2).unique())


@pytest.mark.slow
def test_memory_is_filled_to_the_ceiling_and_nothing_is_left_behind():
    """Speed is not asserted: the time is the machine's, the order of things is ours."""
    before = psutil.Process().children(recursive=True)
    done = memory_experiment.unlimited(150e6, probe_bytes=125e6)

    assert done.outcome == "memory ceiling"
    assert done.overshoot < 0.10
    assert done.forecast_s > 0
    assert done.fact_s > 0
    assert audit(done.run).holds
    assert before == psutil.Process().children(recursive=True)


@pytest.mark.usefixtures("no_windows")
def test_the_cost_of_a_call_is_the_slope_of_a_line():
    run = filled()
    ax = memory_by_in_flight(run, memory_experiment.probe(run))

    assert {"client", "server", "50 kB per call", "30 kB per call"} == {
        line.get_label() for line in ax.lines
    }
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("in flight (calls)", "resident memory (MB)")
