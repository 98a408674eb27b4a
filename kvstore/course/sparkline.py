"""What is shown while a run lasts: written as text by hand, because it must cost nothing.

Drawing one picture with matplotlib holds the interpreter lock for tens of milliseconds,
and the run that is measured needs that lock. This takes well under one.
"""

from collections.abc import Sequence
from typing import Final

from kvstore.course.rendering import escaped

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
    """A progress bar with its text, and two lines over time, as HTML with inline SVG.

    `part` is how much of the run is done, from 0 to 1; None when nobody can know.
    """
    bar = "<progress></progress>" if part is None else f'<progress value="{part:.3f}"></progress>'
    return (
        f"<p><b>{escaped(title)}</b> {bar} {escaped(text)}</p>"
        + sparkline("in flight (calls)", elapsed_s, in_flight, "#009E73")
        + sparkline("answered (calls/s)", elapsed_s, answered_per_s, "#0072B2")
    )


def sparkline(name: str, elapsed_s: Sequence[float], values: Sequence[float], colour: str) -> str:
    """One line over time from zero to its largest value, with the last value written out."""
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
        'style="background: #f7f7f7">'
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
        "</svg></div>"
    )
