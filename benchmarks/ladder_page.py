"""The page of the ladder: a figure and a table. The same steps give the same files."""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from benchmarks.cost import NAMES
from kvstore.course.rendering import TIMES
from kvstore.course.views import style
from kvstore.measure.validity import STOLEN

SAME_BYTES: Final[dict[str, Any]] = {"svg.hashsalt": "ladder", "svg.fonttype": "path"}
"""Settings of matplotlib: identifiers that are not random, and text as paths without a font."""

A_CORE: Final = 0.8
"""A process that is the bottleneck and uses less of a core than this did not get the core."""


class Rung(NamedTuple):
    """One step of the ladder."""

    name: str
    conditions: str
    predicted_per_s: float
    measured_per_s: float
    binds: str
    """The predicted bottleneck."""
    client_busy: float
    server_busy: float
    """The share of a core that each event loop used (without an event loop: the process). Far below
    1 with a CPU as the predicted bottleneck, another program used the core."""
    stolen: float = 0.0
    """Cores that the host took from its virtual machine during the runs."""
    interval_per_s: tuple[float, float] | None = None
    """The lowest and the highest prediction of the rounds; None with a single round."""

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.measured_per_s / self.predicted_per_s

    @property
    def starved(self) -> bool:
        """Whether a CPU was the predicted bottleneck and neither process had most of a core."""
        return self.binds in NAMES.values() and max(self.client_busy, self.server_busy) < A_CORE

    @property
    def predicted(self) -> str:
        """The prediction as text, with its interval."""
        mean = four_digits(self.predicted_per_s)
        if self.interval_per_s is None:
            return mean
        low, high = (four_digits(each) for each in self.interval_per_s)
        return f"{mean} ({low} to {high})"

    @property
    def busy(self) -> str:
        """The cores that client and server used, as text."""
        return f"{self.client_busy:.2f} / {self.server_busy:.2f}"

    def row(self) -> dict[str, Any]:
        """The rung as a row of a benchmark's table."""
        return {
            "step": self.name,
            "conditions": self.conditions,
            "predicted/s": self.predicted,
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

    The page names what a figure depends on: processor, cores, versions.
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
    """Draw the steps from the bottom up on a logarithmic axis: predicted lines, measured dots."""
    with style.canvas(ax) as ax:
        heights = range(len(rungs))
        measured = [rung.measured_per_s for rung in rungs]
        predicted = [rung.predicted_per_s for rung in rungs]
        ax.plot(measured, heights, color="#CCCCCC", linewidth=1.5, zorder=1)
        ax.plot(measured, heights, "o", color=style.MEASURED, label="measured", zorder=3)
        ax.vlines(
            predicted, [height - 0.3 for height in heights], [height + 0.3 for height in heights],
            color=style.PREDICTED, label="predicted before the run", zorder=4,
        )  # fmt: skip
        intervals = [rung.interval_per_s or (rung.predicted_per_s,) * 2 for rung in rungs]
        ax.barh(
            list(heights), [high - low for low, high in intervals], 0.6,
            left=[low for low, _ in intervals], color=style.PREDICTED, alpha=0.25, zorder=2,
            label="lowest to highest prediction",
        )  # fmt: skip
        for height, rung in zip(heights, rungs, strict=True):
            ax.annotate(
                f"{four_digits(rung.measured_per_s)}/s, {rung.ratio:.2f} {TIMES} predicted",
                (max(rung.measured_per_s, intervals[height][1]), height), (12, 0),
                textcoords="offset points", va="center", bbox=style.PAPER, zorder=2,
            )  # fmt: skip
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))
        # Room for the number beside the highest dot, in proportion to the range of the axis.
        lowest, highest = min(measured + predicted), max(measured + predicted)
        ax.set_xlim(lowest / 2, highest * (highest / lowest) ** 0.55)
        ax.set_ylim(-0.6, len(rungs) - 0.4)
        ax.set(yticks=list(heights), xlabel="throughput (operations/s)")
        ax.set_yticklabels([rung.name for rung in rungs])
        _name_conditions(rungs, ax)
        style.key_above(ax)
    ax.grid(visible=False, axis="y")
    return ax


def _name_conditions(rungs: Sequence[Rung], ax: Axes) -> None:
    """Draw a line where the conditions change, and their name at the bottom of each part."""
    before = ""
    for height, rung in enumerate(rungs):
        if rung.conditions != before:
            if height:
                ax.axhline(height - 0.5, color=style.INK, linestyle=":", linewidth=1.5)
            ax.annotate(
                rung.conditions, (1.0, height - 0.45), (-4, 2), ha="right", va="bottom",
                xycoords=("axes fraction", "data"), textcoords="offset points",
                color=style.INK, fontsize=style.TEXT_PT,
            )  # fmt: skip
        before = rung.conditions


def _host_of(rungs: Sequence[Rung], host: Mapping[str, Any]) -> list[str]:
    """Lines on what the host did during the runs: cores kept awake, cores taken away."""
    lines = []
    if host.get("cores_kept_awake"):
        lines.append("The cores were kept awake (`--awake`).")
    if (most := max(rung.stolen for rung in rungs)) > STOLEN:
        lines.append(f"The host of this virtual machine took up to {most:.2f} of its cores away.")
    return lines


def markdown(rungs: Sequence[Rung], host: Mapping[str, Any], pace: str) -> str:
    """Return the page as Markdown: the table, and the conditions of the measurement."""
    lowest = rungs[0].measured_per_s
    lines = [
        "# The ladder",
        "",
        "The throughput of one key-value service, step by step, each predicted before its run.",
        "`python3 course.py bench ladder` measures the steps on your machine and writes this page.",
        "",
        "![Throughput of each step, predicted and measured](ladder.svg)",
        "",
        "| step | conditions | predicted, mean (lowest to highest) of the rounds (operations/s)"
        " | measured (operations/s)"
        f" | measured ÷ predicted | bottleneck"
        f" | busy share of a core, client / server | {TIMES} the first |",
        "| --- | --- | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    for rung in rungs:
        lines.append(
            f"| {rung.name} | {rung.conditions} | {rung.predicted}"
            f" | {four_digits(rung.measured_per_s)} | {rung.ratio:.2f} | {rung.binds}"
            f" | {rung.busy} | {four_digits(rung.measured_per_s / lowest)} |"
        )
    if starved := [rung.name for rung in rungs if rung.starved]:
        lines += [
            "",
            "A CPU was the predicted bottleneck, but other programs used the cores: "
            + "; ".join(starved)
            + ". Measure again on a quiet machine.",
        ]
    versions = ", ".join(f"{name} {host[name]}" for name in ("python", "grpcio", "uvloop"))
    lines += [
        "",
        f"Measured on {date.today().isoformat()}: {host['processor']}, {host['cores']} cores, "
        f"{versions}. {pace}; the parts of its prediction were measured before each round.",
        *_host_of(rungs, host),
        "A prediction is as exact as its parts: the interval shows how they changed.",
        "Client and server are two processes on this machine. The server uses asyncio, and so do",
        "the clients of the last six steps. A processor is the bottleneck if the event loop of one",
        "process is always busy; the table shows how busy both event loops were.",
        "Values that batches read were compared with the values written.",
        "",
    ]
    return "\n".join(lines)
