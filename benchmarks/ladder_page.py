"""The page of the ladder: one figure and one table, the same from the same rungs."""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from benchmarks.cost import NAMES
from kvstore.course.figures import style
from kvstore.course.rendering import TIMES
from kvstore.measure.verdict import STOLEN

SAME_BYTES: Final[dict[str, Any]] = {"svg.hashsalt": "ladder", "svg.fonttype": "path"}
"""Names inside the file that are random otherwise, and letters that need no font."""

A_CORE: Final = 0.8
"""A process that has less of a core than this was kept from it."""


class Rung(NamedTuple):
    """One step of the ladder."""

    name: str
    conditions: str
    predicted_per_s: float
    measured_per_s: float
    binds: str
    """The station that the prediction says sets the limit."""
    client_busy: float
    server_busy: float
    """The share of a core that each side's event loop (of a client without one, the process)
    kept busy: far below 1 where the processor was to bind, another program had it."""
    stolen: float = 0.0
    """Cores that the host of a virtual machine took away meanwhile."""

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.measured_per_s / self.predicted_per_s

    @property
    def starved(self) -> bool:
        """Whether a processor was to bind, and neither process had most of one."""
        return self.binds in NAMES.values() and max(self.client_busy, self.server_busy) < A_CORE

    @property
    def busy(self) -> str:
        """Cores that client and server kept busy."""
        return f"{self.client_busy:.2f} / {self.server_busy:.2f}"

    def row(self) -> dict[str, Any]:
        """The rung as a row of a benchmark's table."""
        return {
            "step": self.name,
            "conditions": self.conditions,
            "predicted/s": four_digits(self.predicted_per_s),
            "measured/s": four_digits(self.measured_per_s),
            "ratio": round(self.ratio, 2),
            "binds": self.binds,
            "cores busy client/server": self.busy,
            "cores stolen": round(self.stolen, 2),
        }


def four_digits(value: float) -> str:
    """A number with four significant digits and no power of ten."""
    return f"{float(f'{value:.4g}'):,.10g}"


def write_page(
    folder: Path, rungs: Sequence[Rung], host: Mapping[str, Any], pace: str
) -> list[Path]:
    """Write ladder.svg and ladder.md; return where they are.

    Of the host only what a figure depends on is told: processor, cores, versions.
    """
    picture, page = folder / "ladder.svg", folder / "ladder.md"
    with mpl.rc_context(cast("Any", SAME_BYTES)):
        figure = Figure(figsize=(11.0, 1.6 + 0.62 * len(rungs)))
        draw(rungs, figure.add_subplot())
        figure.set_layout_engine("constrained")
        figure.savefig(picture, metadata={"Date": None, "Creator": None})
    page.write_text(markdown(rungs, host, pace), encoding="utf-8", newline="\n")
    return [picture, page]


def draw(rungs: Sequence[Rung], ax: Axes) -> Axes:
    """The rungs from the bottom up on a logarithmic axis: predicted lines, measured dots."""
    with style.canvas(ax) as ax:
        places = range(len(rungs))
        measured = [rung.measured_per_s for rung in rungs]
        predicted = [rung.predicted_per_s for rung in rungs]
        ax.plot(measured, places, color="#CCCCCC", linewidth=1.5, zorder=1)
        ax.plot(measured, places, "o", color=style.MEASURED, label="measured", zorder=3)
        ax.vlines(
            predicted, [place - 0.3 for place in places], [place + 0.3 for place in places],
            color=style.PREDICTED, label="predicted before the run", zorder=4,
        )  # fmt: skip
        for place, rung in zip(places, rungs, strict=True):
            ax.annotate(
                f"{four_digits(rung.measured_per_s)}/s, {rung.ratio:.2f} {TIMES} predicted",
                (max(rung.measured_per_s, rung.predicted_per_s), place), (12, 0),
                textcoords="offset points", va="center", bbox=style.PAPER, zorder=2,
            )  # fmt: skip
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))
        # The number beside the highest dot needs room that a margin in decades cannot promise.
        lowest, highest = min(measured + predicted), max(measured + predicted)
        ax.set_xlim(lowest / 2, highest * (highest / lowest) ** 0.55)
        ax.set_ylim(-0.6, len(rungs) - 0.4)
        ax.set(yticks=list(places), xlabel="throughput (operations/s)")
        ax.set_yticklabels([rung.name for rung in rungs])
        _name_conditions(rungs, ax)
        style.key_above(ax)
    ax.grid(visible=False, axis="y")
    return ax


def _name_conditions(rungs: Sequence[Rung], ax: Axes) -> None:
    """A line where the conditions change, and their name at the foot of each part."""
    before = ""
    for place, rung in enumerate(rungs):
        if rung.conditions != before:
            if place:
                ax.axhline(place - 0.5, color=style.GREY, linestyle=":", linewidth=1.5)
            ax.annotate(
                rung.conditions, (1.0, place - 0.45), (-4, 2), ha="right", va="bottom",
                xycoords=("axes fraction", "data"), textcoords="offset points",
                color=style.GREY, fontsize=style.TEXT_PT,
            )  # fmt: skip
        before = rung.conditions


def _host_of(rungs: Sequence[Rung], host: Mapping[str, Any]) -> list[str]:
    """What a machine that is not all one's own did meanwhile; nothing where there is none."""
    told = []
    if host.get("cores_kept_awake"):
        told.append("Every core was kept from falling asleep (`--awake`).")
    if (most := max(rung.stolen for rung in rungs)) > STOLEN:
        told.append(f"The host of this virtual machine took up to {most:.2f} of its cores away.")
    return told


def markdown(rungs: Sequence[Rung], host: Mapping[str, Any], pace: str) -> str:
    """The table beside the figure, with the conditions it was measured under."""
    lowest = rungs[0].measured_per_s
    lines = [
        "# The ladder",
        "",
        "The same key-value service, step by step, each step predicted before it was run.",
        "`python3 course.py bench ladder` measures it on your machine and writes this page anew.",
        "",
        "![Throughput of each step, predicted and measured](ladder.svg)",
        "",
        "| step | conditions | predicted (operations/s) | measured (operations/s)"
        f" | measured ÷ predicted | binds"
        f" | of a core busy, client / server | {TIMES} the first |",
        "| --- | --- | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    for rung in rungs:
        lines.append(
            f"| {rung.name} | {rung.conditions} | {four_digits(rung.predicted_per_s)}"
            f" | {four_digits(rung.measured_per_s)} | {rung.ratio:.2f} | {rung.binds}"
            f" | {rung.busy} | {four_digits(rung.measured_per_s / lowest)} |"
        )
    if starved := [rung.name for rung in rungs if rung.starved]:
        lines += [
            "",
            "A processor was to bind, but other programs had the cores meanwhile: "
            + "; ".join(starved)
            + ". Measure again on a quiet machine.",
        ]
    versions = ", ".join(f"{name} {host[name]}" for name in ("python", "grpcio", "uvloop"))
    lines += [
        "",
        f"Measured on {date.today().isoformat()}: {host['processor']}, {host['cores']} cores, "
        f"{versions}; {pace}, the parts of its prediction measured before each.",
        *_host_of(rungs, host),
        "Client and server have a process of their own each, on this machine; the server is on"
        " asyncio, the last six",
        "clients too. A processor binds when the event loop of a side has no time left: that share"
        " of a core is shown.",
        "Values that batches read are compared with what was written.",
        "",
    ]
    return "\n".join(lines)
