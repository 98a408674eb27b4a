"""The learner's code in the runs of the course: `yours`, its `target`, and the `ladder` it climbs.

`client = yours("03.bounded", bounded, ours=strategies.bounded)` is the client of the next runs, and
`target("03.bounded", run, bound=2_500, rung="no lock, 100 in flight")` says what a run reached.
"""

import functools
import inspect
import math
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from matplotlib.axes import Axes

from kvstore import numbers
from kvstore.client.strategies import Strategy, supports
from kvstore.course import checks, progress, rendering
from kvstore.course.rendering import HasValue
from kvstore.course.views import style
from kvstore.measure import Run, accounts, machine_limit, verdict

T = TypeVar("T")

YOUR: Final = "your "
"""How the name of a run begins that the learner's client made."""


class YourCodeFailed(RuntimeError):
    """The learner's code was judged right, and raised an error in a run."""


def yours(exercise_id: str, answer: T, ours: T) -> T:
    """Return the learner's answer if its check has passed, else `ours`; one line says which.

    A function that computes a setting of the runs returns what the learner's returns. A client is a
    strategy, `answer(stub, operations, in_flight)`. Its runs are named after it,
    such as "your bounded". Raise LookupError for an unknown exercise.
    """
    name = getattr(answer, "__name__", exercise_id)
    if not checks.passed(exercise_id, answer):
        _say(
            exercise_id,
            f"`{name}` has not passed its check, so the runs have the course's `{_name(ours)}`."
            " When it has, run this cell again.",
        )
        return ours
    _say(exercise_id, f"from here on, the runs have your `{name}`.", good=True)
    return _named(answer, ours) if inspect.isfunction(answer) else answer  # type: ignore[return-value]


def is_yours(made_by: Run | Callable[..., Any]) -> bool:
    """Return whether a run was made by the learner's client, or this function is the learner's."""
    name = made_by.strategy if isinstance(made_by, Run) else _name(made_by)
    return name.startswith(YOUR)


def _name(ours: object) -> str:
    return str(getattr(ours, "__name__", "version"))


def _say(exercise_id: str, text: str, *, good: bool = False) -> None:
    colour = rendering.GOOD if good else rendering.QUIET
    rendering.show(
        {
            "text/plain": f"{exercise_id}: {text}",
            "text/html": rendering.headline(f"{exercise_id}:", text, colour),
        }
    )


def _named(answer: Callable[..., Any], ours: object) -> Strategy:
    """Return the learner's function under the name "your ...", with its errors explained."""

    @functools.wraps(answer)
    def call(*arguments: Any, **named: Any) -> Any:
        with explained(answer):
            return answer(*arguments, **named)

    @functools.wraps(answer)
    async def call_async(*arguments: Any, **named: Any) -> Any:
        with explained(answer):
            return await answer(*arguments, **named)

    made: Any = call_async if inspect.iscoroutinefunction(answer) else call
    made.__name__ = f"{YOUR}{answer.__name__}"
    made.supports = supports(ours)  # type: ignore[arg-type]
    return made  # type: ignore[no-any-return]


@contextmanager
def explained(answer: Callable[..., Any]) -> Iterator[None]:
    """Raise YourCodeFailed, with the line, for an error that the learner's code raises."""
    try:
        yield
    except Exception as error:
        its_file = answer.__code__.co_filename
        lines = traceback.extract_tb(error.__traceback__)
        at = [each.lineno for each in lines if each.filename == its_file]
        where = f" in line {at[-1]} of its cell" if at else ""
        raise YourCodeFailed(
            f"your `{answer.__name__}` passed its check and failed under load:"
            f" {type(error).__name__}{where}: {error}"
        ) from None


# ---- the target ---------------------------------------------------------------------------------


class Part(NamedTuple):
    """One number of a target, as it was measured, and whether it is reached; None: not judged."""

    text: str
    reached: bool | None


@dataclass(frozen=True, eq=False)
class Target(rendering.Shown):
    """What runs reached of the target of an exercise."""

    exercise_id: str
    run: Run
    parts: tuple[Part, ...]
    made_by: Callable[..., Any] | None = None
    """The code that was measured, where that was no strategy."""
    marks: Mapping[str, float] = field(default_factory=dict)
    """Throughput in operations/s of yours, ours and the published client, where these exist."""
    reason: str = ""
    """Why a part is not judged."""

    @property
    def yours(self) -> bool:
        """Whether the learner's code was measured."""
        return is_yours(self.made_by or self.run)

    @property
    def reached(self) -> bool:
        """Whether every part is reached."""
        return all(part.reached for part in self.parts)

    @property
    def missed(self) -> bool:
        """Whether a part was judged and is not reached."""
        return any(part.reached is False for part in self.parts)

    def __repr__(self) -> str:
        name = _name(self.made_by) if self.made_by else self.run.strategy
        whose = "" if self.yours else f" by the course's `{name}`"
        word = "reached" if self.reached else "not reached" if self.missed else "not judged"
        signs = {False: "✘", True: "✔", None: "○"}
        said = "; ".join(f"{signs[part.reached]} {part.text}" for part in self.parts)
        why = f" ○ Not judged: {self.reason}." if self.reason else ""
        return f"Target of {self.exercise_id}, {word}{whose}: {said}.{why}"

    def _forms(self) -> dict[str, Any]:
        mark, _, text = repr(self).partition(": ")
        good = self.reached and self.yours
        return {
            "text/plain": repr(self),
            "text/html": rendering.headline(
                f"{mark}:", text, rendering.GOOD if good else rendering.QUIET
            ),
        }


def in_turn(make: Callable[[T], Run], yours: T, ours: T, turns: int = 2) -> list[list[Run]]:
    """Return the runs of yours and those of ours: yours, ours, yours, ours.

    `make` makes a short run. What else this machine does meets both in the same way; what meets
    only one of them shows as a difference between its own runs.
    """
    made: list[list[Run]] = [[], []]
    for _ in range(turns):
        for runs, client in zip(made, (yours, ours), strict=True):
            runs.append(make(client))
    return made


def target(
    exercise_id: str,
    run: Run | Sequence[Run],
    *,
    bound: HasValue | float | None = None,
    beside: Run | Sequence[Run] | None = None,
    at_least: float = 0.9,
    cpu_at_most: float | None = None,
    published: float | None = None,
    rung: str | None = None,
    code: Callable[..., Any] | None = None,
) -> Target:
    """Show whether a run reached the target of an exercise, and draw it beside others.

    The target: at least `at_least` of the throughput of our run `beside` it (without one, of the
    `bound`), at most `cpu_at_most` times the CPU time of that run, no operation lost, and never
    more open than the limit. All is computed from the records. Several runs of `in_turn` are
    compared pair by pair. A speed that is missed is not judged where this machine was the limit or
    the pairs disagree, and never for the course's own code: that is right. `rung` keeps the
    throughput for `ladder`. `code` is what `yours` returned, where that is no strategy, such as a
    server.
    """
    runs = [run] if isinstance(run, Run) else [*run]
    ours = [] if beside is None else [beside] if isinstance(beside, Run) else [*beside]
    limit = style.number(bound) if bound is not None else None
    own = is_yours(code or runs[-1])
    speeds = []  # what is said, and whether each run reached it
    if ours:
        shares = [a.throughput_per_s / b.throughput_per_s for a, b in _pairs(runs, ours)]
        said = f"{_mean(shares):.2f} of the throughput of ours (at least {at_least:g})"
        speeds.append((said, [share >= at_least for share in shares], _mean(shares) >= at_least))
    elif limit is not None:
        shares = [each.throughput_per_s / limit for each in runs]
        said = f"{_mean(shares):.2f} of the throughput of the bound (at least {at_least:g})"
        speeds.append((said, [share >= at_least for share in shares], _mean(shares) >= at_least))
    if cpu_at_most is not None and ours:
        ratios = [cpu_s(a) / cpu_s(b) for a, b in _pairs(runs, ours)]
        said = (
            f"{_mean(ratios):.2f} times our CPU time for each operation (at most {cpu_at_most:g})"
        )
        speeds.append(
            (said, [each <= cpu_at_most for each in ratios], _mean(ratios) <= cpu_at_most)
        )
    reason = ""
    parts = []
    for said, each, together in speeds:
        why = "" if together else _why_not_judged(own, [*runs, *ours], each, bool(ours))
        parts.append(Part(said, together or (None if why else False)))
        reason = reason or why
    lost = sum(map(lost_operations, runs))
    issued = sum(each.issued_operations for each in runs)
    parts.append(Part(f"{lost:,} of {issued:,} operations lost", lost == 0))
    if runs[-1].in_flight:
        most, allowed = max(map(most_open, runs)), runs[-1].in_flight
        parts.append(Part(f"at most {most:,} open, the limit is {allowed:,}", most <= allowed))
    marks = {"yours" if own else "ours": _mean([each.throughput_per_s for each in runs])}
    if ours:
        marks["ours"] = _mean([each.throughput_per_s for each in ours])
    if rung is not None:
        rung = _known(rung).name
        for whose, per_s in marks.items():
            progress.keep_rung(rung, whose, per_s)
    if published is not None:
        marks["published"] = published
    made = Target(exercise_id, runs[-1], tuple(parts), code, marks, reason)
    if len(marks) > 1:
        rendering.captioned(draw_marks(marks, limit), _said(marks, limit))
    made._show()
    return made


def _pairs(runs: Sequence[Run], ours: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Each run with one of ours beside it; a single run of ours stands beside all."""
    beside = [*ours] * len(runs) if len(ours) == 1 else ours
    return list(zip(runs, beside, strict=True))


def _mean(values: Sequence[float]) -> float:
    """The geometric mean: of two ratios, the one that is far off in either direction counts."""
    if len(values) == 1 or min(values) <= 0:
        return float(np.mean(values))
    return float(np.exp(np.mean(np.log(values))))


def _why_not_judged(own: bool, runs: Sequence[Run], reached: Sequence[bool], compared: bool) -> str:
    """Why a speed that was missed says nothing of the code; "" if it does.

    Compared with ours, only what other programs took is a reason: the processor that yours and ours
    need is what the target is about.
    """
    for each in runs:
        if why := verdict(each).crowd if compared and own else machine_limit(each):
            return f"this machine was the limit: {why}"
    if len(set(reached)) > 1:
        return "the pairs of runs disagree: close other programs, and run the cell again"
    return "" if own else "our code is right, so this machine is slower than the target assumes"


def cpu_s(run: Run) -> float:
    """Return the client's CPU seconds for each operation that ended OK."""
    return run.client_cpu.total_s / run.operations_ok if run.operations_ok else math.nan


def lost_operations(run: Run) -> int:
    """Return the operations without a known end, or that the server did not count."""
    counted = run.server.get("operations")
    missing = 0 if counted is None else run.issued_operations - sum(counted.values())
    return max(accounts(run).unknown, missing)


BRIEFLY: Final = 0.02
"""More calls than a limit count as open only if they are for this share of the time."""


def most_open(run: Run) -> int:
    """Return the most calls that were open at one time, and not only `BRIEFLY`.

    The end of a call is noted after the client was told of it, so the next call may be sent before.
    """
    records = run.records
    if not len(records):
        return 0
    times = np.concatenate([records["sent_s"], records["done_s"]])
    steps = np.repeat([1, -1], len(records))
    order = np.lexsort((steps, times))  # at the same time, an end comes before a beginning
    open_now = np.cumsum(steps[order])[:-1]
    lasted_s = np.diff(times[order])
    by_count = np.bincount(np.maximum(open_now, 0), weights=lasted_s)
    longer_s = np.cumsum(by_count[::-1])[::-1]  # with so many or more
    some = np.flatnonzero(longer_s > BRIEFLY * lasted_s.sum())
    return int(some.max(initial=0))


MARKS: Final = {
    "yours": ("D", style.ORANGE),
    "ours": ("o", style.MEASURED),
    "published": ("s", style.INK),
}
"""Dot and colour of each mark."""


def draw_marks(marks: Mapping[str, float], bound: float | None = None) -> Axes:
    """Draw throughputs by whose they are, from 0; the bound is a line."""
    most = max([*marks.values(), bound or 0])
    with style.canvas(height_in=1.2 + 0.5 * len(marks), rows=marks) as ax:
        for row, (name, per_s) in enumerate(marks.items()):
            dot, colour = MARKS[name]
            ax.plot([per_s], [row], dot, color=colour)
            beside, side = (-10, "right") if per_s > most / 2 else (10, "left")
            ax.annotate(
                numbers.number(per_s), (per_s, row), (beside, 0), textcoords="offset points",
                ha=side, va="center", fontsize=style.TEXT_PT,
            )  # fmt: skip
        if bound is not None:
            ax.axvline(bound, color=style.PREDICTED, linestyle="--", label="bound")
        ax.set(xlabel="throughput, X (operations/s)", xlim=(0, 1.1 * most))
    return ax


def _said(marks: Mapping[str, float], bound: float | None) -> str:
    said = ", ".join(f"{name} {numbers.number(per_s)}" for name, per_s in marks.items())
    until = "" if bound is None else f"; the bound is {numbers.number(bound)}"
    return f"Operations per second: {said}{until}."


# ---- the ladder ---------------------------------------------------------------------------------


class Rung(NamedTuple):
    """One step of the climb through the lessons."""

    name: str
    lesson: str
    published: float | None = None
    """Operations per second of the published client."""
    reads: bool = False
    """Whether it has reads only, so that no line leads from it to the rungs of the mix."""


RUNGS: Final = (
    Rung("reads, one at a time", "01", reads=True),
    Rung("reads, all at once", "02", reads=True),
    Rung("the mix, one at a time", "01", 16.55),
    Rung("one lock, 100 in flight", "03", 24.28),
    Rung("no lock, 100 in flight", "03", 2_449.8),
    Rung("no disk, one stream", "05"),
    Rung("no disk, batches", "05"),
)
"""From the first client of the course to the last. The published figures are from parts 1 and 2 of
*So you want to optimize gRPC*."""


def _known(rung: str) -> Rung:
    for each in RUNGS:
        if each.name == rung:
            return each
    raise LookupError(f"the ladder has no rung {rung!r}; it has {[each.name for each in RUNGS]}")


def ladder(runs: Mapping[str, Run] = MappingProxyType({})) -> None:
    """Show how far the learner has climbed: your runs, ours and the published ones, by lesson.

    `runs` puts runs on their rungs first. All were measured on this machine, except for the
    published ones.
    """
    for name, run in runs.items():
        whose = "yours" if is_yours(run) else "ours"
        progress.keep_rung(_known(name).name, whose, run.throughput_per_s)
    kept = progress.climb()
    shown = [rung for rung in RUNGS if any(name == rung.name for name, _ in kept)]
    if not shown:
        rendering.show({"text/plain": "The ladder begins with the first target of lesson 01."})
        return
    rows = []
    with style.canvas(None, height_in=1.6 + 0.7 * len(shown)) as ax:
        for whose, (dot, colour) in MARKS.items():
            at = [
                (rung.published if whose == "published" else kept.get((rung.name, whose)), row)
                for row, rung in enumerate(shown)
            ]
            off = {"yours": 0.18, "ours": 0.0, "published": -0.18}[whose]
            there = [(per_s, row) for per_s, row in at if per_s]
            if there:
                rates, places = zip(*there, strict=True)
                ax.plot(rates, [row + off for row in places], dot, color=colour, label=whose)
                for reads in (True, False) if whose == "yours" else ():
                    line = [(rate, row + off) for rate, row in there if shown[row].reads == reads]
                    ax.plot(*zip(*line, strict=True) if line else ((), ()), color=colour)
                rows += [
                    f"{shown[row].name}, {whose}: {numbers.number(per_s)}" for per_s, row in there
                ]
        ax.set_yticks(range(len(shown)), [f"{rung.lesson}  {rung.name}" for rung in shown])
        ax.set(ylim=(-0.5, len(shown) - 0.5), xscale="log", xlabel="operations/s")
        ax.margins(x=0.12)
    best = max((per_s for (_, whose), per_s in kept.items() if whose == "yours"), default=None)
    said = (
        "No client of yours is on the ladder yet: pass an exercise, and run its lesson."
        if best is None
        else f"Your fastest client makes {numbers.number(best)} operations/s."
    )
    if best is not None and (left := [r.name for r in shown if (r.name, "yours") not in kept]):
        said += f" The course's client alone made: {'; '.join(left)}."
    rendering.captioned(ax, f"{said} {'; '.join(rows)}.")
