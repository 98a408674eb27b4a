"""figures and tables of saturation, by hand: the bound, the queues below it, the dots."""

import math

import pytest
from made_runs import staircase

from kvstore.course import views
from kvstore.model import Station, bounds, usl

STATIONS = [Station("disk", 0.040, math.inf), Station("processor", 0.010)]


def test_queues_cost_most_at_the_knee_and_never_pass_the_bound():
    runs = [staircase(10 * n, in_flight=n, strategy="tasks") for n in (1, 5, 50)]
    table = views.throughput.saturation_table(runs, STATIONS)
    lost = 1 - table["with queues (operations/s)"] / table["bound (operations/s)"]

    assert [20.0, 100.0, 100.0] == list(table["bound (operations/s)"])
    assert list(table["with queues (operations/s)"]) == pytest.approx(
        [bounds.exact_closed_loop(n, STATIONS).value for n in (1, 5, 50)], rel=1e-3
    )
    assert lost[5] > max(lost[1], lost[50])
    assert (lost >= -1e-3).all()


def test_a_fit_stands_beside_the_dots_it_was_made_from():
    fit = usl.fit([1, 2, 4, 8], [10, 18, 30, 40])
    table = views.throughput.saturation_table([staircase(10, in_flight=2)], STATIONS, fit=fit)

    assert pytest.approx(fit.throughput_per_s(2), rel=1e-3) == table.loc[2, "fitted (operations/s)"]
