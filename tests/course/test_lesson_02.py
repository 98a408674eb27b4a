"""Lesson 02: the forecast of when memory is full, by hand on made-up samples and once for real."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from made_runs import run_of, staircase

from kvstore.course.lessons.lesson_02 import exercises, figures, memory_experiment
from kvstore.course.lessons.lesson_02.memory_experiment import Line, Probe, forecast, forecasts
from kvstore.measure import audit
from kvstore.model import Prediction
from kvstore.server import serving

MB = 1e6
SEEN = Probe(1000.0, 20.0, {"client": Line(1e8, 50e3), "server": Line(1e8, 30e3)})


def filled(calls=200):
    """Calls sent at 100/s, of which none is answered; memory grows, and is freed at the end."""
    end_s = calls / 100
    sent_s = np.linspace(0.0, end_s, calls)
    at_s = np.linspace(0.0, end_s, 50)
    samples = pd.DataFrame({"elapsed_s": at_s, "in_flight": 100 * at_s, "answered": 0.0})
    after = {"elapsed_s": end_s + 1, "in_flight": 0.0, "answered": calls}
    for side, base, each in (("client", 100 * MB, 50_000), ("server", 90 * MB, 30_000)):
        samples[f"{side}_rss_bytes"] = base + each * samples["in_flight"]
        after[f"{side}_rss_bytes"] = base
    samples = pd.concat([samples, pd.DataFrame([after])], ignore_index=True)
    made = run_of([(sent, end_s + 1, "create") for sent in sent_s])
    return dataclasses.replace(made, sample_rows=samples.to_records(index=False))


def test_a_probe_reads_rates_and_the_cost_of_a_call_while_it_sends():
    seen = memory_experiment.probe(filled())

    assert (seen.sent_per_s, seen.answered_per_s) == pytest.approx((100.0, 0.0))
    assert seen.lines["client"].base_bytes == pytest.approx(100 * MB)
    assert seen.lines["client"].bytes_per_call == pytest.approx(50_000)
    assert seen.lines["server"].bytes_per_call == pytest.approx(30_000)
    with pytest.raises(ValueError, match=r"only 20 calls .* higher ceiling"):
        memory_experiment.probe(filled(calls=20))


def test_the_sooner_of_both_processes_binds_and_a_server_that_keeps_up_is_never_full():
    """100 MB of room at 50 kB and 980 calls more each second: 2.04 s; the server takes 3.4 s."""
    assert forecast(SEEN, 200 * MB).binds == "client"
    assert forecast(SEEN, 200 * MB).value == pytest.approx(2.0408, abs=1e-4)
    assert forecasts(SEEN, 200 * MB)["server"].value == pytest.approx(3.4014, abs=1e-4)
    assert math.isinf(forecast(dataclasses.replace(SEEN, answered_per_s=1000.0), 200 * MB).value)


def test_the_table_sets_each_number_of_the_forecast_beside_the_fact():
    table = memory_experiment.table(memory_experiment.probe(filled()), filled(400), 120 * MB)

    assert table.loc["ceiling reached (s)", "forecast"] == pytest.approx(4.0)
    assert [1.0] == list(table["fact ÷ forecast"].astype(float).dropna().round(2).unique())


def test_memory_is_full_when_the_backlog_filled_it_second_by_second():
    memory_mb, seconds = 100.0, 0
    while memory_mb < 500.0:
        memory_mb, seconds = memory_mb + 0.05 * (1000 - 800), seconds + 1

    assert exercises.seconds_until_full(500, 100, 50, 1000, 800) == pytest.approx(seconds)


@pytest.mark.slow
def test_memory_is_filled_to_the_ceiling():
    """Speed is not asserted: the time is the machine's, the order of things is ours."""
    with serving(locking="global") as server:
        run = memory_experiment.fill(server, 150e6)

    assert run.outcome == "memory ceiling"
    assert memory_experiment.most_bytes(run) < 1.10 * 150e6
    assert forecast(memory_experiment.probe(run), 200e6).value > 0
    assert audit(run).holds


@pytest.mark.slow
@pytest.mark.usefixtures("no_windows")
class TestFigures:
    def test_the_cost_of_a_call_is_the_slope_of_a_line(self):
        ax = figures.memory_by_in_flight(filled(), memory_experiment.probe(filled()))
        names = {line.get_label() for line in ax.lines}

        assert {"client", "server", "50 kB per call", "30 kB per call"} == names

    def test_each_process_has_its_own_forecast_and_a_forecast_of_never_has_no_line(self):
        never = Prediction(math.inf, "s", "it does not grow")
        ax = figures.memory(filled(), {"client": never, "server": never}, 2e8)
        assert ax.get_xlim()[1] < 10

        both = {"client": Prediction(20.0, "s", ""), "server": Prediction(30.0, "s", "")}
        ax = figures.memory(filled(), both, 2e8)
        ends_s = {line.get_label(): line.get_xdata()[-1] for line in ax.lines}
        assert (ends_s["client, forecast"], ends_s["server, forecast"]) == (20.0, 30.0)

    def test_the_wait_for_the_kth_answer_is_predicted_by_a_line(self):
        ax = figures.latency_by_answer(staircase(30), Prediction(25.0, "calls/s", ""))
        (line,) = [line for line in ax.lines if line.get_label() == "predicted: k / X"]

        assert [(0, 0.0), (30, 1.2)] == [tuple(point) for point in line.get_xydata()]
