"""Lesson 02: the forecast of when memory is full, by hand on made-up samples and once for real."""

import dataclasses
import math

import pytest
from made_runs import filled

from kvstore.course.lessons.lesson_02 import memory_experiment
from kvstore.course.lessons.lesson_02.memory_experiment import Line, Probe, forecast, forecasts
from kvstore.measure import audit

SEEN = Probe(1000.0, 20.0, {"client": Line(1e8, 50e3), "server": Line(1e8, 30e3)})


def test_a_probe_reads_rates_and_the_cost_of_a_call_while_it_sends():
    seen = memory_experiment.probe(filled())

    assert (seen.sent_per_s, seen.answered_per_s) == pytest.approx((100.0, 0.0))
    assert seen.lines["client"].base_bytes == pytest.approx(100e6)
    assert seen.lines["client"].bytes_per_call == pytest.approx(50_000)
    assert seen.lines["server"].bytes_per_call == pytest.approx(30_000)
    with pytest.raises(ValueError, match=r"only 20 calls .* higher ceiling"):
        memory_experiment.probe(filled(calls=20))


def test_the_sooner_of_both_processes_binds_and_a_server_that_keeps_up_is_never_full():
    """100 MB of room at 50 kB and 980 calls more each second: 2.04 s; the server takes 3.4 s."""
    assert forecast(SEEN, 200e6).binds == "client"
    assert forecast(SEEN, 200e6).value == pytest.approx(2.0408, abs=1e-4)
    assert forecasts(SEEN, 200e6)["server"].value == pytest.approx(3.4014, abs=1e-4)
    assert math.isinf(forecast(dataclasses.replace(SEEN, answered_per_s=1000.0), 200e6).value)


def test_the_table_sets_each_number_of_the_forecast_beside_the_fact():
    table = memory_experiment.table(memory_experiment.probe(filled()), filled(400), 120e6)

    assert table.loc["ceiling reached (s)", "forecast"] == pytest.approx(4.0)
    assert [1.0] == list(table["fact ÷ forecast"].astype(float).dropna().round(2).unique())


@pytest.mark.slow
def test_memory_is_filled_to_the_ceiling():
    """Speed is not asserted: the time is the machine's, the order of things is ours."""
    run = memory_experiment.fill_memory(150)

    assert run.outcome == "memory ceiling"
    assert memory_experiment.most_bytes(run) < 1.10 * 150e6
    assert forecast(memory_experiment.probe(run), 200e6).value > 0
    assert audit(run).holds
