"""ladder.py and ladder_page.py: what a rung is predicted from, and the page of all rungs."""

import re
from datetime import date
from functools import partial
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from benchmarks.cost import Cost, between
from benchmarks.ladder import READ_S, WRITE_S, _rung, drawn_disk_s
from benchmarks.ladder_page import Rung, draw, four_digits, write_page
from kvstore.client import load, strategies, workload
from kvstore.model import Prediction

HOST = {"processor": "a processor", "cores": 2, "python": "3.13.1", "grpcio": "1.85", "uvloop": "1"}
PACE = "5 rounds of 2.5 s for each step"
RUNGS = [
    Rung("blocking", "a slow disk", 25.0, 24.0, "calls in flight", 0.01, 0.02),
    Rung("100 tasks", "no disk", 10_000.0, 11_000.0, "server CPU", 0.7, 1.1),
    Rung("batches", "no disk", 1_000_000.0, 1_234_567.0, "client CPU", 1.0, 0.9),
]


# ---- the parts -----------------------------------------------------------------------------


def test_the_busier_process_binds_or_both_where_there_is_one_core(subtests):
    for cost, cores, per_s, binds in [
        (Cost(0.001, 0.004, 0.001, 0.004), 2, 250.0, "server CPU"),
        (Cost(0.004, 0.001, 0.004, 0.001), 2, 250.0, "client CPU"),
        (Cost(0.004, 0.004, 0.004, 0.004), 1, 125.0, "all cores"),
        (Cost(0.002, 0.006, 0.001, 0.004), 4, 250.0, "server CPU"),
        (Cost(0.002, 0.006, 0.001, 0.002), 2, 250.0, "all cores"),
    ]:
        with subtests.test(cost=cost, cores=cores, per_s=per_s, binds=binds):
            predicted = cost.most(machine_cores=cores)

            assert (pytest.approx(per_s), binds) == (predicted.value, predicted.binds)


def test_each_side_has_an_a_and_a_b_of_its_own():
    """Client: 100 us a message and 1 us an operation; server: 40 us and 2 us."""
    ends = {
        1: Cost(101e-6, 42e-6, 101e-6, 42e-6),
        512: Cost(612e-6 / 512, 1064e-6 / 512, 612e-6 / 512, 1064e-6 / 512),
    }

    assert pytest.approx((101e-6, 42e-6)) == between(ends, 1)[:2]
    assert pytest.approx((150e-6 / 50, 140e-6 / 50)) == between(ends, 50)[:2]


def test_reads_only_take_a_reads_time():
    assert pytest.approx(READ_S) == drawn_disk_s(workload.reads(), 1.0)


def test_the_mix_of_the_seed_lies_between_a_read_and_a_write():
    """A quarter reads in the long run: 40 ms; the standard error of 25,000 draws is 0.1 ms."""
    mix = workload.crud(preload=500, value_bytes_mean=16)

    assert READ_S < drawn_disk_s(mix, 0.5) <= WRITE_S
    assert pytest.approx(0.040, abs=0.001) == drawn_disk_s(mix, 1_000.0)


# ---- the page ------------------------------------------------------------------------------


def test_a_page_is_the_same_from_the_same_rungs(tmp_path: Path):
    """So that a change of the committed figure is a change of what was measured."""
    (tmp_path / "again").mkdir()

    once = [path.read_bytes() for path in write_page(tmp_path, RUNGS, HOST, PACE)]
    again = [path.read_bytes() for path in write_page(tmp_path / "again", RUNGS, HOST, PACE)]

    assert once == again
    assert not any(str(tmp_path).encode() in written for written in once)


def test_the_interval_of_a_prediction_stands_in_the_table_and_in_the_figure(tmp_path: Path):
    wide = RUNGS[0]._replace(interval_per_s=(20.0, 30.0))

    assert ("25", "25 (20 to 30)") == (RUNGS[0].predicted, wide.predicted)
    page = write_page(tmp_path, [wide, *RUNGS[1:]], HOST, PACE)[1].read_text(encoding="utf-8")
    assert "| 25 (20 to 30) |" in page
    bars = draw([wide, *RUNGS[1:]], Figure().add_subplot()).patches
    assert [(20.0, 10.0), (10_000.0, 0.0)] == [(bar.get_x(), bar.get_width()) for bar in bars[:2]]


def test_the_table_has_a_row_for_each_rung_and_says_on_what(tmp_path: Path):
    page = write_page(tmp_path, RUNGS, HOST, PACE)[1].read_text("utf-8")

    assert "| blocking | a slow disk | 25 | 24 | 0.96 | calls in flight |" in page
    assert "| batches | no disk | 1,000,000 | 1,235,000 | 1.23 | client CPU |" in page
    assert "1.00 / 0.90 | 51,440 |" in page
    assert f"Measured on {date.today().isoformat()}: a processor, 2 cores, python 3.13.1" in page


def test_a_page_says_what_a_machine_that_is_shared_did_meanwhile(tmp_path: Path):
    quiet = write_page(tmp_path, RUNGS, HOST, PACE)[1].read_text("utf-8")
    shared = write_page(
        tmp_path,
        [*RUNGS, RUNGS[-1]._replace(stolen=0.41)],
        {**HOST, "cores_kept_awake": 2},
        PACE,
    )[1].read_text("utf-8")

    assert f"{PACE}; the parts of its prediction" in quiet
    assert "kept awake" not in quiet
    assert "took up to" not in quiet
    assert "kept awake (`--awake`)" in shared
    assert "took up to 0.41 of its cores" in shared


# ---- a rung --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_rung_is_the_mean_of_rounds_each_predicted_before_its_run(capsys):
    """Predictions and runs alternate, so a machine that slows down affects both."""
    events = []

    def parts():
        events.append("predicted")
        return Prediction(10.0 * len(events), "calls/s", "made up", "nothing")

    def run(server):
        events.append("ran")
        return load.run(strategies.blocking, server, workload.reads(value_bytes_mean=16), calls=5)

    settings = {"read_delay_s": 0, "write_delay_s": 0}
    rung = _rung("blocking", "no disk", parts, settings, run, rounds=3)

    assert ["predicted", "ran"] * 3 == events
    assert (10.0 + 30.0 + 50.0) / 3 == rung.predicted_per_s
    assert rung.measured_per_s > 0
    assert rung.binds == "nothing"
    assert "predicted 50 calls/s" in capsys.readouterr().err


@pytest.mark.slow
def test_a_call_that_ends_in_another_way_than_the_mix_allows_is_reported():
    hasty = partial(
        load.run,
        strategies.blocking,
        workload=workload.Workload(mix={"create": 1}),
        calls=1,
        deadline_s=0.005,
    )
    never = Prediction(1.0, "calls/s", "made up")

    with pytest.raises(RuntimeError, match=r"cut: every call should be .*DEADLINE_EXCEEDED"):
        _rung("cut", "", lambda: never, {"write_delay_s": 1.0}, hasty, rounds=1)


def test_a_page_says_where_other_programs_had_the_cores(tmp_path: Path, subtests):
    for binds, busy, starved in [
        ("server CPU", (0.2, 0.5), True),
        ("server CPU", (0.2, 0.9), False),
        ("disk", (0, 0), False),
    ]:
        with subtests.test(binds=binds, busy=busy, starved=starved):
            rungs = [*RUNGS, Rung("the last", "no disk", 200.0, 100.0, binds, *busy)]
            page = write_page(tmp_path, rungs, HOST, PACE)[1].read_text("utf-8")

            assert starved == ("other programs used the cores: the last." in page)


def test_the_figure_names_every_rung_its_ratio_and_its_unit():
    axes = draw(RUNGS, Figure().add_subplot())
    said = [text.get_text() for text in axes.texts]

    assert [rung.name for rung in RUNGS] == [label.get_text() for label in axes.get_yticklabels()]
    assert "operations/s" in axes.get_xlabel()
    assert axes.get_xscale() == "log"
    assert any(re.fullmatch(r"24/s, 0\.96 . predicted", text) for text in said)
    assert ["a slow disk", "no disk"] == [text for text in said if "disk" in text]


def test_numbers_have_four_digits_and_no_power_of_ten(subtests):
    for value, text in [(22.904, "22.9"), (1_234_567.0, "1,235,000"), (0.5, "0.5"), (100, "100")]:
        with subtests.test(value=value, text=text):
            assert text == four_digits(value)
