"""The flags of the load test, in groups, and the kinds of value that they take."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

UNITS_S: Final = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


LONGEST_S: Final = 30 * 24 * 3600.0
"""Seconds of the longest time. Timers of the system cannot wait for any number."""
RAMP_STEPS: Final = 20
"""Steps of which a ramp is made."""


@dataclass(frozen=True, kw_only=True)
class Flags:
    """What the command line said, each flag by its name; times in seconds. `--help` explains them.

    None, or an empty tuple, where a flag was not given.
    """

    address: str
    method: tuple[str, ...] = ()
    request: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    data: str | None = None
    metadata: tuple[str, ...] = ()
    check: tuple[str, ...] = ()
    descriptors: tuple[str, ...] = ()
    proto: tuple[str, ...] = ()
    import_path: tuple[str, ...] = ()
    in_flight: int | None = None
    rate_per_s: float | None = None
    rates: tuple[tuple[float, float], ...] | None = None
    arrivals: str = "poisson"
    seed: int | None = None
    join_over: float | None = None
    warm_up: float | None = None
    keep_going: bool = False
    stream_time: float | None = None
    stream_messages: int | None = None
    duration_s: float | None = None
    calls: int | None = None
    connections: int | None = None
    deadline_s: float | None = None
    strategy: str | None = None
    workers: str | None = None
    no_calibration: bool = False
    find_rate: bool = False
    p99: float | None = None
    errors: float = 0.001
    step: float | None = None
    search_time: float | None = None
    fail_if: tuple[str, ...] = ()
    tls: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    server_name: str | None = None
    token: str | None = None
    insecure_skip_verify: bool = False
    authority: str | None = None
    max_message_bytes: int | None = None
    gzip: bool = False
    keepalive: float | None = None
    service_config: str | None = None
    i_may_load_this_host: bool = False
    output: str = "table"
    save: str | None = None
    quiet: bool = False


class Duration(click.ParamType[float]):
    """A time such as 500ms, 2s or 1m. A number without a unit is in `unit`."""

    name = "time"

    def __init__(self, unit: str = "s") -> None:
        self._unit = unit

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Return the seconds. Ends with a usage error for any other text."""
        found = re.fullmatch(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*([a-zµ]*)\s*", str(value))
        try:
            assert found
            seconds = float(found[1]) * UNITS_S[found[2] or self._unit]
            assert seconds > 0
            if seconds > LONGEST_S:
                self.fail(f"a time is at most 30 days (720h), got {value!r}")
        except (AssertionError, KeyError, ValueError):
            self.fail(f"a time is a number above 0 with a unit, such as 500ms or 2s, got {value!r}")
        return seconds


class GroupedOption(click.Option):
    """A flag that `--help` shows under the name of its group."""

    def __init__(self, *names: Any, group: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.group = group


class GroupedCommand(click.Command):
    """A command whose `--help` begins with examples and shows its flags in groups."""

    def __init__(self, *arguments: Any, examples: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.examples = examples

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, the usage, the description and the groups."""
        with formatter.section("Examples"):
            for line in self.examples.strip().splitlines():
                formatter.write(f"  {line}\n")
        formatter.write_paragraph()
        super().format_help(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags, group by group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(each, "group", "Help"), []).append(record)
        groups["Help"] = groups.pop("Help", [])  # the last one
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records, col_max=28)


def group(name: str) -> Callable[..., Callable[[Decorated], Decorated]]:
    """Return a decorator like `click.option` for the flags of one group."""

    def option(*names: str, **settings: Any) -> Callable[[Decorated], Decorated]:
        return click.option(*names, cls=GroupedOption, group=name, **settings)

    return option


class Steps(click.ParamType[tuple[tuple[float, float], ...]]):
    """Rates that follow one another: RATE:TIME,RATE:TIME, or a ramp FROM..TO:TIME."""

    name = "steps"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[tuple[float, float], ...]:
        """Return each rate with its seconds. Ends with a usage error for any other text."""
        if isinstance(value, tuple):
            return value
        steps: list[tuple[float, float]] = []
        for each in str(value).split(","):
            found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)(?:\.\.(\d+(?:\.\d+)?))?:(.+)", each)
            if not found:
                self.fail(f"steps are such as 100:10s,200:10s or 100..1000:30s, got {value!r}")
            lasts_s = Duration().convert(found[3], param, ctx)
            first, last = float(found[1]), float(found[2] or found[1])
            if first == last:
                steps.append((first, lasts_s))
                continue
            for number in range(RAMP_STEPS):
                middle = first + (last - first) * (number + 0.5) / RAMP_STEPS
                steps.append((middle, lasts_s / RAMP_STEPS))
        return tuple(steps)
