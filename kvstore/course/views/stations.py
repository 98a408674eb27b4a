"""The stations of a run: their drawing, what each lets through, and the time at each.

The same symbols in every lesson. A station where calls wait is a queue and a circle for each
server; a station where no call waits is three circles without a queue. A semaphore is a box of
places. The drawing takes its colour from the page, so that it is readable on light and dark ones.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes

from kvstore import numbers
from kvstore.course import rendering
from kvstore.course.rendering import escaped
from kvstore.course.views import style
from kvstore.course.views.style import Runs, by_row, rounded, runs_by_name
from kvstore.measure import Run, audit
from kvstore.model import Station

FONT_PX: Final = 14
GAP, TOP, MIDDLE, BELOW = 34, 16, 62, 112
"""Between two boxes; the upper edge, the line of the calls, and the text below, in pixels."""
QUEUE_W, RADIUS = 44, 20
ACCENT: Final = "#E69F00"
"""Filled in thinly, so that text in the page's own colour stays readable on it."""

_numbers = itertools.count()


@dataclass(frozen=True)
class Drawing(rendering.Shown):
    """A drawing as inline SVG, and what it shows in words."""

    svg: str
    description: str

    def __repr__(self) -> str:
        return self.description

    def _forms(self) -> Mapping[str, Any]:
        return {"text/plain": self.description, "text/html": self.svg}


def draw_stations(
    stations: Sequence[Station],
    *,
    in_flight: float | None = None,
    semaphore: int | None = None,
    arrivals_per_s: float | None = None,
    held: Mapping[str, str] | None = None,
    title: str = "The stations of a call",
) -> Drawing:
    """Show the way of a call: the client, then each station with its service demand D, in order.

    `in_flight` is N, math.inf for a client without a limit.
    `arrivals_per_s` draws an open loop: calls arrive at this rate, whatever the replies.
    `semaphore` puts a semaphore of so many places behind the client. `held` maps a station to
    the last one through which its server is held: {"lock": "disk"}. A station with a demand of
    0 s is drawn without a number. ValueError when `held` names a station that is not drawn.
    """
    for name in itertools.chain.from_iterable((held or {}).items()):
        if name not in {station.name for station in stations}:
            have = ", ".join(station.name for station in stations)
            raise ValueError(f"held names {name!r}, which is none of the stations {have}")
    closed = arrivals_per_s is None
    boxes = [_client(in_flight, arrivals_per_s)]
    boxes += [_semaphore(semaphore)] if semaphore is not None else []
    boxes += [_station(station) for station in stations]
    description = _description(title, boxes, held or {}, closed)
    drawing = Drawing(_svg(title, description, boxes, held or {}, closed), description)
    drawing._show()
    return drawing


@dataclass(frozen=True)
class _Box:
    """One symbol: how wide it is, what stands below it, and how it is drawn at an x."""

    name: str
    labels: tuple[str, ...]
    words: str
    symbol_w: float
    draw: Callable[[float], str]

    @property
    def width(self) -> float:
        longest = max(len(text) for text in (self.name, *self.labels))
        return max(self.symbol_w, 0.56 * FONT_PX * longest)


def _client(in_flight: float | None, arrivals_per_s: float | None) -> _Box:
    if arrivals_per_s is not None:
        labels = [f"λ = {numbers.number(arrivals_per_s)} calls/s"]
        words = f"calls arrive at {numbers.number(arrivals_per_s)} calls/s"
    elif in_flight is None:
        labels, words = [], "the client sends a call"
    elif math.isinf(in_flight):
        labels, words = ["N has no limit"], "the client sends without a limit"
    else:
        labels = [f"N = {numbers.number(in_flight)}"]
        words = f"the client keeps {numbers.number(in_flight)} in flight"

    def draw(x: float) -> str:
        screen = _rect(x, MIDDLE - 26, 76, 44, 5)
        foot = f"M{x + 26},{MIDDLE + 28} h24 M{x + 38},{MIDDLE + 18} v10"
        return screen + _path(foot)

    return _Box("client", tuple(labels), words, 76, draw)


def _semaphore(places: int) -> _Box:
    def draw(x: float) -> str:
        dots = "".join(
            f'<circle cx="{x + 14 + 16 * (dot % 4)}" cy="{MIDDLE - 8 + 16 * (dot // 4)}" r="4.5" '
            f'fill="{ACCENT}" stroke="none"/>'
            for dot in range(8)
        )
        return _rect(x, MIDDLE - 24, 76, 48, 10, dashed=True) + dots

    label = f"{places:,} place" + ("s" if places != 1 else "")
    return _Box("semaphore", (label,), f"a semaphore of {label}", 76, draw)


def _station(station: Station) -> _Box:
    demand = f"D = {_time(station.demand_s)}" if station.demand_s else ""
    spent = f", {_time(station.demand_s)} for each call" if station.demand_s else ""
    if math.isinf(station.servers):
        labels, words = ["no queue"], f"{station.name}, where no call waits{spent}"
        symbol_w = 2 * RADIUS + 44.0
    elif station.servers == 1:
        labels = ["1 at a time"]
        words = f"{station.name}, a queue and one server{spent}"
        symbol_w = QUEUE_W + 2.0 * RADIUS
    else:
        labels = [f"{numbers.number(station.servers)} at a time"]
        words = f"{station.name}, a queue and {numbers.number(station.servers)} servers{spent}"
        symbol_w = QUEUE_W + 2.0 * RADIUS + 18

    def draw(x: float) -> str:
        if math.isinf(station.servers):
            return "".join(_circle(x + RADIUS + 22 * place) for place in range(3)) + _icon(
                station.name, x + RADIUS + 44
            )
        queue = "".join(_path(f"M{x + 11 * bar},{MIDDLE - 16} v32") for bar in range(1, 5))
        rails = _path(f"M{x},{MIDDLE - 16} h{QUEUE_W} M{x},{MIDDLE + 16} h{QUEUE_W}")
        first = x + QUEUE_W + RADIUS
        circles = [_circle(first + 18)] if station.servers > 1 else []
        return queue + rails + "".join(circles) + _circle(first) + _icon(station.name, first)

    labels = [demand, *labels] if demand else labels
    return _Box(station.name, tuple(labels), words, symbol_w, draw)


def _svg(
    title: str, description: str, boxes: Sequence[_Box], held: Mapping[str, str], closed: bool
) -> str:
    number = next(_numbers)
    parts: list[str] = []
    left: dict[str, float] = {}
    right: dict[str, float] = {}
    x, before = 12.0, 0.0
    for box in boxes:
        start = x + (box.width - box.symbol_w) / 2
        parts += [_arrow(before + 4, start - 5)] if before else []
        parts.append(box.draw(start))
        before = start + box.symbol_w
        parts.append(_text(x + box.width / 2, BELOW, box.name, bold=True))
        for row, label in enumerate(box.labels, start=1):
            parts.append(_text(x + box.width / 2, BELOW + 19 * row, label))
        left[box.name], right[box.name] = x, x + box.width
        x += box.width + GAP
    width = x - GAP + 12
    low = BELOW + 19 * max(len(box.labels) for box in boxes) + 16
    for row, (first, last) in enumerate(held.items()):
        parts.append(_held(left[first] - 6, right[last] + 6, TOP + 2 - 4 * row, first))
    if closed:
        client = (left["client"] + right["client"]) / 2
        parts.append(_reply(right[boxes[-1].name] - boxes[-1].width / 2, client, low))
        low += 34
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:.0f} {low:.0f}" '
        f'width="{width:.0f}" style="max-width: 100%; height: auto; color: inherit" '
        f'aria-labelledby="stations-title-{number} stations-desc-{number}" '
        f'font-family="system-ui, sans-serif" font-size="{FONT_PX}" fill="none" '
        'stroke="currentColor" stroke-width="1.8">'
        f'<title id="stations-title-{number}">{escaped(title)}</title>'
        f'<desc id="stations-desc-{number}">{escaped(description)}</desc>{"".join(parts)}</svg>'
    )


def _description(title: str, boxes: Sequence[_Box], held: Mapping[str, str], closed: bool) -> str:
    client, *others = boxes
    text = f"{title}: {client.words}. " + (
        f"Each call passes {'; then '.join(box.words for box in others)}. " if others else ""
    )
    for first, last in held.items():
        through = f" until the call leaves {last}" if first != last else ""
        text += f"{first} is held{through}. "
    return text + ("The reply goes back to the client." if closed else "The reply leaves.")


def _held(start: float, end: float, top: float, name: str) -> str:
    """A dashed frame around the stations through which a server of the first one is held."""
    frame = _rect(start, top, end - start, BELOW - 16 - top, 8, dashed=True)
    return frame + _text((start + end) / 2, top + 15, f"{name} held", italic=True)


def _reply(start: float, end: float, low: float) -> str:
    y = low + 8
    head = f"M{end},{low - 6} l-5,9 M{end},{low - 6} l5,9"
    line = _path(f"M{start},{low - 6} V{y - 6} q0,6 -6,6 H{end + 6} q-6,0 -6,-6 V{low - 6} {head}")
    return line + _text((start + end) / 2, y + 18, "reply")


def _arrow(start: float, end: float) -> str:
    return _path(f"M{start},{MIDDLE} H{end} M{end},{MIDDLE} l-8,-5 M{end},{MIDDLE} l-8,5")


def _circle(x: float) -> str:
    return f'<circle cx="{x}" cy="{MIDDLE}" r="{RADIUS}" fill="{ACCENT}" fill-opacity="0.18"/>'


def _rect(
    x: float, y: float, width: float, height: float, round_: float, dashed: bool = False
) -> str:
    dashes = ' stroke-dasharray="6 4"' if dashed else ""
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{round_}"{dashes}/>'


def _path(steps: str) -> str:
    return f'<path d="{steps}"/>'


def _text(x: float, y: float, text: str, *, bold: bool = False, italic: bool = False) -> str:
    style = ' font-weight="bold"' * bold + ' font-style="italic"' * italic
    return (
        f'<text x="{x:.1f}" y="{y}" text-anchor="middle" fill="currentColor" stroke="none"'
        f"{style}>{escaped(text)}</text>"
    )


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            return f"{numbers.number(seconds / size)} {unit}"
    raise AssertionError


_ICONS: Final[Mapping[tuple[str, ...], str]] = {
    # Words in a station's name, and the steps of its symbol around the middle of the circle.
    ("lock",): "m-7,0 h14 v10 h-14 z m2.5,0 v-4 a4.5,4.5 0 0 1 9,0 v4",
    ("disk", "fsync", "log"): (
        "m-8,-6 a8,3.5 0 0 1 16,0 v12 a8,3.5 0 0 1 -16,0 z m0,0 a8,3.5 0 0 0 16,0"
    ),
    ("network", "wire", "round trip", "connection"): (
        "m-10,-4 h18 m-5,-4 l5,4 l-5,4 m7,8 h-18 m5,-4 l-5,4 l5,4"
    ),
    ("pool", "thread"): "m-7,-9 v18 m0,-18 m7,0 v18 m0,-18 m7,0 v18",
    ("cpu", "processor", "interpreter", "loop", "core"): (
        "m-7,-7 h14 v14 h-14 z m4,0 v-5 m6,5 v-5 m-6,19 v5 m6,-5 v5 "
        "m-10,-15 h-5 m5,6 h-5 m19,-6 h5 m-5,6 h5"
    ),
}


def _icon(name: str, x: float) -> str:
    for words, steps in _ICONS.items():
        if any(word in name.lower() for word in words):
            return f'<path d="M{x},{MIDDLE} {steps}" stroke-width="1.6"/>'
    return ""


# What each station of a service lets through, from measurements that stress it.


def plot_ceilings(
    measured_per_s: Mapping[str, float],
    stress: Mapping[str, float],
    throughput_per_s: float,
) -> Axes:
    """Draw what each station lets through as a dot, and the throughput of the traffic as a line.

    `measured_per_s` has the throughput under the load that stresses the station, and `stress` how
    many times as much work a call of this load is for it as a call of the traffic.
    """
    data = [stress[name] * per_s for name, per_s in measured_per_s.items()]
    title = "What each station lets through"
    with style.canvas(height_in=2.5 + 0.55 * len(data), rows=measured_per_s, title=title) as ax:
        rows = range(len(data))
        ax.plot(data, rows, "o", color=style.MEASURED, linestyle="none", label="lets through")
        for row, per_s in enumerate(data):
            ax.annotate(
                numbers.rate(per_s),
                (per_s, row),
                (10, 0),
                textcoords="offset points",
                va="center",
            )
        ax.axvline(
            throughput_per_s,
            color=style.INK,
            linestyle="--",
            zorder=1,
            label=f"throughput: {numbers.rate(throughput_per_s)}",
        )
        ax.set_xlim(0.0, 1.25 * max([*data, throughput_per_s]))
        ax.set(xlabel="throughput of the traffic (calls/s)", ylabel="station")
    return ax


# The parts of a run: time at each station, CPU time, kinds of operation; its three counts.


def time_by_station_table(runs: Runs) -> pd.DataFrame:
    """Return the mean milliseconds of a call at each station, over the calls the server timed.

    Raise ValueError if the server of a run did not report station times.
    """
    rows = []
    for name, run in runs_by_name(runs):
        calls = run.calls[run.calls["disk_s"].notna()]
        if not len(calls):
            raise ValueError(
                f"the run {name} has no station times: start its server with station_times=True"
            )
        known = run.server.known_settings
        behind = known is not None and known.back_end is not None
        columns = {
            "pool queue": "pool_s",
            "lock": "lock_s",
            "back end" if behind else "disk": "disk_s",
            "rest of the server": "rest_s",
        }
        means_s = {station: float(calls[column].mean()) for station, column in columns.items()}
        whole_s = float(calls["residence_s"].mean())
        outside_s = max(0.0, whole_s - sum(means_s.values()))
        means_s = {**means_s, "client and wire": outside_s, "whole residence": whole_s}
        rows.append({"run": name} | {f"{at} (ms)": 1e3 * s for at, s in means_s.items()})
    return rounded(by_row(rows, "run").fillna(0.0))


def little_by_station_table(run: Run) -> pd.DataFrame:
    """Return Little's law for each station of a run: mean residence time and mean number of calls.

    Raise ValueError as `time_by_station_table` does.
    """
    where = time_by_station_table({"R (ms)": run}).T.rename_axis(index="station", columns=None)
    where.index = where.index.str.removesuffix(" (ms)")
    where["L = λ·R (calls)"] = audit(run).sent_per_s * where["R (ms)"] / 1e3
    return rounded(where)


ROOM = 0.07
"""A part below this share of the widest bar has no number."""


def plot_time_by_station(runs: Runs) -> Axes:
    """Draw one bar for each run: the mean milliseconds of a call at each station, end to end."""
    data = time_by_station_table(runs)
    frame = data.rename(columns=lambda heading: heading.removesuffix(" (ms)"))
    parts = {name: look for name, look in style.STATIONS.items() if name in frame}
    wholes = [f"{numbers.number(whole_ms)} ms" for whole_ms in data["whole residence (ms)"]]
    title = "Where a call spends its time"
    return stacked(frame[list(parts)], parts, "mean residence of a call (ms)", wholes, title=title)


def plot_mix(runs: Runs) -> Axes:
    """Draw one bar for each run: the share of each kind of operation that was answered."""
    data = 100 * pd.DataFrame({name: run.mix() for name, run in runs_by_name(runs)}).T.fillna(0.0)
    parts = {name: look for name, look in style.OPERATIONS.items() if name in data}
    title = "Which operations were answered"
    return stacked(data[list(parts)], parts, "share of operations (%)", title=title)


def stacked(
    data: pd.DataFrame,
    parts: Mapping[str, tuple[str, str]],
    xlabel: str,
    wholes: Sequence[str] = (),
    *,
    title: str,
) -> Axes:
    """Draw the columns of each run end to end; `parts` maps each to its colour and hatching.

    `wholes` are written beside the bars.
    """
    left = pd.Series(0.0, index=data.index)
    widest = float(data.sum(axis=1).max())
    with style.canvas(height_in=2.7 + 0.8 * len(data), rows=data.index, title=title) as ax:
        for name, (colour, hatch) in parts.items():
            bars = ax.barh(
                range(len(data)),
                data[name],
                left=left,
                height=0.6,
                color=colour,
                hatch=hatch,
                edgecolor="black",
                linewidth=0.8,
                label=name,
            )
            words = [numbers.number(each) if each >= ROOM * widest else "" for each in data[name]]
            ax.bar_label(bars, words, label_type="center", bbox=style.PAPER)
            left = left + data[name]
        if wholes:
            ax.bar_label(bars, wholes, padding=6)
            ax.set_xlim(0.0, 1.15 * widest)
        ax.set(xlabel=xlabel, ylabel="run")
    return ax


# One run counted three times: by the sender, by the records, by the server.
