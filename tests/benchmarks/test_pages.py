"""ladder.py and performance.py: what a step is predicted from, and ratios within a round."""

import math

import pytest

from benchmarks import page
from benchmarks.cost import Cost, between
from benchmarks.coverage import Case, row
from benchmarks.ladder import READ_S, WRITE_S, drawn_disk_s
from benchmarks.ladder_page import Rung
from benchmarks.performance import rows
from benchmarks.turns import Turn
from kvstore.client import workload


@pytest.mark.parametrize(
    ("cost", "cores", "per_s", "binds"),
    [
        (Cost(0.001, 0.004, 0.001, 0.004), 2, 250.0, "server CPU"),
        (Cost(0.004, 0.001, 0.004, 0.001), 2, 250.0, "client CPU"),
        (Cost(0.004, 0.004, 0.004, 0.004), 1, 125.0, "all cores"),
        (Cost(0.002, 0.006, 0.001, 0.002), 2, 250.0, "all cores"),
    ],
)
def test_the_busier_process_binds_or_both_where_there_is_one_core(cost, cores, per_s, binds):
    predicted = cost.most(machine_cores=cores)

    assert (pytest.approx(per_s), binds) == (predicted.value, predicted.binds)


def test_each_side_has_a_cost_of_a_message_and_of_an_operation():
    """Client: 100 us a message and 1 us an operation; server: 40 us and 2 us."""
    ends = {
        1: Cost(101e-6, 42e-6, 101e-6, 42e-6),
        512: Cost(612e-6 / 512, 1064e-6 / 512, 612e-6 / 512, 1064e-6 / 512),
    }

    assert pytest.approx((150e-6 / 50, 140e-6 / 50)) == between(ends, 50)[:2]


def test_the_mix_of_the_seed_lies_between_a_read_and_a_write():
    """A quarter reads in the long run: 40 ms; the standard error of 25,000 draws is 0.1 ms."""
    mix = workload.crud(preload=500, value_bytes_mean=16)

    assert READ_S < drawn_disk_s(mix, 0.5) <= WRITE_S
    assert pytest.approx(0.040, abs=0.001) == drawn_disk_s(mix, 1_000.0)


def test_a_step_says_where_other_programs_had_the_cores():
    busy = Rung("batches", "no disk", 200.0, 100.0, "server CPU", 0.2, 0.9)

    assert not busy.starved
    assert busy._replace(server_busy=0.5).starved
    assert not busy._replace(server_busy=0.5, binds="disk").starved


def test_programs_are_compared_within_a_round():
    def turns(*rates: float, cpu_s: float) -> list[Turn]:
        return [Turn(rate, cpu_s) for rate in rates]

    first, second = rows(
        {
            "first": turns(100.0, 200.0, 1_000.0, cpu_s=1e-6),
            "other": turns(40.0, 300.0, 500.0, cpu_s=math.nan),
        }
    )

    assert second["of the first"] == "0.50"  # the median of 0.4, 1.5 and 0.5
    assert (first["CPU us of the client"], second["CPU us of the client"]) == ("1", "?")


def test_intervals_are_counted_with_their_half_widths():
    """0.8 to 1.25 of 100 is a quarter to each side on a log scale."""
    cases = [Case("steps", "a", 80.0, 125.0, at) for at in (81.0, 124.0, 100.0, 126.0)]

    assert {"part": "steps", "intervals": "4", "held": "75%", "median half width": "25%"} == row(
        "steps", cases
    )
    assert "0" == row("none", [])["intervals"]


def test_the_section_of_the_intervals_stays_behind_a_new_page(tmp_path):
    path = tmp_path / "performance.md"
    assert ("", "") == page.before_and_after(path)
    path.write_text(f"# Old\n\n{page.INTERVALS}\n\nkept\n")

    assert ("# Old\n\n", f"{page.INTERVALS}\n\nkept\n") == page.before_and_after(path)
