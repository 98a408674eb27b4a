"""Audit published benchmarks with Little's law: X·R should be the N that they state."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd
from matplotlib.axes import Axes

from kvstore.course.views import style


@dataclass(frozen=True)
class Published:
    """One published result: what it states of throughput, mean residence and concurrency."""

    name: str
    in_flight: int
    """N, the number of calls in flight that its settings state."""
    per_s: float
    """X, requests per second."""
    residence_s: float
    """R, the mean latency in seconds."""
    url: str

    @property
    def in_flight_mean(self) -> float:
        """X·R: the mean number in flight that its own figures give."""
        return self.per_s * self.residence_s

    @property
    def share(self) -> float:
        """X·R / N: near 1 where the three figures fit together."""
        return self.in_flight_mean / self.in_flight


WRK: Final = Published(
    "wrk, one connection", 1, 19_038, 42.0e-6, "https://github.com/wg/wrk/issues/114"
)
CONNECT: Final = Published(
    "connect-go, 1,000 clients",
    1_000,
    27_322,
    14.822371e-3,
    "https://github.com/connectrpc/connect-go/issues/704",
)
GRPC_BENCH: Final = Published(
    "grpc_bench, Python asyncio",
    1_000,
    4_305,
    231.32e-3,
    "https://github.com/LesnyRumcajs/grpc_bench/pull/166",
)
PUBLISHED: Final = (CONNECT, WRK, GRPC_BENCH)


def audit_table(published: Sequence[Published] = PUBLISHED) -> pd.DataFrame:
    """Return X, R, X·R and the stated N of each benchmark, as text."""
    rows = {
        each.name: {
            "X (1/s)": f"{each.per_s:,}",
            "R (ms)": f"{1e3 * each.residence_s:.4g}",
            "X·R": f"{each.in_flight_mean:.3g}",
            "N stated": f"{each.in_flight:,}",
            "X·R / N": f"{each.share:.3g}",
        }
        for each in published
    }
    return pd.DataFrame(rows).T.rename_axis("benchmark")


def plot_audit(published: Sequence[Published] = PUBLISHED, *, ax: Axes | None = None) -> Axes:
    """Draw X·R / N of each benchmark as a dot, and a line at 1, where every one should be."""
    with style.canvas(ax, height_in=3.6) as ax:
        rows = range(len(published))
        ax.axvline(1.0, color=style.PREDICTED, label="X·R = N")
        ax.plot([each.share for each in published], rows, "o", color=style.MEASURED)
        for row, each in enumerate(published):
            ax.annotate(
                f"{each.share:.3g}", (each.share, row), (0, 12), textcoords="offset points",
                ha="center", bbox=style.PAPER,
            )  # fmt: skip
        ax.set(yticks=list(rows), xlabel="X·R / N", xlim=(0.0, 1.15))
        ax.set_yticklabels([each.name for each in published])
        ax.set_ylim(len(published) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")
    return ax
