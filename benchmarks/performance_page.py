"""The page of the evidence: a figure and a table for each case, and the conditions."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from benchmarks import page
from benchmarks.page import four_digits
from kvstore.course.views import style

CPU = ("client_cpu_s", "server_cpu_s")


class Round(NamedTuple):
    """One turn of one program; NaN for figures that are not known."""

    per_s: float
    """Operations answered OK per second."""
    client_cpu_s: float
    """CPU seconds for each operation."""
    server_cpu_s: float
    call_bytes: float = math.nan
    """Memory of the client per call in flight, in bytes."""
    lost: int = 0
    """Operations that were sent and not answered OK."""


@dataclass
class Turns:
    """What one program did in each round of a case."""

    name: str
    take: Callable[[float], tuple[Round, float]]
    """Make one turn of about this many seconds; return it and its bound in operations/s, or NaN."""
    rounds: list[Round] = field(default_factory=list)
    over_bound: list[float] = field(default_factory=list)
    """Measured over the bound of the model, in each round; NaN without one."""


@dataclass
class Case:
    """Programs that do the same work, in interleaved rounds."""

    name: str
    conditions: str
    turns: list[Turns]
    seconds: float = 2.0
    """Seconds of one turn."""

    @property
    def reference(self) -> Turns:
        """The program with which the others are compared: the first one."""
        return self.turns[0]

    def of_reference(self, turns: Turns) -> float:
        """Return the median of the ratios to the reference within each round."""
        pairs = zip(turns.rounds, self.reference.rounds, strict=True)
        return float(np.median([one.per_s / other.per_s for one, other in pairs]))


def rows(case: Case) -> Iterator[dict[str, Any]]:
    """Yield one row of text for each program of a case."""
    for turns in case.turns:
        rates = [each.per_s for each in turns.rounds]
        yield {
            "case": case.name,
            "client": turns.name,
            "operations/s": four_digits(float(np.median(rates))),
            "spread": f"{four_digits(min(rates))} to {four_digits(max(rates))}",
            "of the first": f"{case.of_reference(turns):.2f}",
            "of the bound": _ratio(turns.over_bound),
            "CPU us client/server": " / ".join(_cpu(turns, side) for side in CPU),
            "KiB/call": _known([each.call_bytes / 1024 for each in turns.rounds], "{:.1f}"),
            "lost": sum(each.lost for each in turns.rounds),
        }


def _ratio(values: Sequence[float]) -> str:
    return _known(values, "{:.3f}")


def _cpu(turns: Turns, side: str) -> str:
    return _known([1e6 * getattr(each, side) for each in turns.rounds], "{:.3g}") or "?"


def _known(values: Sequence[float], form: str) -> str:
    """Return the median as text; empty if the figure is not known."""
    return "" if np.isnan(values).any() else form.format(float(np.median(values)))


def write(
    folder: Path,
    cases: Sequence[Case],
    host: Mapping[str, Any],
    rounds: int,
    missing: Sequence[str],
) -> list[Path]:
    """Write performance.svg and performance.md; return where they are."""
    heights = [len(case.turns) + 1.5 for case in cases]

    def pictures(figure: Figure) -> None:
        axes = figure.subplots(len(cases), 1, height_ratios=heights, squeeze=False)
        for case, ax in zip(cases, axes.flat, strict=True):
            draw(case, ax)

    lines = markdown(cases, host, rounds, missing)
    return page.write(folder, "performance", 0.42 * sum(heights), pictures, lines)


def draw(case: Case, ax: Axes) -> Axes:
    """Draw the programs of a case: a bar for the median, a line from the lowest to the highest."""
    with style.canvas(ax) as ax:
        names = [turns.name for turns in case.turns]
        rates = [[each.per_s for each in turns.rounds] for turns in case.turns]
        medians = [float(np.median(each)) for each in rates]
        ax.barh(range(len(names)), medians, height=0.6, color=style.MEASURED, alpha=0.8)
        ax.hlines(
            range(len(names)), [min(each) for each in rates], [max(each) for each in rates],
            color=style.INK, linewidth=2.5,
        )  # fmt: skip
        for place, median in enumerate(medians):
            ax.annotate(
                four_digits(median), (max(rates[place]), place), (6, 0),
                textcoords="offset points", va="center", fontsize=style.TEXT_PT,
            )  # fmt: skip
        ax.invert_yaxis()
        ax.set_yticks(range(len(names)), names)
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))
        ax.set_xlim(0, 1.15 * max(max(each) for each in rates))  # room for the number
        ax.set(xlabel=f"throughput (operations/s)\n{case.conditions}", title=case.name)
    ax.grid(visible=False, axis="y")
    return ax


def markdown(
    cases: Sequence[Case], host: Mapping[str, Any], rounds: int, missing: Sequence[str]
) -> list[str]:
    """Return the lines of the page: a table for each case, and the conditions."""
    lines = [
        "# Performance, measured",
        "",
        "Our clients beside other programs that do the same work.",
        "`python3 course.py bench performance` measures the cases on your machine and writes this"
        " page.",
        "",
        "![Throughput of each program, case by case](performance.svg)",
    ]
    for case in cases:
        table = list(rows(case))
        shown = [name for name in table[0] if name != "case" and any(row[name] for row in table)]
        lines += ["", f"## {case.name}", "", f"{case.conditions[0].upper()}{case.conditions[1:]}."]
        lines += [f"One turn takes {case.seconds:g} s.", ""]
        lines += page.table([{name: row[name] for name in shown} for row in table])
    lines += [
        "",
        "## Conditions",
        "",
        page.machine(host),
        f"{rounds} rounds; in each, every program of a case takes one turn, and the order changes.",
        "`operations/s` is the median of the rounds, `spread` the lowest and the highest. `of the",
        "first` compares with the first program of the case within each round. `of the bound`",
        "compares with 100 calls in flight divided by their mean work. For 10,000 in flight the",
        "bound comes from the CPU time of a call at 1,000 in flight. CPU times are microseconds",
        "for one operation; a question mark stands for a program whose CPU time is not measured.",
        "Client and server are two processes on one machine. `stock` and `poller` are transport",
        "profiles: [kvstore/transport.py](../kvstore/transport.py) says what they set.",
    ]
    if missing:
        lines.append(f"Not installed, and left out: {', '.join(missing)}.")
    return lines
