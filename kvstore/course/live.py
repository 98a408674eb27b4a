"""Runs with a view of them on the page while they last."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display
from matplotlib.figure import Figure

from kvstore import numbers
from kvstore.client import load, run_in_process
from kvstore.client.errors import RunFailed, RunInterrupted
from kvstore.client.monitor import OnSample
from kvstore.client.strategies import Strategy
from kvstore.client.workload import Workload
from kvstore.course import mode, progress, questions, rendering, views
from kvstore.course.rendering import escaped
from kvstore.course.views import style
from kvstore.course.views.style import title
from kvstore.measure import Outcome, Run, Sample, findings, verdict

T = TypeVar("T")

WIDTH, HEIGHT = 560, 70
MOST_POINTS: Final = 150


def progress_view(
    title: str,
    elapsed_s: Sequence[float],
    in_flight: Sequence[float],
    answered_per_s: Sequence[float],
    *,
    part: float | None,
    text: str,
) -> str:
    """Return a progress bar with its text and two lines over time, as HTML with inline SVG.

    `part` is the part of the run that is done, from 0 to 1; None if it is unknown.
    """
    bar = "<progress></progress>" if part is None else f'<progress value="{part:.3f}"></progress>'
    return (
        f"<p><b>{escaped(title)}</b> {bar} {escaped(text)}</p>"
        + sparkline("in flight (calls)", elapsed_s, in_flight, "#009E73")
        + sparkline("answered (calls/s)", elapsed_s, answered_per_s, "#0072B2")
    )


def sparkline(name: str, elapsed_s: Sequence[float], values: Sequence[float], colour: str) -> str:
    """Return one line over time from zero to its largest value, with the last value as text."""
    step = max(1, len(values) // MOST_POINTS)
    points = list(zip(elapsed_s, values, strict=True))[::-1][::step][::-1]
    right = max((at_s for at_s, _ in points), default=0.0) or 1.0
    top = max((value for _, value in points), default=0.0) or 1.0
    path = " ".join(
        f"{WIDTH * at_s / right:.1f},{HEIGHT - 4 - (HEIGHT - 8) * value / top:.1f}"
        for at_s, value in points
    )
    last = f"{points[-1][1]:,.0f}" if points else "0"
    label = escaped(f"{name}: {last} now, {top:,.0f} at most")
    return (
        f'<div>{label}<br><svg role="img" aria-label="{label}" width="{WIDTH}" height="{HEIGHT}" '
        'style="background: color-mix(in srgb, currentcolor 5%, transparent)">'
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
        "</svg></div>"
    )


REDRAW_S: Final = 0.25
"""The shortest time between two updates of the page."""
SMOOTH_S: Final = 0.5
"""The throughput in the view is the mean over this time."""


def run(
    strategy: Strategy,
    server: object,
    workload: Workload,
    *,
    closes: str | Sequence[str] = (),
    on_sample: OnSample | None = None,
    apart: bool = False,
    show: bool | str = True,
    against: str = "",
    **options: Any,
) -> Run:
    """Run the strategy as `load.run` does and show the run while it lasts; a figure remains.

    With `show=False` one line remains, and with "nothing" the page stays as it is.

    `closes` names the questions that this run answers: they refuse predictions from its start
    on. With `apart`, the client has a process of its own: see `run_in_process`. `against` names the
    server in the summary. All other options and errors are those of `load.run`. In fast mode only
    the last figure is drawn.
    """
    asked = _closed(closes)
    name = getattr(strategy, "__name__", "strategy")
    view = View(name, options.get("duration_s"), options.get("calls"), against)

    def look(sample: Sample) -> None:
        if show != "nothing":
            view.look(sample)
        if on_sample is not None:
            on_sample(sample)

    make = run_in_process if apart else load.run
    try:
        finished = make(strategy, server, workload, on_sample=look, **options)
    except (RunInterrupted, RunFailed) as ended:
        view.finish(ended.run, yours(asked, ended.run))
        raise
    except BaseException:
        view.give_up()
        raise
    if show is True:
        view.finish(finished, yours(asked, finished))
    elif not show:
        view.finish_in_words(finished)
    return finished


def each(things: Sequence[T], what: str, *, closes: str | Sequence[str] = ()) -> Iterator[T]:
    """Yield one thing after the other, such as rates to run at, with a progress bar.

    `closes` is that of `run`.
    """
    _closed(closes)
    yield from rendering.counted(things, what)


def _closed(question_ids: str | Sequence[str]) -> tuple[progress.Question, ...]:
    return progress.close(*([question_ids] if isinstance(question_ids, str) else question_ids))


def yours(asked: Sequence[progress.Question], run: Run) -> float | None:
    """Return the throughput that the learner predicted for this run, in operations/s, or None.

    It is the first of these questions that asks for a rate and has a prediction.
    """
    for question in asked:
        if question.value is not None and question.unit in questions.RATES:
            per_call = questions.operations_in_a_call(run)
            return question.value * (per_call if question.unit == questions.CALLS else 1.0)
    return None


class View:
    """One place on the page: first a light view that follows the run, then its figure."""

    def __init__(
        self, name: str, duration_s: float | None, calls: int | None, against: str = ""
    ) -> None:
        self._name = name
        self._against = against
        self._duration_s = duration_s or math.inf
        self._calls = calls or math.inf
        self._samples: list[Sample] = []
        self._rates: list[float] = []
        self._drawn_s = -math.inf
        self._handle: DisplayHandle | None = None

    def look(self, sample: Sample) -> None:
        """Record a sample, and update the page if the last update is old enough."""
        if mode.fast() or not _has_page():
            return
        self._samples.append(sample)
        self._rates.append(self._recent_rate())
        if sample.elapsed_s - self._drawn_s >= REDRAW_S:
            self._drawn_s = sample.elapsed_s
            self._put(self._in_progress(sample))

    def finish(self, run: Run, yours: float | None = None) -> None:
        """Replace the view by the figure of the whole run, and add a summary in words.

        A single call makes no figure.
        """
        if len(run.records) == 1:
            self.finish_in_words(run)
            return
        words = in_words(run, self._against)
        if _has_page():
            picture = {"image/png": _picture(run, yours), "text/plain": words}
            self._put(picture, {"image/png": {"alt": words}})
            html = f"{rendering.inline(words)}{_folded(run)}"
            rendering.show({"text/plain": words, "text/html": html})

    def finish_in_words(self, run: Run) -> None:
        """Replace the view by one line."""
        if _has_page():
            words = in_words(run, self._against)
            self._put({"text/plain": words, "text/html": rendering.inline(words)})

    def give_up(self) -> None:
        """Remove the progress bar of a run that ended without a result."""
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


def in_words(run: Run, against: str = "") -> str:
    """Return in words what the figure of a run shows, and what to do about the first doubt.

    `against` names the server, where the run does not tell it from others.
    """
    server = f" against {against}" if against else ""
    most = run.samples["in_flight"].max() if len(run.samples) else math.nan
    in_flight = f", at most {most:,.0f} seen in flight" if most > 0 else ""  # NaN: not known
    drawn = run.settings.get("seed") if run.settings.get("arrivals") == "random" else None
    seed = "" if drawn is None or not run.settings.get("paced") else f", seed {drawn}"
    end = "" if run.outcome == Outcome.COMPLETE else f"; ended by: {run.ended_by}"
    return (
        f"{title(run)}{server}: {numbers.number(run.throughput_per_s)} operations/s over "
        f"{numbers.seconds(run.window_s)}{seed}{in_flight}{end}. {advice(run)}"
    )


ADVICE: Final = {
    "clock": "The clock was set or the client stopped: repeat the run.",
    "generator": "The client may have been the limit, and not the server: read this number as"
    " *at least*.",
    "other programs": "Other programs took processor time: close them and run again.",
    "warm-up": "The calls did not all take about the same time: look at the figure.",
    "short": "Many calls ended after the sending: run longer for a better number.",
    "censored": "Many calls were cut off: their latencies are lower limits.",
}
"""What a learner can do about each finding, the gravest first."""


def advice(run: Run) -> str:
    """Return one sentence: what to do about the gravest doubt, or that there is none."""
    doubts = {name for name, _ in _doubts(run)}
    return next((text for name, text in ADVICE.items() if name in doubts), "No doubt was found.")


def _doubts(run: Run) -> list[tuple[str, str]]:
    """Return the name of each doubt about the figures of a run, and what was found."""
    judged = verdict(run)
    doubts = [("generator", judged.reason)] if judged.generator_binds else []
    if judged.crowd:
        doubts.append(("other programs", judged.crowd))
    shown = ("warm-up", "short", "censored", "clock")
    others = [each for each in findings(run) if each.name in shown]
    return doubts + [(each.name, f"{each.text} ({each.details})") for each in others]


def _folded(run: Run) -> str:
    """Return what stands behind the advice, as HTML that is closed at first."""
    judged = str(verdict(run))
    reasons = dict.fromkeys([judged, *(text for _, text in _doubts(run))])
    items = "".join(f"<li>{rendering.inline(text)}</li>" for text in reasons)
    return f"<details><summary>The figures behind it</summary><ul>{items}</ul></details>"


def _picture(run: Run, yours: float | None) -> str:
    """Return calls in flight above throughput over time, as a PNG in base64."""
    figure = Figure(figsize=(style.WIDE_IN, 4.6), dpi=style.DPI, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    views.plot_in_flight_over_time(run, ax=above)
    views.plot_throughput_over_time(run, yours=yours, ax=below)
    above.set_xlabel("")
    style.entitle(figure, "The run over time: calls in flight, and throughput")
    return rendering.png(figure)


def _has_page() -> bool:
    """Return whether this is a notebook or another front end that can show figures."""
    return hasattr(get_ipython(), "kernel")
