"""The geometry of every figure: labels, units, sizes and legends."""

import itertools
import math
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from failures import failures
from made_runs import climbed, closed_loop, paced, run_of, staircase
from matplotlib.colors import to_hex, to_rgb
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from kvstore.course import rendering, views
from kvstore.course.experiments.several_servers import FanOut, Reads
from kvstore.course.lessons.lesson_05 import batch_figures, batch_ladder, figures
from kvstore.course.lessons.lesson_06 import figures as lesson_06
from kvstore.course.lessons.lesson_07 import figures as lesson_07
from kvstore.course.lessons.lesson_09 import figures as lesson_09
from kvstore.course.lessons.lesson_10 import figures as lesson_10
from kvstore.course.lessons.lesson_11 import figures as lesson_11
from kvstore.course.lessons.lesson_12 import figures as lesson_12
from kvstore.course.lessons.lesson_14 import figures as lesson_14
from kvstore.course.lessons.lesson_16 import figures as lesson_16
from kvstore.course.views import style
from kvstore.load_test import Calibration, Estimate, Level
from kvstore.model import Prediction, Station, batching, bounds, scaling, simulate, usl
from kvstore.protocol import StationTimes

pytestmark = [pytest.mark.usefixtures("no_windows"), pytest.mark.slow]

ONE = staircase(30, stations=True)
MANY = staircase(200, in_flight=20, strategy="bounded", stations=True)
STATIONS = [Station("disk", 0.040, math.inf), Station("processor", 0.001)]
PREDICTED = Prediction(25.0, "calls/s", "1 / 40 ms")
PACED = paced(60, per_s=20.0)
FLOWS = {"no limit": lambda per_s: PREDICTED, "at most 10": lambda per_s: min(per_s, 25.0)}
FIT = usl.fit([1, 2, 4, 8, 16], [24, 46, 80, 110, 120])
ARGUMENTS = {
    "answered_over_time": (({"one": ONE, "many": MANY}, 25.0), {"cause_s": (0.1, 0.3)}),
    "attempts_over_time": (([ONE, MANY],), {}),
    "by_setting": (
        ({"1": 2.0, "2": 3.0}, {"1": 2.5, "2": 3.5}),
        {"xlabel": "servers (number)", "ylabel": "throughput (calls/s)"},
    ),
    "calls_over_time": ((MANY,), {}),
    "collections": (({"left": MANY, "settled": ONE},), {}),
    "endings": (([ONE, MANY],), {}),
    "goodput_by_offered": (({"no limit": [PACED], "at most 10": [PACED]}, FLOWS), {}),
    "in_flight_over_time": ((MANY,), {}),
    "ladder": (({"published": 16.55, "predicted": PREDICTED, "here": ONE},), {}),
    "limit_over_time": (([(0.0, 1), (0.4, 2), (0.9, 1)], PREDICTED), {}),
    "moved_keys": (({1: 0.52, 2: 0.66, 4: 0.81},), {}),
    "memory_in_burst": (({"no limit": MANY, "at most 10": ONE},), {}),
    "mix": (([ONE, MANY],), {}),
    "saturation": (([ONE, MANY], STATIONS), {"fit": FIT}),
    "side_by_side": (({"1a": ONE, "1b": MANY}, {"1a": MANY, "1b": MANY}), {"name": "ghz"}),
    "throughput": (([ONE, MANY], [PREDICTED, 500.0]), {}),
    "throughput_by_in_flight": (([ONE, MANY], STATIONS), {}),
    "throughput_over_time": ((MANY, PREDICTED), {}),
    "time_by_station": (([ONE, MANY],), {}),
    "memory_by_turn": ((MANY, {"client": 80.0, "server": 60.0}), {}),
}
JOINED = {"pool": climbed(), "loop": climbed()}
PARTS = {"pool": [Station("pool", 0.05, 4)], "loop": [Station("back end", 0.05, math.inf)]}
PLAYED = {"pool": [simulate.Call(0.0, 0.0, 0.05)]}
ARGUMENTS |= {
    "residence_in_climb": ((JOINED, PARTS), {}),
    "threads_in_climb": ((JOINED, {"pool": 4, "loop": 0}), {}),
    "throughput_in_climb": ((JOINED, PARTS, PLAYED), {}),
}
BATCHES = ({1: ONE, 32: MANY}, {"per_message_s": 1e-3, "per_operation_s": 1e-4, "fitted": (1,)})
ARGUMENTS |= {
    "residence_by_batch": (BATCHES[:1], BATCHES[1]),
    "throughput_by_batch": (BATCHES[:1], BATCHES[1]),
}
BY_SERVERS = {"even": {1: 25.0, 2: 48.0}, "a hot key": {2: 24.0}}
PER_SERVER = {"even": lambda servers: 25.0 * servers, "a hot key": lambda _: PREDICTED}
PLAYED_ON = scaling.closed_loop(4, [0.75, 0.25], 0.040, rounds=50, warm_up=10)
QUICK, SLOW = Reads(np.array([0.01, 0.2]), 2, 2), Reads(np.array([0.2, 0.3]), 4, 2)
FANNED_OUT = FanOut(np.array([[0.01, 0.02], [0.01, math.inf], [0.03, 0.01]]))
ARGUMENTS |= {
    "simulated_over_time": ((PLAYED_ON, PREDICTED), {}),
    "slow_by_servers": ((FANNED_OUT, 0.02, lambda servers: 0.2 * servers), {}),
    "slow_by_hedging": (({"one": QUICK, "two": SLOW}, 0.1, {"one": 0.1, "two": PREDICTED}), {}),
    "throughput_by_servers": ((BY_SERVERS, PER_SERVER, {"even": {4: PLAYED_ON}}), {}),
}
ARGUMENTS |= {
    "throughput_by_commit": (({"one by one": {1: ONE}, "in groups": {20: MANY, 1: ONE}}, {
        "one by one": lambda n: batching.one_by_one(n, fsync_s=0.03),
        "in groups": lambda n: batching.in_groups(n, fsync_s=0.03),
    }), {}),
}  # fmt: skip
ARGUMENTS |= {
    "ceilings": (({"disk": 90.0, "back end": 13.0}, {"disk": 2.0, "back end": 5.0}, 60.0), {}),
}
SEEN = Calibration(
    levels=[
        Level(
            in_flight=n,
            throughput=Estimate.within(min(95.0 * n, 580.0), 0.01),
            residence=Estimate.within(max(0.0105, n / 580), 0.01),
        )
        for n in (1, 2, 4, 8, 16)
    ],
    machine_cores=2,
)
ARGUMENTS |= {
    "levels": ((SEEN, MANY), {}),
}
ROOMS = (
    batch_figures, lesson_06, lesson_07, lesson_09, lesson_10, lesson_12, lesson_14, lesson_16,
    lesson_11,
)  # fmt: skip
FIGURES = {name: getattr(views, f"plot_{name}", None) for name in ARGUMENTS}
FIGURES |= {
    name: getattr(room, name) for room in ROOMS for name in ARGUMENTS if hasattr(room, name)
}
NAMES = sorted(FIGURES)


def drawn(name, **more):
    arguments, named = ARGUMENTS[name]
    made = FIGURES[name](*arguments, **named, **more)
    return made[0] if isinstance(made, list) else made


def both_axes_name_what_they_show_with_units(ax):
    labels = [ax.get_xlabel(), ax.get_ylabel()]
    assert all(labels)
    assert any(re.search(r"\(.+\)", label) for label in labels), labels
    plain = [label for label in labels if not re.search(r"\(.+\)", label)]
    assert {label.partition(",")[0] for label in plain} <= {"run", "step", "station", "servers"}


def every_text_is_large(ax):
    texts = [text for text in ax.figure.findobj(Text) if text.get_text() and text.get_visible()]
    assert texts
    small = [text.get_text() for text in texts if text.get_fontsize() < style.TEXT_PT]
    assert not small, small


def no_legend_covers_a_text_or_a_dot(ax):
    covered = under_the_legends(ax.figure)
    assert not covered, covered


def closed_after(check):
    """Return the check with every figure closed when it ends."""

    def run(case):
        try:
            check(case)
        finally:
            plt.close("all")

    return run


@pytest.mark.timeout(600)  # it draws all figures
def test_the_geometry_of_every_figure():
    def check(name):
        ax = drawn(name)
        no_legend_covers_a_text_or_a_dot(ax)  # it draws the figure, which takes most of the time
        both_axes_name_what_they_show_with_units(ax)
        every_text_is_large(ax)

    assert {} == failures(closed_after(check), NAMES)


def lock_and_programs():
    """Lesson 03: on one pair of axes a server with one lock, and one without, up to 100 calls."""
    flights = [1, 2, 5, 10, 20, 50, 100]
    lock = [Station("lock", 0.040)]
    parts = [
        Station("disk", 0.040, math.inf),
        Station("round trip", 0.0005, math.inf),
        Station("client and server", 1 / 2_500),
    ]
    spread = [closed_loop(n, min(24.0 * n, 2_100.0)) for n in flights]
    ax = views.plot_throughput_by_in_flight([closed_loop(n, 24.5) for n in flights], lock)
    return views.plot_throughput_by_in_flight(spread, parts, ax=ax)


def two_pools():
    """Lesson 04: two sizes of a thread pool, of which each has its N*."""
    ax = None
    for threads in (4, 32):
        runs = [closed_loop(n, 24.0 * min(n, threads)) for n in (1, 4, 16, 64)]
        ax = views.plot_throughput_by_in_flight(
            runs, [Station("thread pool", 0.040, threads)], ax=ax
        )
    return ax


def backlog():
    """Lesson 02: the notebook adds the predicted line to a finished figure."""
    ax = views.plot_in_flight_over_time(MANY)
    ax.plot([0, 0.3, 0.6], [0, 20, 0], label="predicted: λ - X, then -X")
    style.key_above(ax)
    return ax


def past_the_peak():
    """Lesson 06: beyond the knee throughput falls, and four names stand in the legend."""
    flights = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    rates = [900, 1_700, 3_000, 4_300, 4_800, 4_700, 4_300, 3_600, 2_700, 1_900]
    parts = [Station("round trip", 0.0009, math.inf), Station("server processor", 0.0002)]
    runs = [closed_loop(n, x) for n, x in zip(flights, rates, strict=True)]
    return views.plot_saturation(runs, parts, fit=usl.fit(flights, rates))


def batches_side_by_side():
    """Lesson 05: two figures in one, each with a legend of its own."""
    cost = batch_ladder.Cost(0.0001, 2e-6)
    sizes = (1, 4, 16, 64, 256, 1_024)
    runs = {k: closed_loop(4, 0.9 * cost.throughput(k).value, operations=k) for k in sizes}
    return figures.climbed(runs, cost)[0]


def three_workloads():
    """Lesson 12: axes for each workload."""
    names = ("even keys", "Zipf 0.99", "one hot key in ten")
    runs = {name: {n: 900.0 * n for n in (1, 2, 4)} for name in names}
    predicted = {name: lambda servers: 1_000.0 * servers for name in names}
    return lesson_12.throughput_by_servers(
        runs, predicted, {name: {2: PLAYED_ON} for name in names}
    )[0]


def many_named_predictions():
    """Lesson 01: the names of predictions stand one above the other over the axes."""
    return views.plot_throughput(ONE, {"slowest decides": 20.0, "mean of times": PREDICTED})


LESSONS = (
    lock_and_programs,
    two_pools,
    backlog,
    past_the_peak,
    batches_side_by_side,
    three_workloads,
    many_named_predictions,
)
"""Figures as lessons draw them, with runs like those that are measured there."""


def under_the_legends(figure):
    """Every text, dot and bar of which a part lies under a legend, in words."""
    figure.canvas.draw()
    found = []
    for key in figure.findobj(Legend):
        area = key.get_window_extent()
        own = set(key.findobj(Text))
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


def test_no_legend_covers_a_text_or_a_dot_of_a_lesson():
    def check(draw):
        figure = draw().figure
        no_legend_covers_a_text_or_a_dot(figure.axes[0])
        for key in figure.findobj(Legend):
            area = key.get_window_extent()
            assert figure.bbox.x0 <= area.x0 < area.x1 <= figure.bbox.x1
            assert figure.bbox.y0 <= area.y0 < area.y1 <= figure.bbox.y1

    assert {} == failures(closed_after(check), LESSONS)


def test_a_legend_over_a_dot_and_over_a_text_would_be_found():
    ax = drawn("throughput_by_in_flight")
    ax.legend(loc="upper left")
    ax.plot(0.05, 0.95, "o", transform=ax.transAxes)
    ax.text(0.05, 0.9, "covered", transform=ax.transAxes)

    assert {"text", "dot"} == {words.split()[0] for words in under_the_legends(ax.figure)}


def test_predicted_is_a_line_and_measured_are_dots():
    ax = views.plot_throughput_over_time(MANY, PREDICTED)
    by_label = {line.get_label(): line for line in ax.lines}

    assert (
        by_label["predicted"].get_linestyle(),
        by_label["predicted"].get_marker(),
    ) == ("-", "None")
    assert (
        by_label["measured"].get_linestyle(),
        by_label["measured"].get_marker(),
    ) == ("None", "o")


def test_the_dots_of_millions_a_second_agree_with_the_throughput_of_the_run():
    """In each slice more operations were answered than fit in the 16 bits that one call has."""
    run = closed_loop(16, 2_180_000.0, rounds=1_000, operations=1_024)
    ax = views.plot_throughput_over_time(run)
    (dots,) = [line.get_ydata() for line in ax.lines if line.get_label() == "measured"]

    assert run.throughput_per_s * run.window_s / len(dots) > 65_535
    assert list(dots) == pytest.approx([run.throughput_per_s] * len(dots), rel=0.10)


def test_in_flight_over_time_is_the_mean_of_each_slice():
    calls = [(0.0, 10.0, "create")] + [(5.0, 10.0, "create")] * 9
    (dots,) = [line for line in views.plot_in_flight_over_time(run_of(calls)).lines[:1]]

    assert [(2.5, 1.0), (7.5, 10.0)] == [tuple(point) for point in dots.get_xydata()]


def test_calls_take_the_lowest_lane_that_is_free():
    times = [(0.0, 3.0), (1.0, 2.0), (1.5, 4.0), (2.0, 2.5), (3.0, 5.0)]
    ax = views.plot_calls_over_time(run_of([(*each, "create") for each in times]), lanes=True)
    bars = sorted((bar for group in ax.containers for bar in group), key=lambda bar: bar.get_x())

    assert [1, 2, 3, 2, 1] == [round(bar.get_y() + bar.get_height() / 2) for bar in bars]


def test_blocking_calls_make_a_staircase():
    ax = views.plot_calls_over_time(ONE, most=10)
    bars = sorted((bar for group in ax.containers for bar in group), key=lambda bar: bar.get_y())

    assert len(bars) == 10
    for upper, lower in itertools.pairwise(bars):
        assert math.isclose(upper.get_x() + upper.get_width(), lower.get_x(), abs_tol=1e-9)


def test_kinds_of_operation_differ_in_colour_and_in_hatching():
    ax = views.plot_calls_over_time(ONE, most=10)
    looks = {group.get_label(): group[0] for group in ax.containers}

    assert {"create", "retrieve", "update", "delete"} == set(looks)
    assert len({to_hex(bar.get_facecolor()) for bar in looks.values()}) == 4
    assert len({bar.get_hatch() for bar in looks.values()}) == 4


def test_the_bound_bends_at_the_knee():
    ax = views.plot_throughput_by_in_flight([ONE, MANY], STATIONS)
    texts = " ".join(text.get_text() for text in ax.texts)

    assert "N* = 41" in texts
    assert "1/D_max = 1,000/s (processor)" in texts


def test_axes_begin_at_zero_and_show_the_bound_and_the_dots():
    for notes in (True, False):
        ax = views.plot_throughput_by_in_flight([ONE, MANY], STATIONS, notes=notes)

        assert ("linear", "linear") == (ax.get_xscale(), ax.get_yscale())
        assert (0.0, 0.0) == (ax.get_xlim()[0], ax.get_ylim()[0])
        most = max(ONE.in_flight, MANY.in_flight)
        assert ax.get_ylim()[1] > bounds.closed_loop(most, STATIONS).value
        assert ax.get_xlim()[1] > most
    assert not ax.texts  # of the second one


def test_a_figure_has_no_ground_and_its_text_is_seen_on_white_and_on_black(tmp_path):
    ax = views.plot_throughput_by_in_flight([ONE, MANY], STATIONS)
    ax.set_title("a title")
    figure = ax.figure
    figure.draw_without_rendering()
    colours = {
        to_hex(text.get_color())
        for text in figure.findobj(Text)
        if text.get_text().strip() and text.get_visible()
    }

    for colour in colours:
        for ground in ("#ffffff", "#111111"):
            assert contrast(colour, ground) > 3.5, (colour, ground)
    assert 0.0 == ax.patch.get_facecolor()[3]
    shown = rendering.Described(lambda each: (each.get_facecolor(), {}))
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


def test_a_wait_of_seconds_is_written_out():
    """3,756 ms, and not 3.76e+03: it is read from the back row."""
    long = run_of([(0.0, 3.8, "update", "OK", StationTimes(0.0, 3.756, 0.042, 0.0))])
    ax = views.plot_time_by_station(long)

    assert "3,756" in [text.get_text() for text in ax.texts]


def test_a_simulation_is_a_third_series():
    ax = views.plot_throughput_by_in_flight([ONE, MANY], STATIONS, simulated={1: 20.0, 40: 700.0})

    names = [text.get_text() for text in ax.get_legend().get_texts()]
    drawn_lines = {line.get_label(): line for line in ax.lines}
    assert names == ["bound", "simulated", "measured"]
    assert [20.0, 700.0] == list(drawn_lines["simulated"].get_ydata())


def test_two_servers_on_the_same_axes_share_a_legend():
    ax = views.plot_throughput_by_in_flight([ONE], STATIONS)
    views.plot_throughput_by_in_flight([MANY], STATIONS[:1], ax=ax)

    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["bound", "measured"]


def test_a_run_without_calls_or_samples_can_be_drawn_but_not_without_station_times():
    empty = run_of([])
    with pytest.raises(ValueError, match="station_times=True"):
        views.plot_time_by_station(staircase())
    for figure in (
        views.plot_throughput,
        views.plot_calls_over_time,
        views.plot_in_flight_over_time,
        views.plot_throughput_over_time,
    ):
        assert figure(empty).get_xlabel()


def test_many_predictions_are_drawn_by_name_and_their_number_must_fit():
    ax = views.plot_throughput(ONE, {"slowest decides": 20.0, "mean of times": PREDICTED})

    with pytest.raises(ValueError, match="3 predictions for 2 runs"):
        views.plot_throughput([ONE, MANY], [1.0, 2.0, 3.0])
    assert sorted(text.get_text() for text in ax.texts if ":" in text.get_text()) == [
        "mean of times: 25/s",
        "slowest decides: 20/s",
    ]


def test_a_batch_figure_has_sizes_across_and_what_was_measured_upward():
    runs = {1: closed_loop(1, 100.0, operations=1), 32: closed_loop(1, 1600.0, operations=32)}
    ax = batch_figures.throughput_by_batch(runs, per_message_s=0.01, per_operation_s=0.0003)
    dots = [line.get_xydata() for line in ax.lines if line.get_marker() == "o"]
    (places,) = [each for each in dots if len(each)]

    assert list(places[:, 0]) == [1, 32]
    assert list(places[:, 1]) == pytest.approx([100, 1600], rel=0.05)
    (law,) = [line.get_xydata() for line in ax.lines if line.get_label().startswith("k /")]
    assert list(law[0]) == pytest.approx([1, 1 / (0.01 + 0.0003)])
    assert "operations/s" in ax.get_ylabel()
    assert [text.get_text() for text in ax.texts if text.get_text().startswith("1/b = 3,333")]


def test_a_figure_of_batches_has_the_residence_of_a_message_in_milliseconds():
    runs = {1: closed_loop(2, 100.0, operations=1), 32: closed_loop(2, 1600.0, operations=32)}
    ax = batch_figures.residence_by_batch(runs, per_message_s=0.01, per_operation_s=0.0003)
    (law,) = [line.get_xydata() for line in ax.lines if line.get_label().startswith("N")]

    assert list(law[0]) == pytest.approx([1, 2 * 10.3])
    assert "(ms)" in ax.get_ylabel()
