"""The flags of the load test, each a field of `Flags`, and the kinds of value that they take."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Final

import click

from kvstore.client import strategies

UNITS_S: Final = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


LONGEST_S: Final = 30 * 24 * 3600.0
"""Seconds of the longest time. Timers of the system cannot wait for any number."""
RAMP_STEPS: Final = 20
"""Steps of which a ramp is made."""
MOST_IN_FLIGHT: Final = 20_000
"""Calls in flight, and connections. So many calls are cancelled within a second of Ctrl-C."""
BY_NAME: Final = {each.__name__: each for each in strategies.STRATEGIES}


class Duration(click.ParamType[float]):
    """A time such as 500ms, 2s or 1m. A number without a unit is in `unit`."""

    name = "time"

    def __init__(self, unit: str = "s") -> None:
        self._unit = unit

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Return the seconds. Ends with a usage error for any other text."""
        match = re.fullmatch(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*([a-zµ]*)\s*", str(value))
        try:
            assert match
            seconds = float(match[1]) * UNITS_S[match[2] or self._unit]
            assert seconds > 0
            if seconds > LONGEST_S:
                self.fail(f"a time is at most 30 days (720h), got {value!r}")
        except (AssertionError, KeyError, ValueError):
            self.fail(f"a time is a number above 0 with a unit, such as 500ms or 2s, got {value!r}")
        return seconds


class GroupedOption(click.Option):
    """A flag that `--help` shows under the name of its group."""

    def __init__(self, names: list[str], *, group: str, **settings: Any) -> None:
        super().__init__(names, **settings)
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


class Steps(click.ParamType[tuple[tuple[float, float], ...]]):
    """Rates that follow one another: RATE:TIME,RATE:TIME, or a ramp FROM..TO:TIME."""

    name = "steps"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[tuple[float, float], ...]:
        """Return each rate with its seconds. Ends with a usage error for any other text."""
        if isinstance(value, tuple):
            return value
        steps: list[tuple[float, float]] = []
        for each in str(value).split(","):
            match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)(?:\.\.(\d+(?:\.\d+)?))?:(.+)", each)
            if not match:
                self.fail(f"steps are such as 100:10s,200:10s or 100..1000:30s, got {value!r}")
            lasts_s = Duration().convert(match[3], param, ctx)
            first, last = float(match[1]), float(match[2] or match[1])
            if first == last:
                steps.append((first, lasts_s))
                continue
            for number in range(RAMP_STEPS):
                middle = first + (last - first) * (number + 0.5) / RAMP_STEPS
                steps.append((middle, lasts_s / RAMP_STEPS))
        return tuple(steps)


REQUESTS, LOAD, OBJECTIVE = "Requests", "Load", "Objective"
CONNECTION, OUTPUT = "Connection", "Output"


def flag(group: str, *names: str, default: Any = MISSING, **settings: Any) -> Any:
    """Return a field of `Flags`: a flag of `--help`, in a group.

    Its first name is that of the field, unless `names` has another one. The settings are those of
    `click.option`. Without a default it is None, or empty where it is given several times.
    """
    if default is MISSING:
        default = () if settings.get("multiple") else None
    return field(default=default, metadata={"group": group, "names": names, **settings})


@dataclass(frozen=True, kw_only=True)
class Flags:
    """What the command line said, each flag by its name; times in seconds."""

    address: str
    method: tuple[str, ...] = ()
    request: tuple[str, ...] = flag(
        REQUESTS,
        "--json",
        "-d",
        metavar="JSON",
        multiple=True,
        help="The request (default {}), a list for a stream of requests, @FILE, or - for standard"
        " input. For each of several methods, or one for all.",
    )
    requests: tuple[str, ...] = flag(
        REQUESTS,
        metavar="FILE",
        multiple=True,
        help="Requests in rotation: JSON values one after another, or one array.",
    )
    data: str | None = flag(
        REQUESTS,
        metavar="FILE",
        help="Rows (CSV or JSON) for templates in requests and metadata: {{row.NAME}}. Others:"
        " {{count}}, {{uuid}}, {{random(1, 9)}}, {{text(16)}}, {{now}}.",
    )
    metadata: tuple[str, ...] = flag(
        REQUESTS,
        "-H",
        metavar="NAME=VALUE|JSON",
        multiple=True,
        help="Sent with each call, and to reflection: NAME=VALUE, NAME=@FILE for a secret, or a"
        " JSON object; base64 for names that end with -bin.",
    )
    check: tuple[str, ...] = flag(
        REQUESTS,
        metavar="CONDITION",
        multiple=True,
        help="A condition on each reply, such as 'text == \"ok\"' or 'items.0.price > 0'.",
    )
    descriptors: tuple[str, ...] = flag(
        REQUESTS,
        metavar="FILE",
        multiple=True,
        help="A descriptor set, for a server without reflection.",
    )
    proto: tuple[str, ...] = flag(
        REQUESTS,
        metavar="FILE",
        multiple=True,
        help="A .proto file in its place; needs grpcio-tools.",
    )
    import_path: tuple[str, ...] = flag(
        REQUESTS,
        "-I",
        metavar="FOLDER",
        multiple=True,
        help="Where the imports of .proto files are.",
    )
    in_flight: int | None = flag(
        LOAD,
        "-c",
        type=click.IntRange(max=MOST_IN_FLIGHT),
        metavar="N",
        help="Calls in flight (default 1; in an open loop the limit, 1,000).",
    )
    rate_per_s: float | None = flag(
        LOAD,
        "--rate",
        "-r",
        type=float,
        metavar="N",
        help="Arrivals per second: an open loop.",
    )
    rates: tuple[tuple[float, float], ...] | None = flag(
        LOAD,
        "--steps",
        type=Steps(),
        metavar="RATE:TIME,...",
        help="Rates one after the other: 100:10s,200:10s, or a ramp 100..1000:30s.",
    )
    arrivals: str = flag(
        LOAD,
        type=click.Choice(["poisson", "even"]),
        default="poisson",
        help="Gaps of an open loop: random as between users (default), or even.",
    )
    seed: int | None = flag(
        LOAD,
        type=click.IntRange(min=0),
        metavar="N",
        help="Seed of random arrivals; each step of a search has the next one. Without it, each run"
        " draws its own and prints it.",
    )
    join_over: float | None = flag(
        LOAD,
        type=Duration(),
        metavar="TIME",
        help="Callers of a closed loop start one by one over this time.",
    )
    warm_up: float | None = flag(
        LOAD,
        type=Duration(),
        metavar="TIME",
        help="A run of this length comes first and is left out.",
    )
    keep_going: bool = flag(
        LOAD,
        is_flag=True,
        default=False,
        help="Go on while the service is away, and say how long it was.",
    )
    stream_time: float | None = flag(
        LOAD,
        type=Duration(),
        metavar="TIME",
        help="Cut each stream of replies after this time; it counts as OK.",
    )
    stream_messages: int | None = flag(
        LOAD,
        type=click.IntRange(min=1),
        metavar="N",
        help="Cut each stream of replies after so many messages.",
    )
    duration_s: float | None = flag(
        LOAD,
        "--seconds",
        "-s",
        type=Duration(),
        metavar="TIME",
        help="Time after which nothing more is sent (default 10s).",
    )
    calls: int | None = flag(
        LOAD,
        "-n",
        type=int,
        metavar="N",
        help="Calls after which nothing more is sent.",
    )
    connections: int | None = flag(
        LOAD,
        type=click.IntRange(max=MOST_IN_FLIGHT),
        metavar="N",
        help="Connections, which share the calls evenly (default 1).",
    )
    deadline_s: float | None = flag(
        LOAD,
        "--deadline",
        "--deadline-s",
        type=Duration(),
        metavar="TIME",
        help="Time limit of each call (default 30s).",
    )
    strategy: str | None = flag(
        LOAD,
        type=click.Choice(list(BY_NAME)),
        help="How calls are kept in flight (default tasks; in an open loop bounded).",
    )
    workers: str | None = flag(
        LOAD,
        "--workers",
        "--fleet",
        metavar="N|ADDRESS",
        help="Several load generators: local processes, or a Dask scheduler.",
    )
    no_calibration: bool = flag(
        LOAD, is_flag=True, default=False, help="Make the run without a prediction."
    )
    find_rate: bool = flag(
        OBJECTIVE, is_flag=True, default=False, help="Search for the highest arrival rate."
    )
    p99: float | None = flag(
        OBJECTIVE,
        "--p99",
        "--p99-ms",
        type=Duration("ms"),
        metavar="TIME",
        help="Limit on the p99 of the latency from the due time; a bare number is in ms.",
    )
    errors: float = flag(
        OBJECTIVE,
        type=float,
        default=0.001,
        metavar="SHARE",
        help="Share of calls that may fail (default 0.001).",
    )
    step: float | None = flag(
        OBJECTIVE,
        "--step",
        "--step-s",
        type=Duration(),
        metavar="TIME",
        help="Length of each step of the search (default 3s to 12s, as its rate needs).",
    )
    search_time: float | None = flag(
        OBJECTIVE,
        type=Duration(),
        metavar="TIME",
        help="Length of all steps together (default 150s, or 12 steps).",
    )
    fail_if: tuple[str, ...] = flag(
        OBJECTIVE,
        metavar="CONDITION",
        multiple=True,
        help="Exit with 1 if this holds for the run: 'p99 > 50ms', 'errors > 1%', 'throughput <"
        " 100'.",
    )
    tls: bool = flag(CONNECTION, is_flag=True, default=False, help="Encrypt the connections.")
    ca: str | None = flag(
        CONNECTION, metavar="FILE", help="Certificates that sign the server's (PEM)."
    )
    cert: str | None = flag(CONNECTION, metavar="FILE", help="The client's certificate (PEM).")
    key: str | None = flag(CONNECTION, metavar="FILE", help="Its private key (PEM).")
    server_name: str | None = flag(
        CONNECTION, metavar="NAME", help="The name in the server's certificate."
    )
    token: str | None = flag(
        CONNECTION,
        metavar="FILE",
        help="File with a word that each call carries: authorization: Bearer TOKEN.",
    )
    insecure_skip_verify: bool = flag(
        CONNECTION,
        is_flag=True,
        default=False,
        help="Encrypt, and trust whatever certificate the server presents at the start. Somebody"
        " between you and the server can then read and change all calls.",
    )
    authority: str | None = flag(
        CONNECTION, metavar="NAME", help="The :authority that each call names."
    )
    max_message_bytes: int | None = flag(
        CONNECTION,
        type=click.IntRange(-1, 2**31 - 1),
        metavar="N",
        help="Limit on a message (default 4194304 for replies; -1: none).",
    )
    gzip: bool = flag(CONNECTION, is_flag=True, default=False, help="Compress the requests.")
    keepalive: float | None = flag(
        CONNECTION,
        type=Duration(),
        metavar="TIME",
        help="Send a ping on a quiet connection so often.",
    )
    service_config: str | None = flag(
        CONNECTION, metavar="JSON", help="gRPC's service config, such as a retryPolicy."
    )
    i_may_load_this_host: bool = flag(
        CONNECTION,
        is_flag=True,
        default=False,
        help="Permit a host that is not this machine.",
    )
    output: str = flag(
        OUTPUT,
        "-o",
        type=click.Choice(["table", "json", "csv", "html"]),
        default="table",
        help="Form of the report on standard output (default table).",
    )
    save: str | None = flag(OUTPUT, metavar="FILE", help="Write the run to this file.")
    quiet: bool = flag(OUTPUT, "-q", is_flag=True, default=False, help="Print no progress.")


def parameters() -> list[click.Parameter]:
    """Return the arguments and the options of the command, one for each field of `Flags`."""
    address = click.Argument(["address"], metavar="HOST:PORT")
    method = click.Argument(["method"], metavar="[pkg.Service/METHOD[=WEIGHT]]...", nargs=-1)
    return [address, method, *(_option(each) for each in fields(Flags) if each.metadata)]


def _option(each: "Field[Any]") -> GroupedOption:
    settings: Mapping[str, Any] = each.metadata
    names = settings["names"]
    if not any(name.startswith("--") for name in names):
        names = (f"--{each.name.replace('_', '-')}", *names)
    others = {name: value for name, value in settings.items() if name != "names"}
    if each.default not in (None, ()):
        others["default"] = each.default
    return GroupedOption([*names, each.name], **others)
