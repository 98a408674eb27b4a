"""Memory over time under its ceiling, with the forecast of when it is reached."""

import math
from collections.abc import Mapping

from matplotlib.axes import Axes

from kvstore.course.figures import style
from kvstore.course.named import forecast_by_side, number
from kvstore.course.predictions import HasValue
from kvstore.course.tables import MB
from kvstore.measure import Run

LOOKS = {"client": ("o", style.MEASURED, "-"), "server": ("s", style.GREEN, "--")}
"""Dot, colour, and the dashes of the forecast for each process."""


def memory(
    run: Run,
    forecast: Mapping[str, HasValue | float] | HasValue | float | None = None,
    *,
    ceiling_bytes: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Memory of client and server as dots, the ceiling and the forecast as lines.

    `forecast` is the seconds after which the client, or in a dict each process by its name,
    is predicted to reach the ceiling.
    """
    samples = run.samples
    by_side = {side: _finite(at) for side, at in forecast_by_side(forecast).items()}
    soonest_s = min((at for at in by_side.values() if at is not None), default=None)
    with style.canvas(ax) as ax:
        for side, (marker, colour, dashes) in LOOKS.items():
            held = samples[f"{side}_rss_bytes"].dropna() / MB
            if not len(held):
                continue
            ax.plot(
                samples.loc[held.index, "elapsed_s"], held, marker, color=colour,
                markersize=6, label=f"{side}, measured",
            )  # fmt: skip
            predicted_s = by_side.get(side)
            if ceiling_bytes is not None and predicted_s is not None:
                ax.plot(
                    [0.0, predicted_s], [held.iloc[0], ceiling_bytes / MB],
                    color=style.PREDICTED, linestyle=dashes, label=f"{side}, forecast",
                )  # fmt: skip
        most_mb = max([1.0, *samples.filter(like="_rss_bytes").max().dropna() / MB])
        ends_s = samples["elapsed_s"].max() if len(samples) else 1.0
        if ceiling_bytes is not None and soonest_s is not None:
            ax.annotate(
                f"forecast {soonest_s:.2g} s", (soonest_s, ceiling_bytes / MB), (0, 8),
                textcoords="offset points", color=style.PREDICTED, ha="center",
            )  # fmt: skip
            ends_s = max(ends_s, soonest_s)
        if ceiling_bytes is not None:
            early = soonest_s is not None and soonest_s < 0.4 * ends_s
            ax.axhline(ceiling_bytes / MB, color=style.BLACK, linestyle="--", linewidth=2)
            ax.annotate(
                f"ceiling {ceiling_bytes / MB:,.0f} MB", (float(early), ceiling_bytes / MB),
                (-4 if early else 4, 8), xycoords=("axes fraction", "data"),
                textcoords="offset points", ha="right" if early else "left",
            )  # fmt: skip
        ax.set(xlabel="elapsed (s)", ylabel="resident memory (MB)")
        ax.set_xlim(0.0, 1.08 * ends_s)
        ax.set_ylim(0.0, 1.1 * max(most_mb, (ceiling_bytes or 0.0) / MB))
        style.key_above(ax)
    return ax


def _finite(at: HasValue | float | None) -> float | None:
    """The seconds; None when it never comes to that, and there is no line to draw."""
    at_s = number(at)
    return at_s if at_s is not None and math.isfinite(at_s) else None
