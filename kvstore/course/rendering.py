"""What is on the page, with a plain form: text, tables, progress, source code, captions of figures.

Text is escaped. Text and tables need no JavaScript, no style sheet and no trusted notebook.
"""

import base64
import html
import inspect
import io
import json
import re
import secrets
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, runtime_checkable

from IPython.core.getipython import get_ipython
from IPython.display import display

if TYPE_CHECKING:  # at run time where they are needed: what only judges or stores loads faster
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    """Return the text with a capital letter and a full stop, as a sentence has them."""
    begun = percent_spaced(capitalised(text))
    return begun if not begun or begun[-1] in ".:!?" else f"{begun}."


def capitalised(text: str) -> str:
    """Return the text with a capital letter.

    A symbol or a name of the code at its beginning keeps its form: k, R, round_robin, `threads`.
    """
    first = re.match(r"(?:a|[a-z][A-Za-z]+)(?![\w.(])", text)
    return text[0].upper() + text[1:] if first else text


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


def _frame(head: Sequence[object], rows: Iterable[Sequence[object]]) -> "pd.DataFrame":
    import pandas as pd

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
    from tqdm.auto import tqdm

    with tqdm(things, desc=what, disable=get_ipython() is None) as bar:
        for thing in bar:
            bar.set_postfix_str(str(thing))
            yield thing


def scripted(script: str, function: str, words: str, data: Any, *, kind: str) -> str:
    """Return HTML in which `function(element, data)` of the script draws; words without scripts.

    The element has the class `rpc-KIND`. It needs no kernel and no network.
    """
    name = f"{kind}-{secrets.token_hex(6)}"
    # Nothing in it ends the script
    data_json = json.dumps(data, allow_nan=False).replace("</", "<\\/")
    return (
        f'<div id="{name}" class="rpc-{kind}">{escaped(words)}</div>\n'
        f"<script>(() => {{\n{script}\n"
        f'{function}(document.getElementById("{name}"), {data_json});\n'
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
    if file.parent.name == "my_code":
        return f"my_code/{file.name}, line {line}"
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


def captioned(ax: "Axes", text: str) -> None:
    """Show the figure of these axes, with `text` below it and as its alternative text.

    Compute the text from the run, so that it says what the figure shows here.
    """
    import matplotlib.pyplot as plt

    text = percent_spaced(text)
    figure = ax.figure.get_figure(root=True)
    assert figure is not None
    bundle = {"image/png": png(figure, bbox_inches="tight"), "text/plain": text}
    plt.close(figure)
    if get_ipython() is not None:
        display(bundle, raw=True, metadata={"image/png": {"alt": text}})  # type: ignore[no-untyped-call]
    show({"text/plain": text, "text/html": f"<p><em>{inline(text)}</em></p>"})


def png(figure: "Figure", **options: Any) -> str:
    """Return the figure as a PNG without a ground, in base64."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", transparent=True, **options)
    return base64.b64encode(picture.getvalue()).decode("ascii")
