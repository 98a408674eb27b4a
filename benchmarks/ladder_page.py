"""The page of the ladder: a figure and a table. The same steps give the same files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter

from benchmarks import page
from benchmarks.cost import NAMES
from benchmarks.page import four_digits
from kvstore.course.rendering import TIMES
from kvstore.course.views import style
from kvstore.measure.validity import STOLEN

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
    """The interval of 90 % of the prediction; None with a single round."""

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.measured_per_s / self.predicted_per_s

    @property
    def starved(self) -> bool:
        """Whether a CPU was the predicted bottleneck and neither process had most of a core."""
        return self.binds in NAMES.values() and max(self.client_busy, self.server_busy) < A_CORE

    @property
    def row(self) -> dict[str, Any]:
        """The rung as a row of the table."""
        low, high = map(four_digits, self.interval_per_s or (self.predicted_per_s,) * 2)
        busy = f"{self.client_busy:.2f} / {self.server_busy:.2f}"
        interval = f" ({low} to {high})" if self.interval_per_s else ""
        return {
            "step": self.name,
            "conditions": self.conditions,
            "predicted (operations/s)": f"{four_digits(self.predicted_per_s)}{interval}",
            "measured (operations/s)": four_digits(self.measured_per_s),
            "measured ÷ predicted": f"{self.ratio:.2f}",
            "bottleneck": self.binds,
            "busy share of a core, client / server": busy,
        }


def write_page(
    folder: Path, rungs: Sequence[Rung], host: Mapping[str, Any], pace: str
) -> list[Path]:
    """Write ladder.svg and ladder.md; return where they are."""
    return page.write(
        folder,
        "ladder",
        1.6 + 0.62 * len(rungs),
        lambda figure: draw(rungs, figure.add_subplot()),
        markdown(rungs, host, pace),
    )


def draw(rungs: Sequence[Rung], ax: Axes) -> Axes:
    """Draw the steps from the bottom up on a logarithmic axis: predicted lines, measured dots."""
    with style.canvas(ax) as ax:
        heights = np.arange(len(rungs))
        measured = [rung.measured_per_s for rung in rungs]
        predicted = [rung.predicted_per_s for rung in rungs]
        intervals = [rung.interval_per_s or (rung.predicted_per_s,) * 2 for rung in rungs]
        ax.plot(measured, heights, color="#CCCCCC", linewidth=1.5, zorder=1)
        ax.plot(measured, heights, "o", color=style.MEASURED, label="measured", zorder=3)
        ax.barh(
            heights,
            [high - low for low, high in intervals],
            0.6,
            left=[low for low, _ in intervals],
            color=style.PREDICTED,
            alpha=0.25,
            zorder=2,
            label="interval of the prediction, 90 %",
        )
        ax.plot(
            predicted,
            heights,
            "|",
            color=style.PREDICTED,
            markersize=26,
            markeredgewidth=2,
            label="predicted before the run",
            zorder=4,
        )
        for height, rung in zip(heights, rungs, strict=True):
            ax.annotate(
                f"{four_digits(rung.measured_per_s)}/s, {rung.ratio:.2f} {TIMES} predicted",
                (max(rung.measured_per_s, intervals[height][1]), height),
                (12, 0),
                textcoords="offset points",
                va="center",
                bbox=style.PAPER,
                zorder=2,
            )
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))
        # Room for the number beside the highest dot, in proportion to the range of the axis.
        lowest, highest = min(measured + predicted), max(measured + predicted)
        ax.set_xlim(lowest / 2, highest * (highest / lowest) ** 0.55)
        ax.set_ylim(-0.6, len(rungs) - 0.4)
        ax.set_yticks(heights, [rung.name for rung in rungs])
        ax.set_xlabel("throughput (operations/s)")
        _name_conditions(rungs, ax)
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
                rung.conditions,
                (1.0, height - 0.45),
                (-4, 2),
                ha="right",
                va="bottom",
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                color=style.INK,
                fontsize=style.TEXT_PT,
            )
        before = rung.conditions


def markdown(rungs: Sequence[Rung], host: Mapping[str, Any], pace: str) -> list[str]:
    """Return the lines of the page: the table, and the conditions of the measurement."""
    first = rungs[0].measured_per_s
    over = f"{TIMES} the first"
    table = [{**rung.row, over: four_digits(rung.measured_per_s / first)} for rung in rungs]
    stolen = max(rung.stolen for rung in rungs)
    starved = "; ".join(rung.name for rung in rungs if rung.starved)
    return [
        "# The ladder",
        "",
        "The throughput of one key-value service, step by step, each predicted before its run.",
        "`python3 course.py bench ladder` measures the steps on your machine and writes this page.",
        "",
        "![Throughput of each step, predicted and measured](ladder.svg)",
        "",
        *page.table(table, texts=2),
        "",
        *(
            [
                "A CPU was the predicted bottleneck, but other programs used the cores:"
                f" {starved}. Measure again on a quiet machine.",
                "",
            ]
            if starved
            else []
        ),
        f"{page.machine(host)} {pace}; parts of a prediction were measured before each round.",
        *(
            [f"The host of this virtual machine took up to {stolen:.2f} of its cores away."]
            if stolen > STOLEN
            else []
        ),
        "A prediction is the mean of the rounds, and behind it stands its interval of 90 %: how",
        "the parts changed between the rounds, and how far the model may be off.",
        "Client and server are two processes on this machine. The server uses asyncio, and so do",
        "the clients of the last six steps. A processor is the bottleneck if the event loop of one",
        "process is always busy; the table shows how busy both event loops were.",
        "Values that batches read were compared with the values written.",
    ]
