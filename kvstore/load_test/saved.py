"""`rpcload report`, `compare` and `merge`: what can be done with runs that `--save` wrote."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import click

from kvstore.load_test.estimates import Estimate
from kvstore.load_test.findings import populations
from kvstore.load_test.page import as_html
from kvstore.load_test.report import Report, as_csv, as_json, as_text
from kvstore.measure import Run, throughput_interval
from kvstore.measure.figures import needs
from kvstore.measure.parts import merge
from kvstore.numbers import number, percent, rate, seconds

FORMS: Final[dict[str, Callable[[Report, str], str]]] = {
    "table": lambda report, title: as_text(report),
    "text": lambda report, title: as_text(report),
    "json": lambda report, title: json.dumps(as_json(report), indent=1),
    "csv": lambda report, title: as_csv(report).rstrip("\n"),
    "html": as_html,
}
"""The forms of a report, by the value of --output."""
MARGIN: Final = 0.05
"""A run is slower than another one by more than this share, unless another one is given."""


class Compared(NamedTuple):
    """One figure of two runs, and what it is in the second in proportion to the first."""

    name: str
    first: float
    second: float
    ratio: Estimate
    """Above 1: the second is worse. The interval is NaN where it is not known."""
    shown: Callable[[float], str]
    why: str = ""
    """Why there is no interval."""

    def worse(self, margin: float) -> bool:
        """Return whether the second is certainly worse, by more than this share."""
        return self.ratio.low > 1 + margin

    def __str__(self) -> str:
        figures = f"{self.name:<12}{self.shown(self.first):<12}{self.shown(self.second):<12}"
        low, high = self.ratio.low, self.ratio.high
        if math.isnan(low):
            return f"{figures}{number(self.ratio.value):<8}{self.why}".rstrip()
        return f"{figures}{number(self.ratio.value):<8}{number(low)} to {number(high)}"


def compared(first: Run, second: Run) -> list[Compared]:
    """Return the figures of two runs side by side: latencies, throughput, and failures.

    The interval of a ratio follows from those of both figures (G. Y. Zou, A. Donner, "Construction
    of confidence limits about effect measures", Statistics in Medicine 27, 2008).
    """
    a, b = populations(first)[0], populations(second)[0]
    figures = [
        Compared(
            name,
            a.latency[name].value_s,
            b.latency[name].value_s,
            _ratio(Estimate(*a.latency[name]), Estimate(*b.latency[name])),
            seconds,
            f"an interval needs {needs(float(name[1:]) / 100):,} calls in each run",
        )
        for name in ("p50", "p90", "p99")
        if min(a.calls, b.calls) >= math.ceil(1 / (1 - float(name[1:]) / 100) - 1e-9)
    ]
    if not (first.settings.get("paced") or second.settings.get("paced")):
        speeds = [Estimate(x.throughput_per_s, *throughput_interval(x)) for x in (first, second)]
        inverse = _ratio(speeds[1], speeds[0])  # a lower throughput is worse
        figures.append(Compared("throughput", speeds[0].value, speeds[1].value, inverse, rate))
    failed = [_failed(each) for each in (first, second)]
    if any(each.value > 0 for each in failed):
        ratio = _ratio(*failed)
        figures.append(Compared("failed", failed[0].value, failed[1].value, ratio, percent))
    return figures


def _ratio(first: Estimate, second: Estimate) -> Estimate:
    """Return second / first with its interval, on a log scale."""
    if not (first.value > 0 and second.value > 0):
        value = math.inf if second.value > 0 else math.nan
        certain = second.low > first.high
        return Estimate(value, math.inf if certain else math.nan, math.inf if certain else math.nan)
    value = math.log(second.value / first.value)
    with_ends = [*first, *second]
    if not all(0 < each < math.inf for each in with_ends):  # NaN as well
        return Estimate(math.exp(value), math.nan, math.nan)
    a, a_low, a_high, b, b_low, b_high = map(math.log, with_ends)
    low, high = math.hypot(b - b_low, a_high - a), math.hypot(b_high - b, a - a_low)
    return Estimate(math.exp(value), math.exp(value - low), math.exp(value + high))


def _failed(run: Run) -> Estimate:
    """Return the share of the calls that failed (E. B. Wilson, JASA 22, 1927)."""
    counts = {each.name: each.calls for each in populations(run)}
    failed, ended = counts.get("failed", 0), counts.get("failed", 0) + counts["OK"]
    if not ended:
        return Estimate.unknown()
    z2, share = 1.96**2 / ended, failed / ended
    middle = (share + z2 / 2) / (1 + z2)
    half = math.sqrt(z2 * (share * (1 - share) + z2 / 4)) / (1 + z2)
    return Estimate(share, max(0.0, middle - half), middle + half)


def together(runs: Sequence[Run]) -> Run:
    """Return the run of which these runs, perhaps of several machines, are the parts.

    The clocks of the machines say how far apart they began. Raises `ValueError` for runs of
    different methods or strategies.
    """
    titles = {title_of(each) for each in runs}
    if len(titles) > 1:
        raise ValueError(f"runs of one method can be merged, got {', '.join(sorted(titles))}")
    began_s = [datetime.fromisoformat(each.started_at).timestamp() for each in runs]
    whole = merge([_later(r, at - min(began_s)) for r, at in zip(runs, began_s, strict=True)])
    processes = sum(int(each.settings.get("processes", 1)) for each in runs)
    rates = [each.settings.get("rate_per_s") for each in runs]
    settings = {
        **whole.settings,
        "processes": processes,
        "rate_per_s": sum(rates) if all(rates) else None,
        "seed": None,
    }
    return replace(whole, settings=settings)


def _later(run: Run, by_s: float) -> Run:
    """Return the run on a clock that began so much earlier."""
    records, rows = run.records.copy(), run.sample_rows.copy()
    for name in ("due_s", "sent_s", "done_s"):
        records[name] += by_s
    rows["elapsed_s"] += by_s
    return replace(run, records=records, sample_rows=rows, window_s=run.window_s + by_s)


def title_of(run: Run) -> str:
    """Return the methods that a run called."""
    workload = run.settings.get("workload") or {}
    methods = [workload, *workload.get("others", ())]
    return ", ".join(str(each["method"]) for each in methods if "method" in each) or run.strategy


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def saved() -> None:
    """Report, compare and merge runs that rpcload --save FILE wrote."""


_FILE: Final = click.Path(exists=True, dir_okay=False)
_OUTPUT: Final = click.option(
    "--output",
    "-o",
    type=click.Choice(["text", "json", "csv", "html"]),
    default="text",
    help="Form of the report on standard output.",
)


@saved.command("report")
@click.argument("file", type=_FILE)
@_OUTPUT
def report_of(file: str, output: str) -> int:
    """Print the report of a saved run."""
    run = Run.load(file)
    print(FORMS[output](Report(run=run), title_of(run)), flush=True)
    return 0


@saved.command("compare")
@click.argument("first", metavar="A", type=_FILE)
@click.argument("second", metavar="B", type=_FILE)
@click.option(
    "--margin",
    type=click.FloatRange(min=0),
    default=MARGIN,
    metavar="SHARE",
    help="B is slower if a ratio is certainly above 1 + SHARE (default 0.05).",
)
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text")
def compare(first: str, second: str, margin: float, output: str) -> int:
    """Say whether the run B is slower than A. Exit codes: 0 it is not, 1 it is, 2 wrong files."""
    runs = [Run.load(each) for each in (first, second)]
    titles = [title_of(each) for each in runs]
    if titles[0] != titles[1]:
        raise ValueError(f"runs of one method can be compared, got {titles[0]} and {titles[1]}")
    figures = compared(*runs)
    worse = [each.name for each in figures if each.worse(margin)]
    if output == "json":
        named: dict[str, Any] = {
            each.name: {
                "a": each.first,
                "b": each.second,
                "ratio": each.ratio.value,
                "ratio_95": [_known(each.ratio.low), _known(each.ratio.high)],
            }
            for each in figures
        }
        print(json.dumps({"figures": named, "worse": worse}, indent=1))
    else:
        print(f"{'':<12}{'A':<12}{'B':<12}{'ratio':<8}95 % interval; above 1, B is worse")
        print("\n".join(map(str, figures)))
        if notes := _differ(*runs):
            print(f"note: the runs differ in {', '.join(notes)}")
        by = f"by more than {percent(margin)}"
        print(f"B is worse {by}: {', '.join(worse)}" if worse else f"B is not certainly worse {by}")
    return 1 if worse else 0


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _differ(first: Run, second: Run) -> list[str]:
    names = ("rate_per_s", "rates", "connections", "arrivals", "deadline_s")
    notes = [name for name in names if first.settings.get(name) != second.settings.get(name)]
    return [*notes, *(["in_flight"] if first.in_flight != second.in_flight else [])]


@saved.command("merge")
@click.argument("files", metavar="A B...", nargs=-1, required=True, type=_FILE)
@click.option("--save", metavar="FILE", help="Write the whole run to this file.")
@_OUTPUT
def merged(files: tuple[str, ...], save: str | None, output: str) -> int:
    """Report the runs that several machines made at the same time as one run."""
    whole = together([Run.load(each) for each in files])
    if save:
        whole.save(save)
    print(FORMS[output](Report(run=whole), title_of(whole)), flush=True)
    return 0
