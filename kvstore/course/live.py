"""A run that can be watched while it lasts: `load.run` with a view of it on the page.

`run` makes the calls from this process, `run_apart` from one of its own.
"""

import base64
import io
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kvstore.client import load, run_in_process
from kvstore.client.strategies import Strategy
from kvstore.client.watch import OnSample
from kvstore.client.workload import Workload
from kvstore.course import figures, mode, progress, rendering
from kvstore.course.figures import style
from kvstore.course.named import title
from kvstore.course.predictions import HasValue
from kvstore.course.sparkline import progress_view
from kvstore.measure import Run, Sample, verdict

REDRAW_S: Final = 0.25
"""The page is drawn anew at most this often."""
SMOOTH_S: Final = 0.5
"""The throughput that is shown is the mean over the latest half second."""


def run(
    strategy: Strategy,
    server: object,
    workload: Workload,
    *,
    closes: str | Sequence[str] = (),
    prediction: HasValue | float | None = None,
    on_sample: OnSample | None = None,
    **options: Any,
) -> Run:
    """Run the strategy as `load.run` does and show it while it lasts; a picture remains.

    `closes` names the questions whose answer this run shows: from its start on, no
    prediction is taken for them. `prediction` is drawn as a line. All other options, and
    what is raised, are those of `load.run`. In fast mode only the last picture is drawn.
    """
    return _watched(load.run, strategy, server, workload, closes, prediction, on_sample, options)


def run_apart(
    strategy: Strategy,
    server: object,
    workload: Workload,
    *,
    closes: str | Sequence[str] = (),
    prediction: HasValue | float | None = None,
    on_sample: OnSample | None = None,
    **options: Any,
) -> Run:
    """Do as `run` does, but make the calls from a process of their own: see `run_in_process`.

    With `processes=2` two of them make the run together, and so on.
    """
    return _watched(
        run_in_process, strategy, server, workload, closes, prediction, on_sample, options
    )


def _watched(
    make: Callable[..., Run],
    strategy: Strategy,
    server: object,
    workload: Workload,
    closes: str | Sequence[str],
    prediction: HasValue | float | None,
    on_sample: OnSample | None,
    options: dict[str, Any],
) -> Run:
    for question_id in [closes] if isinstance(closes, str) else closes:
        progress.close(question_id)
    name = getattr(strategy, "__name__", "strategy")
    view = View(name, options.get("duration_s"), options.get("calls"))

    def look(sample: Sample) -> None:
        view.look(sample)
        if on_sample is not None:
            on_sample(sample)

    try:
        finished = make(strategy, server, workload, on_sample=look, **options)
    except (load.RunInterrupted, load.RunFailed) as ended:
        view.finish(ended.run, prediction)
        raise
    except BaseException:
        view.give_up()
        raise
    view.finish(finished, prediction)
    return finished


class View:
    """One place on the page: first a light view that follows the run, then its picture."""

    def __init__(self, name: str, duration_s: float | None, calls: int | None) -> None:
        self._name = name
        self._duration_s = duration_s or math.inf
        self._calls = calls or math.inf
        self._samples: list[Sample] = []
        self._rates: list[float] = []
        self._drawn_s = -math.inf
        self._handle: DisplayHandle | None = None

    def look(self, sample: Sample) -> None:
        """Take note of a sample, and draw when the last drawing is old enough."""
        if mode.fast() or not _has_page():
            return
        self._samples.append(sample)
        self._rates.append(self._recent_rate())
        if sample.elapsed_s - self._drawn_s >= REDRAW_S:
            self._drawn_s = sample.elapsed_s
            self._put(self._in_progress(sample))

    def finish(self, run: Run, prediction: HasValue | float | None = None) -> None:
        """Replace the view by the picture of the whole run, and say below what it shows."""
        words = in_words(run)
        if _has_page():
            picture = {"image/png": _picture(run, prediction), "text/plain": words}
            self._put(picture, {"image/png": {"alt": words}})
            rendering.show({"text/plain": words, "text/html": rendering.inline(words)})

    def give_up(self) -> None:
        """The run never came to an end that can be shown: no progress bar is left behind."""
        if self._handle is not None:
            self._put({"text/plain": f"{self._name}: the run was given up, see the error below"})

    def _in_progress(self, sample: Sample) -> dict[str, Any]:
        of = f" of {self._duration_s:g} s" if math.isfinite(self._duration_s) else " s"
        text = (
            f"{sample.elapsed_s:.1f}{of}, {sample.answered:,.0f} answered, "
            f"{self._rates[-1]:,.0f} calls/s"
        )
        part = max(sample.elapsed_s / self._duration_s, sample.answered / self._calls)
        bounded = math.isfinite(min(self._duration_s, self._calls))
        return {
            "text/plain": f"{self._name}: {text}",
            "text/html": progress_view(
                self._name,
                [each.elapsed_s for each in self._samples],
                [each.in_flight for each in self._samples],
                self._rates,
                part=min(1.0, part) if bounded else None,
                text=text,
            ),
        }

    def _recent_rate(self) -> float:
        latest = self._samples[-1]
        before = next(
            (s for s in reversed(self._samples) if latest.elapsed_s - s.elapsed_s >= SMOOTH_S),
            self._samples[0],
        )
        passed_s = latest.elapsed_s - before.elapsed_s
        return (latest.answered - before.answered) / passed_s if passed_s else 0.0

    def _put(self, bundle: dict[str, Any], metadata: dict[str, Any] | None = None) -> None:
        if self._handle is None:
            self._handle = DisplayHandle()  # type: ignore[no-untyped-call]
            display(  # type: ignore[no-untyped-call]
                bundle, raw=True, metadata=metadata, display_id=self._handle.display_id
            )
        else:
            self._handle.update(  # type: ignore[no-untyped-call]
                bundle, raw=True, metadata=metadata
            )


def in_words(run: Run) -> str:
    """What the picture of a run shows, for those who cannot see it."""
    most = run.samples["in_flight"].max() if len(run.samples) else math.nan
    in_flight = "" if math.isnan(most) else f", at most {most:,.0f} seen in flight"
    end = "" if run.outcome == "complete" else f"; ended by: {run.outcome}"
    return (
        f"{title(run)}: {rendering.number(run.throughput_per_s)} operations/s over "
        f"{run.window_s:.1f} s{in_flight}{end}. Verdict: {verdict(run)}."
    )


def _picture(run: Run, prediction: HasValue | float | None) -> str:
    """In flight above throughput over time, as a PNG in base64."""
    figure = Figure(figsize=(11.0, 6.0), dpi=style.DPI, layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True)
    figures.in_flight_over_time(run, ax=above)
    figures.throughput_over_time(run, prediction, ax=below)
    above.set_xlabel("")
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return base64.b64encode(picture.getvalue()).decode("ascii")


def _has_page() -> bool:
    """Whether there is a notebook, or something like it, that can show what is sent to it."""
    return hasattr(get_ipython(), "kernel")
