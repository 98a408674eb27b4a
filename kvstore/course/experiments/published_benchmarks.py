"""Published benchmarks, audited with Little's law."""

from dataclasses import dataclass
from typing import Final

import pandas as pd
from matplotlib.axes import Axes

from kvstore.course.views import style
from kvstore.numbers import number


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


def audit_table() -> pd.DataFrame:
    """Return X, R, X·R and the stated N of each benchmark, as text."""
    rows = {
        each.name: {
            "X (1/s)": f"{each.per_s:,}",
            "R (ms)": number(1e3 * each.residence_s),
            "X·R": number(each.in_flight_mean),
            "N stated": f"{each.in_flight:,}",
            "X·R / N": number(each.share),
        }
        for each in PUBLISHED
    }
    return pd.DataFrame(rows).T.rename_axis("benchmark")


def plot_audit() -> Axes:
    """Draw X·R / N of each benchmark as a dot, and a line at 1, where every one should be."""
    with style.canvas(height_in=3.6, rows=[each.name for each in PUBLISHED]) as ax:
        ax.axvline(1.0, color=style.PREDICTED, label="X·R = N")
        shares = [each.share for each in PUBLISHED]
        ax.plot(shares, range(len(shares)), "o", color=style.MEASURED)
        for row, each in enumerate(PUBLISHED):
            ax.annotate(
                number(each.share), (each.share, row), (0, 12), textcoords="offset points",
                ha="center",
            )  # fmt: skip
        ax.set(xlabel="X·R / N", xlim=(0.0, 1.15))
    return ax
