"""What is on the page, with a plain form: text, tables, progress, source code, figures in words.

Text is escaped. Text and tables need no JavaScript, no style sheet and no trusted notebook.
"""

import base64
import html
import inspect
import io
import json
import math
import re
import secrets
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.core.getipython import get_ipython
from IPython.display import display
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.container import BarContainer, Container
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator
from tqdm.auto import tqdm

from kvstore import numbers

T = TypeVar("T")

GOOD, BAD, QUIET = (
    f"color-mix(in srgb, {colour} 60%, currentcolor)"
    for colour in ("#009e73", "#d55e00", "#888888")
)
"""Text colours, darker than the named one on a white page and lighter on a dark one.

A colour is never the only sign of a meaning.
"""

LINES = "display: inline-block; line-height: 1.45"
"""The style of a text in a widget, whose lines would be as far apart as buttons."""

NONE, TIMES = "\N{EN DASH}", "\N{MULTIPLICATION SIGN}"
"""The signs for no value and for a factor in a table."""


@runtime_checkable
class HasValue(Protocol):
    """What `kvstore.model` returns: a number with its unit."""

    @property
    def value(self) -> float:
        """The number."""
        ...

    @property
    def unit(self) -> str:
        """What it is measured in."""
        ...


@runtime_checkable
class HasThroughput(Protocol):
    """What a run must tell to be compared as it is."""

    @property
    def throughput_per_s(self) -> float:
        """Operations answered OK in each second."""
        ...


def escaped(text: object) -> str:
    """Return the text with every character escaped that HTML reads as markup."""
    return html.escape(str(text))


def inline(text: str) -> str:
    """Return the text as HTML: escaped, `code` between backticks, and *a word* with emphasis."""
    parts = re.split(r"`([^`]+)`", escaped(text))
    return "".join(
        f"<code>{part}</code>"
        if place % 2
        else re.sub(r"(?<![\w*])\*([A-Za-z][A-Za-z ]*)\*(?![\w*])", r"<em>\1</em>", part)
        for place, part in enumerate(parts)
    ).replace("\n", "<br>")


def as_sentence(text: str) -> str:
    """Return the text with a capital letter and a full stop, as a sentence has them.

    A symbol or a name of the code at its beginning keeps its form: k, R, round_robin, `threads`.
    """
    first = re.match(r"(?:a|[a-z][A-Za-z]+)(?![\w.(])", text)
    begun = percent_spaced(text[0].upper() + text[1:] if first else text)
    return begun if not begun or begun[-1] in ".:!?" else f"{begun}."


def percent_spaced(text: str) -> str:
    """Return the text with a space before each sign of percent; Python's own format has none."""
    return re.sub(r"(?<=\d)%", " %", text)


def markdown_escaped(text: str) -> str:
    """Return the text as Markdown: escaped, with text between backticks as code.

    Code does not extend over the end of a line. A backtick without a partner is escaped, because
    Markdown would read the text after it as markup, HTML included.
    """
    parts = re.split(r"((?<!`)`[^`\n]+`(?!`))", text)
    return "".join(
        part if place % 2 else re.sub(r"([\\`*_$&<>\[\]#|~])", r"\\\1", part)
        for place, part in enumerate(parts)
    )


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return an HTML table; every cell is escaped, and the first column is the heading of rows.

    A column of sentences is aligned to the left, where lines of text begin.
    """
    rows = [list(row) for row in rows]
    left = [
        any(len(row) > place and re.search(r"[^\W\d]+ [^\W\d]+", str(row[place])) for row in rows)
        for place in range(len(head))
    ]

    def cell(tag: str, place: int, text: object) -> str:
        style = ' style="text-align: left"' if place and left[place] else ""
        return f"<{tag}{style}>{escaped(text)}</{tag}>"

    top = "".join(cell("th", place, text) for place, text in enumerate(head))
    lines = (
        "".join(cell("td" if place else "th", place, text) for place, text in enumerate(row))
        for row in rows
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table class="dataframe"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def plain_table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return the same table as aligned lines of text."""
    return _frame(head, rows).to_string()


def _frame(head: Sequence[object], rows: Iterable[Sequence[object]]) -> pd.DataFrame:
    cells = [[str(cell) for cell in row] for row in rows]
    corner, *columns = (str(cell) for cell in head)
    return pd.DataFrame(
        [row[1:] for row in cells],
        index=pd.Index([row[0] for row in cells]),
        columns=pd.Index(columns, name=corner or None),
    )


def counted(things: Sequence[T], what: str = "run") -> Iterator[T]:
    """Yield one thing after the other with a progress bar that names it.

    There is no bar outside a notebook.
    """
    with tqdm(things, desc=what, disable=get_ipython() is None) as bar:
        for thing in bar:
            bar.set_postfix_str(str(thing))
            yield thing


def scripted(script: str, function: str, words: str, data: Any, *, kind: str) -> str:
    """Return HTML in which `function(element, data)` of the script draws; words without scripts.

    The element has the class `rpc-KIND`. It needs no kernel and no network.
    """
    name = f"{kind}-{secrets.token_hex(6)}"
    given = json.dumps(data, allow_nan=False).replace("</", "<\\/")  # nothing in it ends the script
    return (
        f'<div id="{name}" class="rpc-{kind}">{escaped(words)}</div>\n'
        f"<script>(() => {{\n{script}\n"
        f'{function}(document.getElementById("{name}"), {given});\n'
        "})();</script>"
    )


def headline(mark: str, text: str, colour: str) -> str:
    """Return one line of HTML: a coloured mark and the text."""
    return f'<b style="color: {colour}">{inline(mark)}</b> {inline(text)}'


def show(bundle: Mapping[str, Any]) -> None:
    """Show a bundle of forms on the page; without IPython, print the plain one.

    `bundle` maps MIME types to contents and must have `text/plain`.
    """
    if get_ipython() is None:
        print(bundle["text/plain"])
    else:
        display(dict(bundle), raw=True)  # type: ignore[no-untyped-call]


def say(text: str) -> None:
    """Show one line of text."""
    show({"text/plain": text, "text/html": inline(text)})


class Shown:
    """A result that is shown when it is made, and not again as the last value of the same cell."""

    def _forms(self) -> Mapping[str, Any]:
        raise NotImplementedError

    def _show(self) -> None:
        """Show the result now, and remember the cell."""
        object.__setattr__(self, "_shown_in", _cell())
        show(self._forms())

    def _ipython_display_(self) -> None:
        if getattr(self, "_shown_in", None) != _cell():
            show(self._forms())


def _cell() -> int | None:
    shell = get_ipython()
    return None if shell is None else shell.execution_count


# ---- source -------------------------------------------------------------------------------------
# The source of the package and of its proto file, on the page: the code shown is the code run.


_PACKAGE: Final = Path(__file__).resolve().parents[1]


def show_source(thing: Callable[..., Any] | type | ModuleType) -> None:
    """Show the source of a function, class or module, highlighted.

    Raise TypeError for a value without source, such as a number.
    """
    source, origin = source_of(thing), origin_of(thing)
    show(
        {
            "text/plain": f"# {origin}\n{source}",
            "text/markdown": f"{markdown_escaped(origin)}\n\n{fenced(source)}",
        }
    )


def source_of(thing: Callable[..., Any] | type | ModuleType) -> str:
    """Return the text of the definition without its indentation."""
    try:
        return textwrap.dedent(inspect.getsource(inspect.unwrap(_definition(thing)))).rstrip()
    except (TypeError, OSError) as error:
        raise TypeError(
            f"there is no source to show for {thing!r}: "
            "pass a function or a class by its name, without calling it"
        ) from error


def origin_of(thing: Callable[..., Any] | type | ModuleType) -> str:
    """Return the place of the definition: the file within the package, and the line."""
    definition = inspect.unwrap(_definition(thing))
    file = Path(inspect.getsourcefile(definition) or "")
    line = 1 if inspect.ismodule(definition) else inspect.getsourcelines(definition)[1]
    if file.is_relative_to(_PACKAGE):
        return f"{file.relative_to(_PACKAGE.parent).as_posix()}, line {line}"
    return f"this notebook, line {line} of its cell" if _in_cell(file) else f"{file}, line {line}"


def fenced(source: str, language: str = "python") -> str:
    """Return the source as a Markdown block, which the front end highlights in its theme."""
    longest = max((len(ticks) for ticks in re.findall(r"`+", source)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{source}\n{fence}"


def _definition(thing: Any) -> Any:
    return getattr(thing, "func", thing)  # a functools.partial shows what it calls


def _in_cell(file: Path) -> bool:
    return not file.exists() or "ipykernel_" in str(file)


PROTO: Final = _PACKAGE.parent / "proto/kvstore/v1/kvstore.proto"


def show_message(*names: str) -> None:
    """Show messages, enums or services of the proto file, with the comments above them."""
    text = "\n\n".join(_message(name) for name in names)
    show(
        {
            "text/plain": text,
            "text/markdown": f"proto/kvstore/v1/kvstore.proto\n\n{fenced(text, 'protobuf')}",
        }
    )


def _message(name: str) -> str:
    """Return the text of one definition of the proto file; raise LookupError if it has none."""
    found = re.search(
        rf"(?:^//[^\n]*\n)*^(?:message|enum|service) {re.escape(name)} (?:{{}}|{{.*?^}})",
        PROTO.read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    if found is None:
        raise LookupError(f"{PROTO.name} defines no {name!r}: check the name")
    return found.group()


# ---- figures in words ---------------------------------------------------------------------------
# What a figure shows, in words: computed from what is drawn, or a caption below it.
#
# The notebook puts these words into the metadata of each figure that it shows, from where the front
# end takes them as the alternative text of the image.


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
        if figure.get_gid() == NO_GROUND:  # only here, or matplotlib asks the page for a ground
            figure.set_facecolor("none")
        try:
            made = self._inner(figure)
        finally:
            figure.set_facecolor(ground)
        if made is None:
            return None
        picture, metadata = made if isinstance(made, tuple) else (made, {})
        return picture, {**metadata, "alt": described(figure)}


def described(figure: Figure) -> str:
    """What the figure shows: for each of its axes the quantities, and what is drawn of them."""
    shown = [ax for ax in figure.axes if ax.get_visible()]
    parts = [_axes(ax) for ax in shown]
    if len(parts) > 1:
        parts = [f"Part {number}: {part}" for number, part in enumerate(parts, start=1)]
    return " ".join(parts) or "An empty figure."


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
    seen: set[int] = set()
    for handle, name in zip(handles, names, strict=True):
        seen |= {id(handle), *map(id, _members(handle))}
        if words := _artist(handle):
            yield f"{name}: {words}"
    nameless = [
        _artist(each)
        for each in (*ax.containers, *ax.lines, *ax.collections)
        if id(each) not in seen and not seen.intersection(map(id, _members(each)))
    ]
    found = [words for words in nameless if words]
    if found:
        more = f"; and {len(found) - MOST_POINTS} more" if len(found) > MOST_POINTS else ""
        yield f"{'Also drawn' if seen else 'Shown'}: {'; '.join(found[:MOST_POINTS])}{more}"


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


def captioned(ax: Axes, text: str) -> None:
    """Show the figure of these axes, with `text` below it and as its alternative text.

    Compute the text from the run, so that it says what the figure shows here.
    """
    text = percent_spaced(text)
    figure = ax.figure.get_figure(root=True)
    assert figure is not None
    bundle = {"image/png": png(figure, bbox_inches="tight"), "text/plain": text}
    plt.close(figure)
    if get_ipython() is not None:
        display(bundle, raw=True, metadata={"image/png": {"alt": text}})  # type: ignore[no-untyped-call]
    show({"text/plain": text, "text/html": f"<p><em>{inline(text)}</em></p>"})


def png(figure: Figure, **options: Any) -> str:
    """Return the figure as a PNG without a ground, in base64."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", transparent=True, **options)
    return base64.b64encode(picture.getvalue()).decode("ascii")
