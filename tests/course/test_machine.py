"""What lesson 00 says of a machine, from runs with known facts."""

import dataclasses
import math
import re

import pytest
from made_runs import run_of, staircase
from matplotlib.text import Text

from kvstore.course import machine, rendering
from kvstore.course.figures import style
from kvstore.course.machine import fit
from kvstore.measure import Cpu
from kvstore.model import bounds
from kvstore.stations import StationTimes


def run_at(per_s, *, client_cpu_s=0.02, server_cpu_s=0.03, calls=100):
    """A run of `calls` calls, one after the other, at this throughput."""
    each_s = 1 / per_s
    made = run_of([(n * each_s, (n + 1) * each_s, "retrieve") for n in range(calls)])
    return dataclasses.replace(
        made, client_cpu=Cpu(client_cpu_s, 0.0), server_cpu=Cpu(0.0, server_cpu_s)
    )


def timed(asked_s, got_s):
    """A run against a server that was asked for one disk time and took others."""
    calls = [
        (n, n + 0.5, "retrieve", "OK", StationTimes(0.0, 0.0, disk_s, 0.0))
        for n, disk_s in enumerate(got_s)
    ]
    settings = {"read_delay_s": asked_s, "write_delay_s": asked_s}
    return dataclasses.replace(run_of(calls), server={"settings": settings})


GROUPS = {"A": [run_at(1000), run_at(1100)], "B": [run_at(1040), run_at(1060)]}
QUIET = machine.Noise(0.05, 0.01)


@pytest.mark.parametrize(
    ("spread", "verdict"),
    [(0.0, "quiet"), (0.10, "quiet"), (0.11, "usable"), (0.30, "usable"), (0.31, "noisy")],
)
def test_the_verdict_follows_from_the_spread(spread, verdict):
    assert verdict == machine.Noise(spread, 0.0).verdict


def test_noise_is_a_ratio_of_rates(page):
    found = machine.noise(GROUPS)

    assert math.isclose(0.1, found.spread, abs_tol=1e-9)
    assert math.isclose(0.0, found.between_medians, abs_tol=1e-9)
    assert len(page) == 1


def test_a_noisy_machine_is_told_what_to_do(page):
    machine.noise({"A": [run_at(1000), run_at(2000)], "B": [run_at(1000), run_at(1000)]})

    assert "Close other programs" in page[0]["text/plain"]
    assert "A noisy machine" in page[0]["text/html"]


def test_noise_needs_repetition():
    with pytest.raises(ValueError, match="two runs or more"):
        machine.noise({"A": [run_at(1000)], "B": [run_at(1000)]})


def test_the_price_of_a_call_is_processor_time_over_calls():
    price = machine.price_s(run_at(1000))

    assert (200e-6, 300e-6) == pytest.approx((price.client_s, price.server_s))
    assert math.isclose(500e-6, price.together_s)
    assert math.isclose(0.5, machine.cores_busy(run_at(1000)))


def test_with_two_cores_the_dearer_side_binds(monkeypatch):
    monkeypatch.setattr("kvstore.course.machine.facts.cores", lambda: 2)
    bound = bounds.closed_loop(100, machine.cpu_stations(run_at(1000)))

    assert (bound.binds, round(bound.value)) == ("CPU of the server", 3333)


def test_one_core_has_to_do_for_both(monkeypatch):
    monkeypatch.setattr("kvstore.course.machine.facts.cores", lambda: 1)

    assert math.isclose(2000, bounds.closed_loop(100, machine.cpu_stations(run_at(1000))).value)


def test_the_timer_table_tells_asked_from_got():
    row = machine.timer({"asyncio": timed(0.0025, [0.002, 0.0021, 0.0023])}).loc[("asyncio", 2.5)]

    assert [2.0, 2.1, 2.3, -0.4] == pytest.approx(list(row))


def test_the_timer_says_what_to_switch_on():
    run = dataclasses.replace(staircase(), server={"settings": {}})

    with pytest.raises(ValueError, match="station_times=True"):
        machine.timer({"threads": run})


def lessons(**changed):
    given = {
        "round_trip": run_at(2000),
        "crud": run_at(3000),
        "pipelined": run_at(9000, client_cpu_s=0.005, server_cpu_s=0.005),
        "noise": QUIET,
        "free_bytes": 4e9,
    }
    return machine.lessons(**given | changed)["this machine"]


def test_a_good_machine_can_show_every_lesson(monkeypatch):
    monkeypatch.setattr("kvstore.course.machine.facts.cores", lambda: 2)

    assert [fit.YES] * 11 == list(lessons())


def test_each_lesson_is_refused_for_its_own_reason(monkeypatch):
    monkeypatch.setattr("kvstore.course.machine.facts.cores", lambda: 2)
    slow = run_at(50)
    dear = run_at(3000, server_cpu_s=0.2)

    assert fit.TIGHT == lessons(noise=machine.Noise(0.5, 0.1))["00_start_here"]
    assert fit.NO == lessons(round_trip=slow)["01_blocking"]
    assert fit.NO == lessons(free_bytes=6e8)["02_futures"]
    assert fit.NO == lessons(crud=dear)["03_bounded"]
    assert fit.TIGHT == lessons(round_trip=run_at(500))["04_server"]
    assert fit.TIGHT == lessons(pipelined=run_at(1000, server_cpu_s=0.2))["05_pipelined"]
    assert (
        fit.TIGHT == lessons(round_trip=run_at(500, server_cpu_s=0.1))["07_threads_and_coroutines"]
    )
    assert fit.NO == lessons(free_bytes=6e8)["08_overload"]
    assert fit.NO == lessons(free_bytes=6e8)["09_beyond_one_machine"]
    dear_call = run_at(500, server_cpu_s=2.0)
    assert fit.NO == lessons(round_trip=dear_call)["10_design_one"]


def test_on_one_core_both_processes_share_its_time(monkeypatch):
    monkeypatch.setattr("kvstore.course.machine.facts.cores", lambda: 1)

    assert fit.TIGHT == lessons()["06_saturation"]


def test_a_machine_that_others_use_says_how_much(monkeypatch):
    """Six programs on four cores: one and a half for each."""
    monkeypatch.setattr("psutil.getloadavg", lambda: (6.0, 1.0, 1.0))
    monkeypatch.setattr("kvstore.course.machine.facts.cores", lambda: 4)

    assert 1.5 == machine.wanted_per_core()


def test_the_size_that_fits_keeps_the_processor_below_its_limit(monkeypatch):
    monkeypatch.setattr("kvstore.course.machine.facts.cores", lambda: 2)
    most = fit.most_in_flight(run_at(3000, server_cpu_s=0.1), 0.040)

    assert most / 0.040 * 0.001 <= fit.ROOM  # calls/s times 1 ms each
    assert 30 <= most <= 40


def test_the_host_names_processor_and_versions():
    table = machine.host()["this machine"]

    assert {"processor", "cores for this process", "memory", "python", "grpcio"} <= set(table.index)
    assert table["memory"].endswith(" GB")


@pytest.mark.slow
@pytest.mark.usefixtures("no_windows")
@pytest.mark.parametrize(
    ("draw", "given"),
    [
        (machine.draw_path, staircase(8, stations=True)),
        (machine.draw_round_trips, staircase(100)),
        (machine.draw_repeats, GROUPS),
        (machine.draw_cpu_per_call, {"threads": run_at(1000), "asyncio": run_at(2000)}),
        (machine.draw_timer, {"threads": timed(0.01, [0.0101, 0.0103])}),
    ],
)
def test_figures_are_large_and_name_their_units(draw, given):
    import matplotlib.pyplot as plt

    ax = plt.subplots()[1]
    assert ax is draw(given, ax=ax)
    ax.figure.canvas.draw()

    texts = [text for text in ax.findobj(Text) if text.get_text() and text.get_visible()]
    assert min(text.get_fontsize() for text in texts) >= style.TEXT_PT
    if draw is not machine.draw_path:
        assert re.search(r"\(.+\)", ax.get_xlabel())
        assert ax.get_ylabel()


def test_the_loops_part_of_a_price_is_told_where_there_is_a_loop():
    run = run_at(1000)
    looped = dataclasses.replace(run, client_cpu=run.client_cpu._replace(loop_s=run.issued * 80e-6))
    table = machine.cpu_per_call({"pool": run, "loop": looped})

    assert [rendering.NONE, 80] == list(table["client's loop (µs/call)"])
    assert "server's loop (µs/call)" not in table
