"""A prediction that is a curve: drawn with the mouse or the keys, or typed, then compared.

The learner's line and the measured dots are one picture: `curve.js`, which draws it as a widget
while the line can be changed, and as plain HTML in exported pages and after the run.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any, Final, TypeAlias

import numpy as np

from kvstore.course import rendering
from kvstore.course.questions import Curve

FLOOR: Final = 0.02
"""Lower values count as this part of the highest one that was measured: a picture shows no less."""

Keep: TypeAlias = Callable[[Sequence[float]], dict[str, Any]]


def height(drawn: Mapping[float, float], x: float, *, log: bool = False) -> float | None:
    """Return the drawn line at x; None outside of it. It is straight on its own axes."""
    if not drawn or not min(drawn) <= x <= max(drawn):
        return None
    xs, ys = (np.array(each, float) for each in zip(*sorted(drawn.items()), strict=True))
    if log:
        return float(np.exp(np.interp(math.log(x), np.log(xs), np.log(ys))))
    return float(np.interp(x, xs, ys))


def log_error(
    drawn: Mapping[float, float], measured: Mapping[float, float], *, log: bool = False
) -> float | None:
    """Return the mean of |log10(drawn / measured)| over the measured places; None without any.

    On linear axes both values count as `FLOOR` of the highest measured one if they are less.
    """
    pairs = [(height(drawn, x, log=log), y) for x, y in measured.items()]
    inside = [(line, y) for line, y in pairs if line is not None and math.isfinite(y)]
    least = 0.0 if log else FLOOR * max((y for _, y in inside), default=0.0)
    inside = [(max(line, least), max(y, least)) for line, y in inside]
    if not inside or any(y <= 0 for _, y in inside):
        return None
    return sum(abs(math.log10(line / y)) for line, y in inside) / len(inside)


def facts(
    known: Curve,
    drawn: Mapping[float, float],
    *,
    locked: bool,
    message: str,
    measured: Mapping[float, float] | None = None,
    model: Mapping[float, float] | None = None,
) -> dict[str, Any]:
    """Return what `curve.js` draws. The dots and the model's line appear with what was measured."""
    return {
        "text": known.text,
        "unit": known.unit,
        "over": known.over,
        "xs": list(known.xs),
        "least": known.least,
        "most": max([known.most, *(1.05 * y for y in (measured or {}).values())]),
        "log": known.log,
        "ys": [drawn[x] for x in known.xs] if set(drawn) >= set(known.xs) else [],
        "locked": locked,
        "said": message,
        "dots": sorted((measured or {}).items()),
        "model": sorted((model or {}).items()),
    }


def picture(shown: Mapping[str, Any], words: str) -> str:
    """Return the picture as HTML with its script; in words where no script runs."""
    return rendering.scripted(_script(), "showCurve", words, shown, kind="curve")


def widget(known: Curve, shown: Mapping[str, Any], keep: Keep) -> dict[str, Any]:
    """Return a bundle of the widget in which the line is drawn.

    `keep` is given the heights at the places of the question, and returns what is shown then.
    """
    drawing = _drawing()(facts=dict(shown))

    def changed(change: Mapping[str, Any]) -> None:
        sent = change["new"]
        drawing.facts = {**keep(sent["ys"]), "answers": sent["number"]}

    drawing.observe(changed, names="drawn")
    bundle, _ = drawing._repr_mimebundle_()
    return dict(bundle)


@functools.cache
def _drawing() -> Any:
    import anywidget  # late: it takes memory, and a plain Python needs none
    import traitlets

    class Drawing(anywidget.AnyWidget):
        _esm = f"{_script()}\n{_TALKS}"
        facts = traitlets.Dict().tag(sync=True)
        drawn = traitlets.Dict().tag(sync=True)

    return Drawing


_TALKS: Final = """
export default {
  render({ model, el }) {
    let number = 0;
    const shown = showCurve(el, model.get("facts"), (ys) => {
      number += 1; // an answer is new, also where it says the same again
      model.set("drawn", { ys, number });
      model.save_changes();
    });
    model.on("change:facts", () => shown.answered(model.get("facts")));
  },
};
"""


def _script() -> str:
    return resources.files(__package__).joinpath("curve.js").read_text("utf-8")
