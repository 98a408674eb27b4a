"""The first cell of the course: the whole climb, from one call at a time to batches."""

from collections.abc import Mapping
from typing import Any, Final

from matplotlib.axes import Axes

from kvstore import numbers
from kvstore.client import load, strategies, workload
from kvstore.client.workload import Workload
from kvstore.course import live, mode, progress, rendering
from kvstore.course.views import style
from kvstore.measure import Run
from kvstore.server import serving

QUESTION: Final = "00.climb"
# No later prediction can be read off the climb: its disk, its limit and its batch are its own.
DISK: Final = {"read_delay_s": 0.030, "write_delay_s": 0.030}
IN_FLIGHT: Final = 60
BATCH: Final = 256
SMALL: Final = workload.reads(keys=128, key_bytes_mean=8, value_bytes_mean=16, sizes="fixed")
NO_DISK: Final[dict[str, Any]] = {"read_delay_s": 0.0, "write_delay_s": 0.0, "locking": "per_key"}


def first_climb() -> dict[str, Run]:
    """Run three clients of the later lessons for some seconds each, and draw what they reached."""
    seconds = mode.choose(fast=0.4, normal=5.0, full=10.0)
    steps: dict[str, tuple[dict[str, Any], Any, Workload, dict[str, Any]]] = {
        "one call at a time": (
            {**DISK, "locking": "global"},
            strategies.blocking,
            workload.crud(),
            {},
        ),
        f"{IN_FLIGHT} calls in flight": (
            {**DISK, "locking": "per_key"},
            strategies.bounded,
            workload.crud(),
            {"in_flight": IN_FLIGHT},
        ),
        "batches, without the disk": (
            {**NO_DISK, "use_asyncio": True},
            strategies.pipelined,
            SMALL,
            {"in_flight": 32, "streams": 8, "batch": BATCH},
        ),
    }
    runs = {}
    for name in live.each(list(steps), "client", closes=QUESTION):
        settings, strategy, operations, options = steps[name]
        with serving(**settings) as server:
            runs[name] = load.run(strategy, server, operations, duration_s=seconds, **options)
    rates = {name: run.throughput_per_s for name, run in runs.items()}
    guess = progress.ask(QUESTION).value
    words = "; ".join(f"{name}: {numbers.number(rate)}" for name, rate in rates.items())
    yours = "" if guess is None else f" You said {numbers.number(guess)}."
    rendering.captioned(draw(rates, guess), f"Operations per second. {words}.{yours}")
    return runs


def draw(rates: Mapping[str, float], guess: float | None) -> Axes:
    """Draw the rates by decades, one above the other; the learner's guess is a dashed line."""
    with style.canvas(height_in=3.8, title="Three clients, on your machine") as ax:
        ax.plot(list(rates.values()), range(len(rates)), "o", color=style.MEASURED)
        for row, rate in enumerate(rates.values()):
            ax.annotate(
                numbers.number(rate),
                (rate, row),
                (0, 12),
                textcoords="offset points",
                ha="center",
                fontsize=style.TEXT_PT,
            )
        if guess:
            ax.axvline(guess, color=style.PREDICTED, linestyle="--", label="your guess")
        ax.set_yticks(range(len(rates)), list(rates))
        ax.set(ylim=(-0.5, len(rates) - 0.3), xscale="log", xlabel="operations per second")
        ax.set_xlim(1, 6e6)
    return ax
