"""Bursts in tables and pictures: turn by turn, by their ends, and the collections meanwhile."""

import pytest
from made_runs import run_of, staircase

from kvstore.course import views
from kvstore.measure import Sample

pytestmark = [pytest.mark.usefixtures("no_windows"), pytest.mark.slow]

CALLS = [
    (0.0, 0.4, "retrieve"),
    (0.1, 0.5, "retrieve", "CANCELLED"),
    (1.0, 1.2, "retrieve"),
    (1.1, 1.6, "retrieve", "RESOURCE_EXHAUSTED"),
]
SAMPLES = [Sample(at_s, 2, 0, 0, 1e8 + 1e8 * at_s, 5e7, 1, 1) for at_s in (0.2, 0.3, 1.3)]
TWO = run_of(CALLS, strategy="turns", in_flight=2, samples=SAMPLES)


def test_each_turn_has_its_row():
    table = views.overload.turns_table(TWO, 0.4, memory={"client": 150.0})

    assert [0.5, 0.6] == table["answered after (s)"].tolist()
    assert [0.4, 0.4] == table["predicted (s)"].tolist()
    assert [1, 1] == table["not OK (calls)"].tolist()
    assert [130.0, 230.0] == table["client, most (MB)"].tolist()
    assert [150.0, 150.0] == table["client, predicted (MB)"].tolist()


def test_ends_are_counted_by_name():
    table = views.endings_table({"two turns": TWO})

    assert {
        "sent (calls)": 4, "OK (calls)": 2, "CANCELLED (calls)": 1, "RESOURCE_EXHAUSTED (calls)": 1
    } == table.loc["two turns"].to_dict()  # fmt: skip


def test_ends_differ_in_colour_and_hatching():
    bars = views.plot_endings({"two turns": TWO}).containers

    assert 3 == len({(bar[0].get_facecolor(), bar[0].get_hatch()) for bar in bars})


def test_collections_are_told_for_each_side():
    run = staircase(40, in_flight=4)
    table = views.collections_table({"left": run})
    end_s = run.samples["elapsed_s"].iloc[-1]

    assert ["left, client", "left, server"] == list(table.index)
    assert pytest.approx(90 * end_s, rel=1e-3) == table["young (collections)"].iloc[0]
    assert pytest.approx(2 * end_s, rel=1e-3) == table["paused (ms)"].iloc[1]
    each_of_1000 = 1e3 * 100 * end_s / 40
    assert pytest.approx(each_of_1000, rel=1e-3) == (table["per 1,000 calls (collections)"].iloc[0])


def test_memory_has_a_line_for_each_side_that_was_predicted():
    ax = views.plot_turns(TWO, memory={"client": 150.0, "server": 60.0})
    lines = [line.get_ydata()[0] for line in ax.lines if "predicted" in line.get_label()]

    assert [150.0, 60.0] == lines
    assert "memory" in ax.get_ylabel()


def test_a_run_without_samples_has_no_collections_to_show():
    views.plot_collections({"empty": run_of(CALLS)})

    assert views.collections_table({"empty": run_of(CALLS)})["young (collections)"].isna().all()
