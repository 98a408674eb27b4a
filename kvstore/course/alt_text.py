"""Figures in words, computed from what is drawn.

The notebook puts these words into the metadata of each figure that it shows, from where the front
end takes them as the alternative text of the image.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from IPython.core.getipython import get_ipython
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.container import BarContainer, Container
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator

from kvstore import numbers

NO_GROUND: Final = "course figure"
"""The id of figures whose ground is that of the page. Their text suits light and dark pages."""
MOST_POINTS: Final = 6
"""So many points are listed; of more, the ends and the extremes are."""


def attach_alt_text() -> None:
    """From now on, figures that this notebook shows carry their description.

    The inline backend installs its own formatter when it is loaded, with the first figure: to be
    called after that. Called again, or outside a notebook, it changes nothing.
    """
    shell = get_ipython()
    if shell is None or shell.display_formatter is None:
        return
    formatter = shell.display_formatter.formatters["image/png"]
    try:
        inner = formatter.lookup_by_type(Figure)
    except KeyError:
        return  # no backend that shows figures in the page
    if isinstance(inner, Described):
        return
    formatter.for_type(Figure, Described(inner))


class Described:
    """A formatter with the description of the figure in its metadata; ours have no ground."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __call__(self, figure: Figure) -> Any:
        """Return the picture of the figure, and its metadata."""
        ground = figure.get_facecolor()
        if _has_no_ground(figure):  # only here, or matplotlib asks the page for a ground
            figure.set_facecolor("none")
        try:
            image = self._inner(figure)
        finally:
            figure.set_facecolor(ground)
        if image is None:
            return None
        picture, metadata = image if isinstance(image, tuple) else (image, {})
        return picture, {**metadata, "alt": described(figure)}


def _has_no_ground(figure: Figure) -> bool:
    """Whether it is a figure of the course, or one that a lesson drew with the course's look."""
    usual = to_rgba(mpl.rcParams["figure.facecolor"])
    looks_alike = mpl.rcParams["axes.facecolor"] == "none" and figure.get_facecolor() == usual
    return figure.get_gid() == NO_GROUND or looks_alike


def described(figure: Figure) -> str:
    """What the figure shows: for each of its axes the quantities, and what is drawn of them."""
    shown = [ax for ax in figure.axes if ax.get_visible()]
    parts = [_axes(ax) for ax in shown]
    if len(parts) > 1:
        parts = [f"Part {number}: {part}" for number, part in enumerate(parts, start=1)]
    title = figure.get_suptitle()
    return " ".join([f"{title.rstrip('.')}."] * bool(title) + parts) or "An empty figure."


def _axes(ax: Axes) -> str:
    title = " ".join(filter(None, (ax.get_title(loc) for loc in ("left", "center", "right"))))
    sentences = [title] if title else []
    sentences.append(f"{_axis(ax.yaxis)} over {_axis(ax.xaxis)}")
    sentences += _drawn(ax)
    notes = [text.get_text().strip() for text in ax.texts if text.get_visible()]
    if notes := list(dict.fromkeys(" ".join(note.split()) for note in notes if note)):
        sentences.append(f"Notes: {'; '.join(notes)}")
    return " ".join(f"{each.rstrip('.')}." for each in sentences)


def _axis(axis: Axis) -> str:
    name = " ".join(axis.get_label_text().split()) or "axis without a label"
    rows = [each.get_text() for each in axis.get_ticklabels()]
    if isinstance(axis.get_major_locator(), FixedLocator) and any(rows):
        return f"{name} ({', '.join(filter(None, rows))})"
    low, high = sorted(axis.get_view_interval())
    scale = ", logarithmic" if axis.get_scale() == "log" else ""
    return f"{name}, {numbers.number(low)} to {numbers.number(high)}{scale}"


def _drawn(ax: Axes) -> Iterator[str]:
    """One sentence for each thing with a name, then one for what has none."""
    handles, names = ax.get_legend_handles_labels()
    named_ids: set[int] = set()
    for handle, name in zip(handles, names, strict=True):
        named_ids |= {id(handle), *map(id, _members(handle))}
        if words := _artist(handle):
            yield f"{name}: {words}"
    nameless = [
        _artist(each)
        for each in (*ax.containers, *ax.lines, *ax.collections)
        if id(each) not in named_ids and not named_ids.intersection(map(id, _members(each)))
    ]
    descriptions = [words for words in nameless if words]
    if descriptions:
        left_out = len(descriptions) - MOST_POINTS
        more = f"; and {left_out} more" if left_out > 0 else ""
        start = "Also drawn" if named_ids else "Shown"
        yield f"{start}: {'; '.join(descriptions[:MOST_POINTS])}{more}"


def _members(handle: object) -> list[Artist]:
    if not isinstance(handle, Container):
        return []
    return [
        artist
        for part in handle
        for artist in (part if isinstance(part, tuple | list) else [part])
        if isinstance(artist, Artist)
    ]


def _artist(artist: Any) -> str:
    """What one thing that was drawn says, in numbers; empty where that is nothing."""
    if isinstance(artist, BarContainer):
        return _bars(artist)
    if isinstance(artist, Container):  # dots with their intervals
        lines = [each for each in _members(artist) if isinstance(each, Line2D)]
        return _artist(lines[0]) if lines else ""
    if isinstance(artist, PolyCollection):
        return _ribbon(np.concatenate([path.vertices for path in artist.get_paths()]))
    if isinstance(artist, LineCollection):
        return _marks(artist.get_segments())
    if isinstance(artist, PathCollection):
        return _points("dot", np.asarray(artist.get_offsets()))
    if isinstance(artist, Line2D):
        points = np.asarray(artist.get_xydata(), dtype=float)
        if artist.get_linestyle() in ("None", "", " "):
            return _points("dot", points)
        return _line(points)
    return ""


def _ribbon(points: Any) -> str:
    """Where an area between two lines begins and ends, from below to above."""
    ends = []
    for x in (points[:, 0].min(), points[:, 0].max()):
        low, high = np.percentile(points[points[:, 0] == x, 1], [0, 100])
        ends.append(f"{numbers.number(low)} to {numbers.number(high)} at {numbers.number(x)}")
    return f"a ribbon, {' and '.join(ends)}"


def _bars(bars: BarContainer) -> str:
    sizes = [
        bar.get_width() if bars.orientation == "horizontal" else bar.get_height()
        for bar in bars.patches
    ]
    sizes = [size for size in sizes if math.isfinite(size)]
    if not sizes:
        return ""
    if len(sizes) <= MOST_POINTS:
        return f"{numbers.count(len(sizes), 'bar')}, long {', '.join(map(numbers.number, sizes))}"
    return f"{len(sizes)} bars, long {numbers.number(min(sizes))} to {numbers.number(max(sizes))}"


def _marks(segments: Sequence[Any]) -> str:
    """Short lines that mark a place each: where they stand."""
    upright = [each[0][0] for each in segments if np.ptp(each[:, 0]) == 0]
    level = [each[0][1] for each in segments if np.ptp(each[:, 1]) == 0 < np.ptp(each[:, 0])]
    places = upright or level
    if len(places) < len(segments) or not 0 < len(places) <= 2 * MOST_POINTS:
        return ""
    return f"{numbers.count(len(places), 'mark')} at {', '.join(map(numbers.number, places))}"


def _line(points: Any) -> str:
    xs, ys = points[:, 0], points[:, 1]
    if len(points) >= 2 and np.ptp(ys) == 0:
        return f"a level line at {numbers.number(ys[0])}"
    if len(points) >= 2 and np.ptp(xs) == 0:
        return f"an upright line at {numbers.number(xs[0])}"
    return _points("line", points)


def _points(kind: str, points: Sequence[Any] | Any) -> str:
    kept = [(float(x), float(y)) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    if not kept:
        return ""
    what = "a line through" if kind == "line" else f"{numbers.count(len(kept), kind)} at"
    if len(kept) <= MOST_POINTS:
        return f"{what} {', '.join(map(_pair, kept))}"
    ys = [y for _, y in kept]
    between = "a line" if kind == "line" else f"{len(kept):,} {kind}s"
    low, high = numbers.number(min(ys)), numbers.number(max(ys))
    return f"{between} from {_pair(kept[0])} to {_pair(kept[-1])}, lowest {low}, highest {high}"


def _pair(point: tuple[float, float]) -> str:
    return f"({numbers.number(point[0])}, {numbers.number(point[1])})"
