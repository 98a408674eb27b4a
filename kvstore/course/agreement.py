"""Whether the main experiment of a lesson came out as the model said: within a band, or why not.

A lesson marks the comparison it stands for with `compare(..., main=True)`, and `python3 course.py
run` closes with a table of all of them. The band is about lengths that were published, so about
`--full`: a short run may lie outside by noise alone.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from kvstore.course import rendering

Binds = Literal["cpu"]
"""What the prediction hangs on, where that is known less well than a delay that was set."""

BAND: Final = 0.10
"""How far from 1 measured/predicted may be."""
CPU_BAND: Final = 0.20
"""The same where a processor binds: its price per call drifts with all else the machine does."""


@dataclass(frozen=True)
class Agreement:
    """One main comparison; `why` is a claim that held and explains what lies outside the band."""

    lesson: str
    question_id: str
    unit: str
    predicted: float | None
    measured: float | None
    band: float
    why: str = ""

    @classmethod
    def of(cls, lesson: str, published: Mapping[str, Any]) -> "Agreement":
        """From what a comparison published for programs to read; it must be a main one."""
        main = published["main"]
        return cls(
            lesson,
            published["question_id"],
            published["unit"],
            published["model"],
            published["measured"],
            main["band"],
            main["why"],
        )

    @property
    def ratio(self) -> float:
        """Measured over predicted; NaN where the run measured nothing."""
        if self.measured is None or not self.predicted:
            return math.nan
        return self.measured / self.predicted

    @property
    def within(self) -> bool:
        """Whether the ratio lies in the band; one that is no number does not."""
        return abs(self.ratio - 1) <= self.band + 1e-12

    @property
    def verdict(self) -> str:
        """What is to be thought of it, in words."""
        if self.within:
            return "within"
        return "outside: the lesson shows why" if self.why else "outside"

    def _row(self) -> list[str]:
        numbers = (self.predicted, self.measured)
        shown = [rendering.NONE if n is None else rendering.number(n) for n in numbers]
        ratio = rendering.NONE if math.isnan(self.ratio) else f"{self.ratio:.3f}"
        band = f"±{self.band:.0%}"
        return [self.lesson, self.question_id, self.unit, *shown, ratio, band, self.verdict]


def table(made: Sequence[Agreement], lessons: Iterable[str], *, full: bool) -> str:
    """All main comparisons, one line each, then what is outside and why, and who has none.

    `lessons` are all that ran. What lies outside counts in a `full` run only.
    """
    head = ["lesson", "question", "unit", "predicted", "measured", "ratio", "band", "verdict"]
    lines = [rendering.plain_table(head, (each._row() for each in made))] if made else []
    outside = [each for each in made if not each.within]
    for each in outside:
        lines.append(f"{each.question_id}: outside {each.band:.0%}" + _reason(each))
    have = {each.lesson for each in made}
    lines += [f"{name}: no main comparison" for name in lessons if name not in have]
    unexplained = sum(not each.why for each in outside)
    if full:
        lines.append(
            f"OUTSIDE ITS BAND AND NOT EXPLAINED: {unexplained} of {len(made)}"
            if unexplained
            else f"all {len(made)} main comparisons are within their band, or explained"
        )
    elif outside:
        lines.append("(the bands are meant for --full: a short run may be outside by noise alone)")
    return "\n".join(lines)


def _reason(each: Agreement) -> str:
    return f", because {each.why}" if each.why else ""
