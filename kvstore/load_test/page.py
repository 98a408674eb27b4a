"""A load test as one page of HTML: its pictures are SVG, so it needs no library and no internet."""

import html
import json
import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from kvstore.axis import Axis
from kvstore.load_test.estimates import Estimate, Level
from kvstore.load_test.levels import Calibration
from kvstore.load_test.report import Report, as_json, texts
from kvstore.measure import Run, quantile
from kvstore.measure.figures import started_s
from kvstore.numbers import number, percent, seconds
from kvstore.protocol import OK

WIDTH, HEIGHT = 560, 340
LEFT, RIGHT, TOP, BOTTOM = 84, 16, 14, 50
"""The size of a picture and the margins around its axes, in pixels."""
BLUE, ORANGE = "#1763a6", "#c8551b"
SHARES: Final = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999)
FEWEST_BEYOND: Final = 10
"""Calls that must be beyond a quantile for it to be drawn."""
TIMES, TAKEN = 60, 28
"""Columns and rows of the heat map."""

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1180px; color: #1c1c1c;
  padding: 0 1rem }}
pre {{ background: #f5f5f2; padding: 1rem; overflow-x: auto; font-size: 14px; line-height: 1.4 }}
figure {{ display: inline-block; margin: 0 0 1.5rem; vertical-align: top; max-width: 100% }}
figcaption {{ font-weight: 600 }} svg {{ max-width: 100%; height: auto }}
svg text {{ font: 13px system-ui, sans-serif; fill: #333 }}
</style></head><body><h1>{title}</h1>
{pictures}
{texts}
<script type="application/json" id="report">{data}</script>
</body></html>
"""


def axis_of(values: Sequence[float], *, log: bool) -> Axis:
    """Return the axis on which all of these values are."""
    known = [each for each in values if math.isfinite(each) and (each > 0 or not log)] or [1.0]
    low, high = min(known), max(known)
    if log:
        low, high = (low / 2, high * 2) if low == high else (low, high)
        return Axis(low, high * (high / low) ** 0.04, log=True)
    return Axis(0.0, 1.04 * (high or 1.0), log=False)


class Picture:
    """An SVG picture with two axes."""

    def __init__(
        self,
        title: str,
        x: tuple[str, Sequence[float], bool],
        y: tuple[str, Sequence[float], bool],
        *,
        write_x: Callable[[float], str] = number,
        write_y: Callable[[float], str] = number,
        ticks_x: Sequence[float] | None = None,
    ) -> None:
        """Axes have a label, the values that they must hold, and whether they are logarithmic."""
        self._title = title
        self._x, self._y = axis_of(x[1], log=x[2]), axis_of(y[1], log=y[2])
        self._parts: list[str] = []
        for value in self._x.ticks() if ticks_x is None else ticks_x:
            at = self._across(value)
            self._parts.append(f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#e4e4e0"/>')
            self._text(at, HEIGHT - BOTTOM + 18, write_x(value), "middle")
        for value in self._y.ticks():
            at = self._up(value)
            self._parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#e4e4e0"/>')
            self._text(LEFT - 8, at + 4, write_y(value), "end")
        self._text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x[0], "middle")
        middle = (TOP + HEIGHT - BOTTOM) / 2
        self._parts.append(
            f'<text x="14" y="{middle:.0f}" text-anchor="middle"'
            f' transform="rotate(-90 14 {middle:.0f})">{html.escape(y[0])}</text>'
        )

    def _across(self, value: float) -> float:
        return LEFT + self._x.place(value) * (WIDTH - RIGHT - LEFT)

    def _up(self, value: float) -> float:
        return HEIGHT - BOTTOM - self._y.place(value) * (HEIGHT - BOTTOM - TOP)

    def _text(self, x: float, y: float, text: str, anchor: str) -> None:
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'
        )

    def line(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        """Draw a line through points."""
        places = " ".join(f"{self._across(x):.1f},{self._up(y):.1f}" for x, y in points)
        self._parts.append(
            f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )

    def dot(self, x: float, y: float, low: float, high: float, colour: str, text: str) -> None:
        """Draw a dot with its interval, and what a pointer over it says."""
        at, middle = self._across(x), self._up(y)
        if math.isfinite(low) and math.isfinite(high):
            ends = f"M{at:.1f} {self._up(low):.1f}V{self._up(high):.1f}"
            self._parts.append(f'<path d="{ends}" stroke="{colour}" stroke-width="2"/>')
        self._parts.append(
            f'<circle cx="{at:.1f}" cy="{middle:.1f}" r="4.5" fill="{colour}">'
            f"<title>{html.escape(text)}</title></circle>"
        )

    def box(self, x: tuple[float, float], y: tuple[float, float], share: float, text: str) -> None:
        """Fill a box, the darker the larger the share is."""
        left, right = self._across(x[0]), self._across(x[1])
        bottom, top = self._up(y[0]), self._up(y[1])
        self._parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}"'
            f' height="{bottom - top:.1f}" fill="{BLUE}" fill-opacity="{share:.2f}">'
            f"<title>{html.escape(text)}</title></rect>"
        )

    def __str__(self) -> str:
        return (
            f"<figure><figcaption>{html.escape(self._title)}</figcaption>"
            f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
            f' aria-label="{html.escape(self._title)}">{"".join(self._parts)}</svg></figure>'
        )


def as_html(report: Report, title: str) -> str:
    """Return the page of a load test: its pictures, its texts, and its figures as JSON."""
    pictures: list[Picture] = []
    if report.calibration is not None:
        pictures += [_throughput(report.calibration, report.run), _residence(report.calibration)]
    if report.run is not None and len(report.run.records):
        pictures += [_percentiles(report.run), _heat_map(report.run)]
    data = json.dumps(as_json(report)).replace("<", "\\u003c")
    return _PAGE.format(
        title=html.escape(title),
        pictures="\n".join(map(str, pictures)),
        texts="\n".join(f"<pre>{html.escape(each)}</pre>" for each in texts(report)),
        data=data,
    )


def _throughput(calibration: Calibration, run: Run | None) -> Picture:
    closed = run is not None and run.in_flight and not run.settings.get("paced")
    picture = _over_levels(
        calibration,
        "Throughput X",
        "X (calls/s OK)",
        lambda level: level.throughput,
        lambda n: min(n / calibration.cycle.value, calibration.ceiling_per_s),
        number,
        most=run.in_flight if closed and run is not None else 1,
    )
    if closed and run is not None:
        x = run.throughput_per_s
        picture.dot(run.in_flight, x, x, x, "#000", f"the run: {number(x)}/s")
    return picture


def _residence(calibration: Calibration) -> Picture:
    return _over_levels(
        calibration,
        "Latency R",
        "R (mean)",
        lambda level: level.residence,
        calibration.residence_bound_s,
        seconds,
        log=True,
    )


def _over_levels(
    calibration: Calibration,
    name: str,
    label: str,
    figure: Callable[[Level], Estimate],
    bound: Callable[[float], float],
    write: Callable[[float], str],
    *,
    most: float = 1,
    log: bool = False,
) -> Picture:
    """Draw a figure of each level over the calls in flight, and its bound."""
    levels = [each for each in calibration.levels if each.throughput_per_s > 0]
    counts = [float(each.in_flight) for each in levels]
    along = np.geomspace(1, max([most, *counts]) * 1.01, 60)
    line = [(float(n), bound(float(n))) for n in along]
    picture = Picture(
        f"{name} over calls in flight N: measured dots, predicted line",
        ("calls in flight, N", [1.0, most, *counts], True),
        (label, [figure(each).high for each in levels] + [y for _, y in line], log),
        write_y=write,
        ticks_x=counts,
    )
    picture.line(line, ORANGE)
    for each in levels:
        text = f"{each.in_flight}: {write(figure(each).value)}"
        picture.dot(each.in_flight, *figure(each), BLUE, text)
    return picture


def _percentiles(run: Run) -> Picture:
    records = run.records[run.records["status"] == OK]
    began_s = started_s(records)
    taken_s = (records["done_s"] - began_s)[np.argsort(began_s, kind="stable")]
    enough = [q for q in SHARES if len(taken_s) * (1 - q) >= FEWEST_BEYOND] or [0.5]
    quantiles = [quantile(taken_s, q) for q in enough]
    beyond = [-math.log10(1 - q) for q in enough]
    known = [each for one in quantiles for each in one if math.isfinite(each)]
    picture = Picture(
        "Latency by percentile, with 95 % intervals",
        ("share of the calls that ended OK", beyond, False),
        ("latency", known, True),
        write_x=lambda place: f"p{100 * (1 - 10**-place):.4g}",
        write_y=seconds,
        ticks_x=beyond,
    )
    picture.line([(x, each.value_s) for x, each in zip(beyond, quantiles, strict=True)], BLUE)
    for x, each in zip(beyond, quantiles, strict=True):
        picture.dot(x, each.value_s, each.low_s, each.high_s, BLUE, seconds(each.value_s))
    return picture


def _heat_map(run: Run) -> Picture:
    records = run.records
    began_s, taken_s = started_s(records), records["done_s"] - started_s(records)
    taken_s = np.maximum(taken_s, 1e-7)
    end_s = float(began_s.max()) or 1e-3
    times = np.linspace(0.0, end_s, TIMES + 1)
    low, high = float(taken_s.min()) / 1.05, float(taken_s.max()) * 1.05
    rows = np.geomspace(low, high, TAKEN + 1)
    calls, _, _ = np.histogram2d(began_s, taken_s, (times, rows))
    picture = Picture(
        "Latency over time: the darker, the more calls of that moment",
        ("time of the run", [end_s], False),
        ("latency", [low, high], True),
        write_x=seconds,
        write_y=seconds,
    )
    for column, row in zip(*np.nonzero(calls), strict=True):
        share = calls[column, row] / calls[column].sum()
        picture.box(
            (float(times[column]), float(times[column + 1])),
            (float(rows[row]), float(rows[row + 1])),
            max(0.12, float(share) ** 0.5),
            f"{int(calls[column, row]):,} calls, {percent(float(share))} of this moment",
        )
    return picture
