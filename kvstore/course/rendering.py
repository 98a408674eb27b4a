"""Text, tables and progress bars on the page: escaped, with a plain form beside the rich one.

Text and tables need no JavaScript, no style sheet and no trusted notebook.
"""

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pandas as pd
from IPython.core.getipython import get_ipython
from IPython.display import display
from tqdm.auto import tqdm

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


def headline(mark: str, text: str, colour: str) -> str:
    """Return one line of HTML: a coloured mark and the text."""
    return f'<b style="color: {colour}">{escaped(mark)}</b> {inline(text)}'


def show(bundle: Mapping[str, Any]) -> None:
    """Show a bundle of forms on the page; without IPython, print the plain one.

    `bundle` maps MIME types to contents and must have `text/plain`.
    """
    if get_ipython() is None:
        print(bundle["text/plain"])
    else:
        display(dict(bundle), raw=True)  # type: ignore[no-untyped-call]


def number(value: float) -> str:
    """Return a number with three or four significant digits and commas between thousands."""
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if abs(value) >= 10_000:
        value = float(f"{value:.4g}")
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


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
