"""Memory over time under its ceiling, with the forecast of when it is reached."""

import math

from matplotlib.axes import Axes

from kvstore.course.figures import style
from kvstore.course.named import number
from kvstore.course.predictions import HasValue
from kvstore.course.tables import MB
from kvstore.measure import Run


def memory(
    run: Run,
    forecast: HasValue | float | None = None,
    *,
    ceiling_bytes: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Memory of client and server as dots, the ceiling and the forecast as lines.

    `forecast` is the seconds after which the ceiling is predicted to be reached.
    """
    samples = run.samples
    with style.canvas(ax) as ax:
        for side, marker, colour in (("client", "o", style.MEASURED), ("server", "s", style.GREEN)):
            held = samples[f"{side}_rss_bytes"].dropna() / MB
            if len(held):
                ax.plot(
                    samples.loc[held.index, "elapsed_s"], held, marker, color=colour,
                    markersize=6, label=f"{side}, measured",
                )  # fmt: skip
        most_mb = max([1.0, *samples.filter(like="_rss_bytes").max().dropna() / MB])
        ends_s = samples["elapsed_s"].max() if len(samples) else 1.0
        predicted_s = number(forecast)
        if predicted_s is not None and not math.isfinite(predicted_s):
            predicted_s = None  # it never comes to that: no line to draw
        if ceiling_bytes is not None and predicted_s is not None and len(samples):
            start = samples["client_rss_bytes"].iloc[0] / MB
            ax.plot(
                [0.0, predicted_s], [start, ceiling_bytes / MB],
                color=style.PREDICTED, label="client, forecast",
            )  # fmt: skip
            ax.annotate(
                f"forecast {predicted_s:.2g} s", (predicted_s, ceiling_bytes / MB), (0, 8),
                textcoords="offset points", color=style.PREDICTED, ha="center",
            )  # fmt: skip
            ends_s = max(ends_s, predicted_s)
        if ceiling_bytes is not None:
            early = predicted_s is not None and predicted_s < 0.4 * ends_s
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
