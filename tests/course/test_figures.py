"""Every figure of the course: what it says in words, its labels, its text and its legend.

What is drawn is read from the description that a screen reader gets: see `alt_text.described`.
"""

import math
import re
from functools import partial

import pandas as pd
import pytest
from made_runs import (
    climbed,
    closed_loop,
    filled,
    paced,
    run_of,
    staircase,
)
from matplotlib.colors import to_hex, to_rgb
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from kvstore.course import alt_text, machine, views
from kvstore.course.lessons.lesson_00 import first_climb
from kvstore.course.lessons.lesson_02 import figures as lesson_02
from kvstore.course.lessons.lesson_02 import memory_experiment
from kvstore.course.lessons.lesson_05 import batch_ladder
from kvstore.course.lessons.lesson_05 import figures as lesson_05
from kvstore.course.lessons.lesson_07 import figures as lesson_07
from kvstore.course.lessons.lesson_09 import figures as lesson_09
from kvstore.course.lessons.lesson_14 import figures as lesson_14
from kvstore.course.lessons.lesson_14.etcd_runs import Failover
from kvstore.course.progress import Question
from kvstore.course.views import calibration, style
from kvstore.model import Prediction, Station, batching
from kvstore.protocol import StationTimes

pytestmark = [pytest.mark.usefixtures("no_windows"), pytest.mark.slow]

ONE = staircase(30, stations=True)
MANY = staircase(200, in_flight=20, strategy="bounded", stations=True)
EMPTY = run_of([])
STATIONS = [Station("disk", 0.040, math.inf), Station("processor", 0.001)]
PREDICTED = Prediction(25.0, "calls/s", "1 / 40 ms")
BEHIND = Station("back end", 0.05, math.inf)
TIMES = StationTimes(pool_s=0.001, lock_s=0.002, disk_s=0.010, rest_s=0.001)
COST = batch_ladder.Cost(0.0001, 2e-6)
KILLED = Failover(1.0, 0.1, 100.0, 0.3, (0.35,), (0.1, 0.2, 0.3, 1.5), 0, {}, 1)


ROWS = [
    (
        partial(
            views.plot_answered_over_time, {"one": ONE, "many": MANY}, 25.0, cause_s=(0.1, 0.3)
        ),
        "one: 5 dots at (0.125, 24)",
        "predicted: a level line at 25",
    ),
    (partial(views.plot_calls_over_time, MANY), "create: 30 bars"),
    (partial(views.plot_calls_over_time, EMPTY), ""),
    (
        partial(
            views.plot_ceilings,
            {"disk": 90.0, "back end": 13.0},
            {"disk": 2.0, "back end": 5.0},
            60.0,
        ),
        "lets through: 2 dots at (180, 0), (65, 1)",
        "throughput: 60/s: an upright line at 60",
    ),
    (
        partial(
            views.plot_in_flight_over_time,
            run_of([(0.0, 10.0, "create"), *[(5.0, 10.0, "create")] * 9]),
        ),
        "measured: 2 dots at (2.5, 1), (7.5, 10)",
        "limit: a level line at 1",
    ),
    (partial(views.plot_in_flight_over_time, EMPTY), ""),
    (
        partial(views.plot_ladder, {"published": 16.55, "predicted": PREDICTED, "here": ONE}),
        "step (published, predicted, here)",
        "16.6/s; 25/s; 23.6/s; × 1.51; × 0.945",  # noqa: RUF001
    ),
    (partial(views.plot_mix, [ONE, MANY]), "create: 2 bars, long 26.7, 25"),
    (
        partial(
            views.plot_throughput_by_in_flight,
            [ONE, MANY],
            STATIONS,
        ),
        "0 to 1,200 over in flight, N (calls), 0 to 53.3",
        "(41, 1,000), (53.3, 1,000)",
        "measured: 2 dots at (1, 23.6), (20, 305)",
        "Notes: 1/D_max = 1,000/s (processor); N* = 41",
    ),
    (
        partial(views.plot_throughput_over_time, MANY, yours=25.0),
        "measured: 40 dots",
        "you said 25/s: a level line at 25",
    ),
    # In each slice more operations were answered than fit in the 16 bits that one call has.
    (
        partial(
            views.plot_throughput_over_time,
            closed_loop(16, 2_180_000.0, rounds=1_000, operations=1_024),
        ),
        "40 dots",
        "lowest 2,093,000",
        "highest 2,267,000",
    ),
    (partial(views.plot_throughput_over_time, EMPTY), ""),
    (
        partial(views.plot_time_by_station, [ONE, MANY]),
        "lock: 2 bars, long 1, 20",
        "disk: 2 bars, long 39.3, 40",
        "42.3 ms; 62 ms",
    ),
    (
        partial(
            calibration.plot_calibration,
            [
                Question("01.mix", value=25.0, measured=20.0, log_error=0.1),
                Question("01.reads", value=0.5, measured=1.0, log_error=0.3),
                Question("02.never", measured=7.0),
                Question("03.lock", value=2_500.0, measured=25.0, log_error=2.0),
            ],
        ),
        "lesson 01: 2 dots at (20, 25), (1, 0.5)",
        "lesson 03: 1 dot at (25, 2,500)",
    ),
    (
        partial(
            calibration.plot_class,
            pd.DataFrame(
                {
                    "student": ["a", "b", "a"],
                    "question": ["01.mix"] * 3,
                    "attempt": [1, 1, 2],
                    "predicted": [2.0, 4.0, 9.0],
                    "measured": [1.0, 1.0, 1.0],
                }
            ),
        ),
        "a student: 2 dots at (2, -0.125), (4, 0.125)",
        "median of the class: 1 dot at (3, 0)",
    ),
    (partial(first_climb.draw, {"one": 20.0, "many": 2_000.0}, 300.0), "300"),
    (
        partial(machine.draw_path, run_of([(0.0, 0.016, "retrieve", "OK", TIMES)])),
        "1 bar, long 2; 1 bar, long 1; 1 bar, long 2; 1 bar, long 10; 1 bar, long 1",
    ),
    (
        partial(lesson_02.latency_by_answer, staircase(30), PREDICTED),
        "predicted: k / X: a line through (0, 0), (30, 1.2)",
    ),
    (
        partial(lesson_02.memory_by_in_flight, filled(), memory_experiment.probe(filled())),
        "50 kB per call",
        "30 kB per call",
    ),
    (
        partial(
            lesson_02.memory,
            filled(),
            {"client": Prediction(20.0, "s", ""), "server": Prediction(30.0, "s", "")},
            2e8,
        ),
        "client, forecast: a line",
        "(20, ",
        "server, forecast: a line",
        "(30, ",
    ),
    (
        partial(
            lesson_02.memory,
            filled(),
            {"client": Prediction(math.inf, "s", ""), "server": Prediction(math.inf, "s", "")},
            2e8,
        ),
        "elapsed (s), 0 to 3",
    ),
    (
        partial(
            lesson_05.climbed,
            {
                k: closed_loop(4, 0.9 * COST.throughput(k).value, operations=k)
                for k in (1, 4, 16, 64, 256, 1_024)
            },
            COST,
        ),
        "k / (a + b·k): a line from (1, 9,804)",
        "gave a and b: 2 dots at (1, 8,824), (1,024, ",
        "tests them: 4 dots at (4, ",
        "1/b = 500,000/s",
        "90 % of 1/b",
        "N·(a + b·k): a line from (1, 0.408)",
    ),
    (
        partial(
            lesson_07.residence_in_climb, {"pool": climbed()}, {"pool": [Station("p", 0.05, 4)]}
        ),
        "predicted, pool: a line from (0.0526, 50) to (1.5, 100)",
        "highest 50",
    ),
    (
        partial(
            lesson_07.threads_in_climb,
            {"pool": climbed(), "loop": climbed()},
            {"pool": 4, "loop": 0},
        ),
        "predicted, pool: a line from (0, 12) to (1.5, 15)",
        "predicted, loop: a level line at 11",
    ),
    # Eight users of 20 calls a second each.
    (
        partial(lesson_07.throughput_in_climb, {"run": climbed()}, {"run": [BEHIND]}),
        "predicted, run: a line from (0, 0) to (1.5, 160)",
        "run: 15 dots from (0.05, 10)",
    ),
    (
        partial(
            views.plot_ribbon,
            [1, 10, 100],
            [[0, 2, 4], [6, 5, 5], [9, 5, 4]],
            law=[4, 4, 4],
            runs={10: 3.0},
            xlabel="calls",
            ylabel="mean (ms)",
            title="Many runs",
            logarithmic=True,
        ),
        "Many runs. mean (ms), ",
        "the law: a level line at 4",
        "one real run: 1 dot at (10, 3)",
        "90 % of the simulations: a ribbon, 0 to 9 at 1 and 4 to 5 at 100",
    ),
    (
        partial(
            lesson_09.goodput_by_offered,
            {"no limit": [paced(60, per_s=20.0)]},
            {"no limit": lambda per_s: PREDICTED},
        ),
        "predicted: no limit: a level line at 25",
        "measured: no limit: 1 dot at (20, 13.3)",
    ),
    (
        partial(
            lesson_14.throughput_by_commit,
            {"one by one": {1: ONE}, "in groups": {20: MANY, 1: ONE}},
            {
                "one by one": lambda n: batching.one_by_one(n, fsync_s=0.03),
                "in groups": lambda n: batching.in_groups(n, fsync_s=0.03),
            },
        ),
        "predicted: one by one: a level line at 33.3",
        "in groups: a line from (1, 33.3) to (20, 333)",
    ),
    (partial(lesson_14.acknowledged_over_time, KILLED), "leader killed: an upright line at 0.35"),
]


def name_of(draw):
    return getattr(draw, "func", draw).__name__


@pytest.mark.parametrize("row", ROWS, ids=lambda row: name_of(row[0]))
def test_a_figure_says_what_it_shows_and_can_be_read(row):
    draw, *says = row
    made = draw()
    ax = made[0] if isinstance(made, list) else made
    said = alt_text.described(ax.figure)

    assert [] == [each for each in says if each not in said], said
    assert [] == under_the_legends(ax.figure)
    units = r"\(.+\)|per second|X·R / N"
    assert re.search(units, ax.get_xlabel() + ax.get_ylabel()) or not ax.axison
    texts = [text for text in ax.figure.findobj(Text) if text.get_text() and text.get_visible()]
    assert min(text.get_fontsize() for text in texts) >= style.TEXT_PT


def under_the_legends(figure):
    """Every text, dot and bar of which a part lies under a legend, and each legend that is cut."""
    figure.canvas.draw()
    found = []
    for key in figure.findobj(Legend):
        area = key.get_window_extent()
        own = set(key.findobj(Text))
        if not (figure.bbox.x0 <= area.x0 < area.x1 <= figure.bbox.x1) or area.y1 > figure.bbox.y1:
            found.append("cut legend")
        found += [
            f"text {text.get_text()!r}"
            for text in figure.findobj(Text)
            if text not in own and text.get_visible() and text.get_text().strip()
            if area.overlaps(text.get_window_extent())
        ]
        for ax in figure.axes:
            for line in ax.lines:
                if line.get_marker() not in ("None", "none", "", None):
                    radius = 0.5 * line.get_markersize() * figure.dpi / 72
                    seen = Bbox.intersection(area.padded(radius), ax.bbox)
                    places = line.get_transform().transform(line.get_xydata())
                    found += [f"dot {at}" for at in places if seen and seen.contains(*at)]
            found += [
                f"bar {bar}"
                for bar in ax.patches
                if (seen := Bbox.intersection(bar.get_window_extent(), ax.bbox))
                if area.overlaps(seen)
            ]
    return found


def test_blocking_calls_make_a_staircase_whose_kinds_differ_in_colour_and_in_hatching():
    ax = views.plot_calls_over_time(ONE, most=10)
    bars = sorted((bar for group in ax.containers for bar in group), key=lambda bar: bar.get_y())
    looks = {group.get_label(): group[0] for group in ax.containers}

    ends = [bar.get_x() + bar.get_width() for bar in bars]
    assert [bar.get_x() for bar in bars[1:]] == pytest.approx(ends[:-1], abs=1e-9)
    assert {"create", "retrieve", "update", "delete"} == set(looks)
    assert len({to_hex(bar.get_facecolor()) for bar in looks.values()}) == 4
    assert len({bar.get_hatch() for bar in looks.values()}) == 4


def test_a_figure_has_no_ground_and_its_text_is_seen_on_white_and_on_black():
    ax = views.plot_throughput_by_in_flight([ONE, MANY], STATIONS)
    ax.set_title("a title")
    figure = ax.figure
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(Text) if text.get_text().strip()]

    for colour in {to_hex(text.get_color()) for text in texts if text.get_visible()}:
        for ground in ("#ffffff", "#111111"):
            assert contrast(colour, ground) > 3.5, (colour, ground)
    assert 0.0 == ax.patch.get_facecolor()[3]
    shown = alt_text.Described(lambda each: (each.get_facecolor(), {}))
    assert 0.0 == shown(figure)[0][3]
    assert 1.0 == figure.get_facecolor()[3]  # so that no front end gives it one


def contrast(one, other):
    """The contrast of two colours as WCAG 2 defines it."""

    def luminance(colour):
        parts = [
            c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)
        ]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="station_times=True"):
        views.plot_time_by_station(staircase())
    with pytest.raises(ValueError, match="predict, run and compare first"):
        calibration.plot_calibration([])
