"""Pictures are looked at by people; here stands what a machine can say of them."""

import inspect
import itertools
import math
import re

import matplotlib as mpl
import numpy as np
import pytest
from made_runs import climbed, paced, run_of, staircase
from matplotlib.colors import to_hex
from matplotlib.text import Text

from kvstore.course import design, figures, tables
from kvstore.course.figures import style
from kvstore.course.stories.fan_out import Asked
from kvstore.measure import Run
from kvstore.model import Prediction, Station, commits, scale_out, simulate, usl
from kvstore.stations import StationTimes

pytestmark = [pytest.mark.usefixtures("no_windows"), pytest.mark.slow]

ONE = staircase(30, stations=True)
MANY = staircase(200, in_flight=20, strategy="bounded", stations=True)
STATIONS = [Station("disk", 0.040, math.inf), Station("processor", 0.001)]
PREDICTED = Prediction(25.0, "calls/s", "1 / 40 ms")
PACED = paced(60, per_s=20.0)
FLOWS = {"no limit": lambda per_s: PREDICTED, "at most 10": lambda per_s: min(per_s, 25.0)}
PLAYED = {"no limit": [19.0]}
FIT = usl.fit([1, 2, 4, 8, 16], [24, 46, 80, 110, 120])
ARGUMENTS = {
    "attempts_over_time": (([ONE, MANY],), {}),
    "calls_over_time": ((MANY,), {}),
    "collections": (({"left": MANY, "settled": ONE},), {}),
    "endings": (([ONE, MANY],), {}),
    "goodput_by_offered": (({"no limit": [PACED], "at most 10": [PACED]}, FLOWS, PLAYED), {}),
    "in_flight_over_time": ((MANY,), {}),
    "ladder": (({"published": 16.55, "predicted": PREDICTED, "here": ONE},), {}),
    "latency_by_answer": ((MANY, PREDICTED), {}),
    "latency_from": ((PACED, lambda share: 0.1 * share), {}),
    "limit_over_time": (([(0.0, 1), (0.4, 2), (0.9, 1)], PREDICTED), {}),
    "memory": ((MANY, 20.0), {"ceiling_bytes": 2e8}),
    "mix": (([ONE, MANY],), {}),
    "reply_order": ((MANY,), {}),
    "saturation": (([ONE, MANY], STATIONS), {"fit": FIT}),
    "side_by_side": (({"1a": ONE, "1b": MANY}, {"1a": MANY, "1b": MANY}), {"name": "ghz"}),
    "throughput": (([ONE, MANY], [PREDICTED, 500.0]), {}),
    "throughput_by_in_flight": (([ONE, MANY], STATIONS), {}),
    "throughput_over_time": ((MANY, PREDICTED), {}),
    "time_by_station": (([ONE, MANY],), {}),
    "turns": ((MANY, 0.5), {}),
}
JOINED = {"pool": climbed(), "loop": climbed()}
PARTS = {"pool": [Station("pool", 0.05, 4)], "loop": [Station("back end", 0.05, math.inf)]}
PLAYED = {"pool": [simulate.Call(0.0, 0.0, 0.0, 0.0, 0.05)]}
ARGUMENTS |= {
    "residence_in_climb": ((JOINED, PARTS, PLAYED), {}),
    "threads_in_climb": ((JOINED, {"pool": 4, "loop": 0}), {}),
    "throughput_in_climb": ((JOINED, PARTS, PLAYED), {}),
}
BATCHES = ({1: ONE, 32: MANY}, {"per_message_s": 1e-3, "per_operation_s": 1e-4, "fitted": (1,)})
ARGUMENTS |= {
    "residence_by_batch": (BATCHES[:1], BATCHES[1]),
    "throughput_by_batch": (BATCHES[:1], BATCHES[1]),
}
BY_SERVERS = {"even": {1: ONE, 2: MANY}, "a hot key": {2: ONE}}
PER_SERVER = {"even": lambda servers: 25.0 * servers, "a hot key": lambda _: PREDICTED}
PLAYED_ON = scale_out.closed_loop(4, [0.75, 0.25], 0.040, calls=200)
ASKED = Asked(np.array([[0.01, 0.02], [0.01, math.inf], [0.03, 0.01]]))
ARGUMENTS |= {
    "simulated_over_time": ((PLAYED_ON, PREDICTED), {}),
    "slow_by_servers": ((ASKED, 0.02, lambda servers: 0.2 * servers), {}),
    "throughput_by_servers": ((BY_SERVERS, PER_SERVER, {"even": {4: PLAYED_ON}}), {}),
}
ARGUMENTS |= {
    "answered_within": (({"1 of 3": ONE, "3 of 3": MANY}, {
        "1 of 3": lambda share: 0.01 + 0.03 * share, "3 of 3": lambda share: 0.02 + 0.5 * share,
    }), {}),
    "throughput_by_commit": (({"one by one": {1: ONE}, "in groups": {20: MANY, 1: ONE}}, {
        "one by one": lambda n: commits.one_by_one(n, fsync_s=0.03),
        "in groups": lambda n: commits.in_groups(n, fsync_s=0.03),
    }), {}),
}  # fmt: skip
SHOP = design.case("lock")
OFFERED = {name: design.forecast(SHOP, each) for name, each in (
    ("as it is", SHOP.start), ("cheapest", design.reference(SHOP).design)
)}  # fmt: skip
PLAN = design.Plan("pool", 60.0, SHOP.start, 60.0)
ARGUMENTS |= {
    "promises": ((OFFERED, 300.0), {}),
    "score": (({"one": design.scored(SHOP, PLAN, ONE, MANY)},), {}),
}
NAMES = sorted(figures.__all__)


def drawn(name, **more):
    arguments, named = ARGUMENTS[name]
    return getattr(figures, name)(*arguments, **named, **more)


@pytest.mark.parametrize("name", NAMES)
def test_both_axes_name_what_they_show_and_numbers_their_unit(name):
    ax = drawn(name)

    labels = [ax.get_xlabel(), ax.get_ylabel()]
    assert all(labels)
    assert any(re.search(r"\(.+\)", label) for label in labels)
    assert all(re.search(r"\(.+\)", label) or label in ("run", "step") for label in labels)


@pytest.mark.parametrize("name", NAMES)
def test_every_text_can_be_read_from_the_back_row(name):
    ax = drawn(name)
    ax.figure.canvas.draw()

    texts = [text for text in ax.figure.findobj(Text) if text.get_text() and text.get_visible()]
    assert texts
    assert min(text.get_fontsize() for text in texts) >= style.TEXT_PT


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_draws_where_it_is_told_and_changes_no_setting(name):
    import matplotlib.pyplot as plt

    before = dict(mpl.rcParams)
    ax = plt.subplots()[1]

    assert ax is drawn(name, ax=ax)
    assert before == dict(mpl.rcParams)
    assert [ax.figure.number] == plt.get_fignums()


@pytest.mark.parametrize("name", NAMES)
def test_each_figure_has_a_table_of_the_same_name_and_arguments(name):
    figure = inspect.signature(getattr(figures, name)).parameters
    table = inspect.signature(getattr(tables, name)).parameters
    arguments, named = ARGUMENTS[name]

    drawing = ("ax", "prediction") if name == "in_flight_over_time" else ("ax",)
    assert [p for p in figure if p not in drawing] == list(table)
    assert len(getattr(tables, name)(*arguments, **named))


def test_predicted_is_a_line_and_measured_are_dots():
    ax = figures.throughput_over_time(MANY, PREDICTED)
    by_label = {line.get_label(): line for line in ax.lines}

    assert (
        by_label["predicted"].get_linestyle(),
        by_label["predicted"].get_marker(),
    ) == ("-", "None")
    assert (
        by_label["measured"].get_linestyle(),
        by_label["measured"].get_marker(),
    ) == ("None", "o")


def test_blocking_calls_make_a_staircase():
    ax = figures.calls_over_time(ONE, most=10)
    bars = sorted((bar for group in ax.containers for bar in group), key=lambda bar: bar.get_y())

    assert len(bars) == 10
    for upper, lower in itertools.pairwise(bars):
        assert math.isclose(upper.get_x() + upper.get_width(), lower.get_x(), abs_tol=1e-9)


def test_kinds_of_operation_differ_in_colour_and_in_hatching():
    ax = figures.calls_over_time(ONE, most=10)
    looks = {group.get_label(): group[0] for group in ax.containers}

    assert {"create", "retrieve", "update", "delete"} == set(looks)
    assert len({to_hex(bar.get_facecolor()) for bar in looks.values()}) == 4
    assert len({bar.get_hatch() for bar in looks.values()}) == 4


def test_the_bound_bends_at_the_knee():
    ax = figures.throughput_by_in_flight([ONE, MANY], STATIONS)
    texts = " ".join(text.get_text() for text in ax.texts)

    assert "N* = 41" in texts
    assert "1/D_max = 1,000/s (processor)" in texts


@pytest.mark.parametrize(("disk_s", "side"), [(0.0005, "right"), (0.040, "left")])
def test_the_name_of_the_ceiling_stands_where_there_is_room(disk_s, side):
    """Left of an N* of 1.5 of 30 calls it would be written across the lines."""
    stations = [Station("disk", disk_s, math.inf), Station("processor", 0.001)]
    ax = figures.throughput_by_in_flight([ONE, MANY], stations)
    (name,) = [text for text in ax.texts if text.get_text().startswith("1/D_max")]

    assert side == name.get_horizontalalignment()


def test_a_wait_of_seconds_is_written_out():
    """3,756 ms, and not 3.76e+03: it is read from the back row."""
    long = run_of([(0.0, 3.8, "update", "OK", StationTimes(0.0, 3.756, 0.042, 0.0))])
    ax = figures.time_by_station(long)

    assert "3,756" in [text.get_text() for text in ax.texts]


def test_a_simulation_is_a_third_series():
    ax = figures.throughput_by_in_flight([ONE, MANY], STATIONS, simulated={1: 20.0, 40: 700.0})

    names = [text.get_text() for text in ax.get_legend().get_texts()]
    drawn_lines = {line.get_label(): line for line in ax.lines}
    assert names == ["bound", "simulated", "measured"]
    assert [20.0, 700.0] == list(drawn_lines["simulated"].get_ydata())


def test_two_servers_on_the_same_axes_share_one_key():
    ax = figures.throughput_by_in_flight([ONE], STATIONS)
    figures.throughput_by_in_flight([MANY], STATIONS[:1], ax=ax)

    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["bound", "measured"]


def test_a_run_without_calls_or_samples_can_be_drawn():
    empty = run_of([])
    for figure in (
        figures.throughput,
        figures.calls_over_time,
        figures.reply_order,
        figures.latency_by_answer,
        figures.memory,
        figures.in_flight_over_time,
        figures.throughput_over_time,
    ):
        assert figure(empty).get_xlabel()


def test_a_forecast_of_never_draws_no_line():
    never = Prediction(math.inf, "s", "it does not grow")

    assert figures.memory(MANY, never, ceiling_bytes=2e8).get_xlim()[1] < 10


def test_each_process_can_have_a_forecast_of_its_own():
    both = {"client": 20.0, "server": Prediction(30.0, "s", "it grows more slowly")}
    ax = figures.memory(MANY, both, ceiling_bytes=2e8)
    ends_s = {line.get_label(): line.get_xdata()[-1] for line in ax.lines}

    assert (ends_s["client, forecast"], ends_s["server, forecast"]) == (20.0, 30.0)
    assert [20.0, 30.0] == list(tables.memory(MANY, both)["forecast (s)"])


def test_the_wait_for_the_kth_answer_is_predicted_by_a_line():
    table = tables.latency_by_answer(MANY, PREDICTED)

    assert [0.04, 0.4] == list(table["predicted (s)"].loc[[1, 10]])


def test_many_predictions_are_drawn_by_name():
    ax = figures.throughput(ONE, {"slowest decides": 20.0, "mean of times": PREDICTED})

    assert sorted(text.get_text() for text in ax.texts if ":" in text.get_text()) == [
        "mean of times: 25/s",
        "slowest decides: 20/s",
    ]


def test_predictions_that_fit_no_run_are_refused():
    with pytest.raises(ValueError, match="3 predictions for 2 runs"):
        figures.throughput([ONE, MANY], [1.0, 2.0, 3.0])


def test_runs_without_station_times_say_what_to_switch_on():
    with pytest.raises(ValueError, match="station_times=True"):
        figures.time_by_station(staircase())


def test_figures_take_a_saved_run(tmp_path):
    assert figures.memory(Run.load(MANY.save(tmp_path / "x.run"))).get_ylabel()
