"""Two clients against the same server, scenario by scenario."""

from collections.abc import Mapping

from matplotlib.axes import Axes

from kvstore.course import tables
from kvstore.course.figures import style
from kvstore.course.rendering import TIMES
from kvstore.course.tables.spread import HasRate
from kvstore.measure import Run


def side_by_side(
    ours: Mapping[str, Run],
    theirs: Mapping[str, HasRate] | None = None,
    *,
    name: str = "h2load",
    ax: Axes | None = None,
) -> Axes:
    """Measured dots by scenario: full ones are ours, hollow ones the other client's.

    Beside each row stands how many times our throughput the other client's is.
    """
    data = tables.side_by_side(ours, theirs, name=name)
    other = f"{name} (operations/s)"
    with style.canvas(ax, height_in=1.6 + 0.7 * len(data)) as ax:
        rows = range(len(data))
        ax.plot(
            data["ours (operations/s)"], rows, "o", color=style.MEASURED, label="ours", zorder=3
        )
        if other in data:
            ax.plot(
                data[other], rows, "D", color=style.MEASURED, markerfacecolor="white",
                markeredgewidth=2, label=name, zorder=3,
            )  # fmt: skip
            pairs = zip(rows, data["ours (operations/s)"], data[other], strict=True)
            for row, mine, yours in pairs:
                ax.plot([mine, yours], [row, row], color="#BBBBBB", linewidth=1.5, zorder=1)
                ax.annotate(
                    f"{TIMES} {yours / mine:.2g}", (max(mine, yours), row), (14, -5),
                    textcoords="offset points", color=style.GREY,
                )  # fmt: skip
        shown = [*data["ours (operations/s)"], *data.get(other, ())]
        style.rates(ax, shown)
        ax.set(yticks=list(rows), xlabel="throughput (operations/s)", ylabel="run")
        ax.set_yticklabels(
            [
                f"{scenario}: {run.connections} {TIMES} {run.in_flight // max(1, run.connections)}"
                for scenario, run in ours.items()
            ]
        )
        ax.set_ylim(len(data) - 0.4, -0.6)
        style.key_above(ax)
    ax.grid(visible=False, axis="y")
    return ax
