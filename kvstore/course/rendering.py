"""How text reaches the page: escaped, and always with a plain form beside the rich one.

Nothing here needs JavaScript, a style sheet or a trusted notebook: what the front end
strips from a notebook it does not trust is not used.
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.display import display

GOOD, BAD, QUIET = "#00664d", "#a33b00", "#555555"
"""Text colours, dark enough to be read on white; never the only sign of a meaning."""

NONE, TIMES = "\N{EN DASH}", "\N{MULTIPLICATION SIGN}"
"""What stands in a table for no value, and for a factor."""


def escaped(text: object) -> str:
    """The text with nothing in it that HTML would read as markup."""
    return html.escape(str(text))


def inline(text: str) -> str:
    """The text as HTML: escaped, and what stands between backticks set as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped(text)).replace("\n", "<br>")


def markdown_escaped(text: str) -> str:
    """The text as Markdown that shows it as it stands, backticks included as code."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([\\*_$<>\[\]#|~])", r"\\\1", part)
        for part in parts
    )


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table; every cell is escaped, and the first column is set as a heading."""
    top = "".join(f'<th style="text-align: left">{escaped(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th style="text-align: left">{escaped(first)}</th>'
        + "".join(f'<td style="text-align: right">{escaped(cell)}</td>' for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def plain_table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """The same table as lines of text with columns that line up."""
    lines = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in lines
    )


def headline(mark: str, text: str, colour: str) -> str:
    """One line of HTML: a mark, and the text in a colour."""
    return f'<b style="color: {colour}">{escaped(mark)}</b> {inline(text)}'


def show(bundle: Mapping[str, Any]) -> None:
    """Put a bundle of forms on the page; without IPython, print the plain one.

    `bundle` maps MIME types to contents and must hold `text/plain`.
    """
    if get_ipython() is None:
        print(bundle["text/plain"])
    else:
        display(dict(bundle), raw=True)  # type: ignore[no-untyped-call]


def number(value: float) -> str:
    """A number as a person reads it: three significant digits, thousands with commas."""
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


class Shown:
    """A result that is put on the page when it is made.

    When it is also the last value of the same cell, it is not put there twice.
    """

    def _forms(self) -> Mapping[str, Any]:
        raise NotImplementedError

    def _show(self) -> None:
        """Put it on the page now, and remember in which cell that was."""
        object.__setattr__(self, "_shown_in", _cell())
        show(self._forms())

    def _ipython_display_(self) -> None:
        if getattr(self, "_shown_in", None) != _cell():
            show(self._forms())


def _cell() -> int | None:
    shell = get_ipython()
    return None if shell is None else shell.execution_count
