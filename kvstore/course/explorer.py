"""A law whose parameters the learner moves: sliders redraw the prediction, a button measures."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from IPython.core.getipython import get_ipython
from IPython.display import display
from matplotlib.figure import Figure

from kvstore import numbers
from kvstore.course import alt_text, rendering
from kvstore.course.rendering import HasThroughput, HasValue
from kvstore.course.views import style

Law = Callable[..., HasValue | float]
Measure = Callable[..., HasThroughput | float]
Values = dict[str, Any]
SIZE_IN: Final = (10.0, 4.6)
POINTS: Final = 60
"""At most so many values of the law make the line."""


@dataclass(frozen=True)
class Slider:
    """One parameter: its label with the unit, and the values that it takes, in their order.

    Numbers make a slider, texts a list to choose from. `start` is one of the values.
    ValueError for fewer than two values, or another start.
    """

    label: str
    values: tuple[Any, ...]
    start: Any

    def __post_init__(self) -> None:
        if len(self.values) < 2 or self.start not in self.values:
            raise ValueError(
                f"{self.label}: a slider needs two or more values, and one of them to start from, "
                f"got {self.values} and {self.start!r}"
            )

    @property
    def is_text(self) -> bool:
        """Whether there is no order and no number to draw."""
        return any(isinstance(value, str) for value in self.values)


def explore(
    law: Law,
    sliders: Mapping[str, Slider],
    *,
    over: str,
    run: Measure | None = None,
    label: str = "throughput, X (calls/s)",
) -> None:
    """Show the law as a line over one parameter, with a slider for each of its parameters.

    `law(**values)` is called with a value for each name in `sliders`, and returns a prediction or
    a number; it is drawn over the values of the slider `over`. `run(**values)` is called when the
    learner presses the button, and returns a run, which stands for its throughput, or a number;
    it becomes a dot on the same axes. `label` is that of the y axis, with its unit.

    Where the notebook shows no widgets the figure stands for itself, and nothing is run.
    TypeError for a parameter without a `Slider`; ValueError when `over` names no slider of numbers.
    """
    for name, slider in sliders.items():
        if not isinstance(slider, Slider):
            raise TypeError(
                f'the parameter {name!r} needs a slider, such as Slider("calls in flight, N", '
                f"(1, 10, 100), 10), got {slider!r}"
            )
    if over not in sliders or sliders[over].is_text:
        raise ValueError(f"over must name a slider of numbers, got {over!r}: have {list(sliders)}")
    explorer = Explorer(law, sliders, over, run, label)
    picture, words = explorer.picture()
    bundle: dict[str, Any] = {"text/plain": words, "image/png": picture}
    if not hasattr(get_ipython(), "kernel"):
        rendering.show(bundle)
        return
    bundle |= explorer.widget()._repr_mimebundle_()
    bundle["text/plain"] = words
    display(bundle, raw=True, metadata={"image/png": {"alt": words}})  # type: ignore[no-untyped-call]


class Explorer:
    """The state of one exploration: the values chosen, and what was measured so far."""

    def __init__(
        self,
        law: Law,
        sliders: Mapping[str, Slider],
        over: str,
        run: Measure | None,
        label: str,
    ) -> None:
        self._law, self._sliders, self._over = law, sliders, over
        self._run, self._label = run, label
        self.values: Values = {name: slider.start for name, slider in sliders.items()}
        self._dots: list[tuple[Values, float]] = []

    def measure(self) -> float:
        """Run with the values chosen, and keep the dot."""
        assert self._run is not None
        values = dict(self.values)
        made = self._run(**values)
        number = made.throughput_per_s if isinstance(made, HasThroughput) else float(made)
        self._dots.append((values, number))
        return number

    def said(self) -> str:
        """What the law predicts for the values chosen, and what was measured for them."""
        predicted = self._law(**self.values)
        reason = getattr(predicted, "reason", "")
        reason = f" ({reason})" if reason else ""
        text = f"{self._settings()}: predicted {self._number(_value(predicted))}{reason}"
        here = [number for values, number in self._dots if values == self.values]
        if here or not self._dots:
            return text + (f", measured {self._number(here[-1])}." if here else ".")
        values, number = self._dots[-1]  # such as when the button was pressed before a slider
        other = ", ".join(
            f"{self._sliders[name].label} = {_shown(value)}"
            for name, value in values.items()
            if value != self.values[name]
        )
        return f"{text}. The last run had {other}: measured {self._number(number)}."

    def _number(self, value: float) -> str:
        """A number with the unit that the label of the y axis names in parentheses."""
        unit = re.search(r"\(([^()]+)\)$", self._label)
        return f"{numbers.number(value)} {unit[1]}" if unit else numbers.number(value)

    def picture(self) -> tuple[str, str]:
        """The figure as a PNG in base64, and what it shows in words."""
        figure = Figure(figsize=SIZE_IN, dpi=style.DPI, layout="constrained")
        with style.canvas(figure.subplots()) as ax:
            xs = self._xs()
            predicted = [_value(self._law(**{**self.values, self._over: x})) for x in xs]
            ax.plot(xs, predicted, color=style.PREDICTED, label="predicted", zorder=2)
            x = self.values[self._over]
            ax.plot(
                x,
                _value(self._law(**self.values)),
                "D",
                color=style.PREDICTED,
                markersize=13,
                fillstyle="none",
                markeredgewidth=2.5,
                label="the values chosen",
                zorder=2.5,
            )
            for name, like, fill in (
                ("measured", True, "full"),
                ("measured, other values", False, "none"),
            ):
                dots = [
                    (values[self._over], y)
                    for values, y in self._dots
                    if self._like(values) is like
                ]
                if dots:
                    ax.plot(
                        *zip(*dots, strict=True),
                        "o",
                        color=style.MEASURED,
                        fillstyle=fill,
                        markeredgewidth=2,
                        label=name,
                        zorder=3,
                    )
            shown = [*predicted, *(number for _, number in self._dots)]
            _scale(ax, shown, decades=style.decades(xs))
            ax.set(xlabel=self._sliders[self._over].label, ylabel=self._label)
        return rendering.png(figure), f"{self.said()} {alt_text.described(figure)}"

    def widget(self) -> Any:
        """The sliders, the button and the figure, which follows them."""
        import ipywidgets as widgets  # late: it takes memory, and a plain Python needs none

        figure, sentence, page = widgets.HTML(), widgets.HTML(), widgets.Output()

        def redraw() -> None:
            picture, words = self.picture()
            wide, high = (round(inches * style.DPI) for inches in SIZE_IN)
            figure.value = (  # with its size, so that the page keeps its place while it is drawn
                f'<img src="data:image/png;base64,{picture}" alt="{rendering.escaped(words)}" '
                f'width="{wide}" height="{high}" style="max-width: 100%; height: auto">'
            )
            sentence.value = (
                f'<span aria-live="polite" style="{rendering.LINES}">'
                f"{rendering.inline(self.said())}</span>"
            )

        def move(name: str) -> Callable[[Mapping[str, Any]], None]:
            def moved(change: Mapping[str, Any]) -> None:
                self.values[name] = change["new"]
                redraw()

            return moved

        rows = []
        for name, slider in self._sliders.items():
            kind = widgets.Dropdown if slider.is_text else widgets.SelectionSlider
            control = kind(
                options=[(_shown(value), value) for value in slider.values],
                value=slider.start,
                description=slider.label,
                style={"description_width": "41%"},  # in a narrow page, too, a track is left
                layout={"width": "560px", "max_width": "100%"},
            )
            control.observe(move(name), names="value")
            rows.append(control)
        if self._run is not None:
            button = widgets.Button(description="Run it", tooltip="Measure with these values")

            def pressed(_: Any) -> None:
                button.disabled, button.description = True, "Running"
                page.clear_output()
                try:
                    with page:  # what the run shows appears here, and so does its error
                        self.measure()
                finally:
                    button.disabled, button.description = False, "Run it"
                redraw()

            button.on_click(pressed)
            rows.append(button)
        redraw()
        return widgets.VBox([*rows, sentence, figure, page])

    def _settings(self) -> str:
        """The values chosen, each with its label."""
        return ", ".join(
            f"{slider.label} = {_shown(self.values[name])}"
            for name, slider in self._sliders.items()
        )

    def _like(self, values: Values) -> bool:
        """Whether a dot belongs on the line that is drawn."""
        return all(values[name] == self.values[name] for name in values if name != self._over)

    def _xs(self) -> list[float]:
        """Where the law is evaluated: along the slider's values, whole numbers staying whole."""
        values = sorted(self._sliders[self._over].values)
        low, high = values[0], values[-1]
        made = (
            np.geomspace(low, high, POINTS)
            if style.decades(values)
            else np.linspace(low, high, POINTS)
        )
        if all(isinstance(value, int) for value in values):
            return sorted({*(round(each) for each in made), *values})
        return sorted({*made.tolist(), *values})


def _value(made: HasValue | float) -> float:
    return made.value if isinstance(made, HasValue) else float(made)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else numbers.number(value)


def _scale(ax: Any, shown: list[float], *, decades: bool) -> None:
    if decades:
        ax.set(xscale="log", yscale="log")
    else:
        finite = [each for each in shown if math.isfinite(each)]
        ax.set_xlim(left=0.0)
        ax.set_ylim(0, 1.15 * max(finite, default=1.0))
