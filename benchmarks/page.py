"""What the pages of docs/ share: a figure beside a text, tables, numbers, and the machine."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, cast

import matplotlib as mpl
from matplotlib.figure import Figure

SAME_BYTES: Final[dict[str, Any]] = {"svg.hashsalt": "course", "svg.fonttype": "path"}
"""Settings of matplotlib: identifiers that are not random, and text as paths without a font."""


INTERVALS: Final = "## Intervals of the model"
"""The last section of docs/performance.md, which `bench coverage` writes."""


def before_and_after(path: Path) -> tuple[str, str]:
    """Return the text of a page before the section of the intervals, and this section."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    before, mark, after = text.partition(INTERVALS)
    return before, mark + after


def write(
    folder: Path, name: str, height: float, draw: Callable[[Figure], object], lines: Sequence[str]
) -> list[Path]:
    """Write NAME.svg, `height` inches high, and NAME.md with these lines; return both paths."""
    picture, page = folder / f"{name}.svg", folder / f"{name}.md"
    with mpl.rc_context(cast("Any", SAME_BYTES)):
        figure = Figure(figsize=(11.0, height), layout="constrained")
        draw(figure)
        figure.savefig(picture, metadata={"Date": None, "Creator": None})
    page.write_text("\n".join([*lines, ""]), encoding="utf-8", newline="\n")
    return [picture, page]


def table(rows: Sequence[Mapping[str, Any]], texts: int = 1) -> list[str]:
    """Return rows as lines of Markdown: the first `texts` columns to the left, numbers right."""
    names = list(rows[0])
    sides = ["---"] * texts + ["---:"] * (len(names) - texts)
    cells = [names, sides, *([str(row[name]) for name in names] for row in rows)]
    return [f"| {' | '.join(each)} |" for each in cells]


def machine(host: Mapping[str, Any]) -> str:
    """Return when and where: the date, the processor and its cores, and the versions."""
    versions = ", ".join(f"{name} {host[name]}" for name in ("python", "grpcio", "uvloop"))
    return (
        f"Measured on {date.today().isoformat()}: {host['processor']}, {host['cores']} cores,"
        f" {versions}."
    )


def four_digits(value: float) -> str:
    """A number with four significant digits and no power of ten."""
    return f"{float(f'{value:.4g}'):,.10g}"
