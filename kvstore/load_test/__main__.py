"""`rpcload`, or `python -m kvstore.load_test`: a load test of any gRPC service."""

import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from kvstore.client.errors import NotEnoughMemory, ServerNotReached, printable
from kvstore.load_test.first_call import FirstCallFailed
from kvstore.load_test.options import Duration, Flags, GroupedCommand, Steps, group
from kvstore.load_test.saved import saved
from kvstore.load_test.service import flags_of
from kvstore.load_test.session import BAD_INPUT, BY_NAME, COULD_NOT_RUN, load_test
from kvstore.subprocesses import INTERRUPTED

EXAMPLES: Final = """
rpcload 127.0.0.1:50051 pkg.Service/Get --json '{"id": 7}' -c 50 -s 10s
rpcload 127.0.0.1:50051 pkg.Service/Get --json '{"id": 7}' --find-rate --p99 50ms
rpcload 127.0.0.1:50051
rpcload report RUN -o html | compare A B | merge A B...   (runs of --save)
"""

EXIT_CODES: Final = """\b
Exit codes: 0 the run is complete; 1 an objective was missed, a --fail-if met
or a --check failed, no call ended OK, or the service went away in mid-run; 2 the input is
wrong; 3 the test could not run; 130 Ctrl-C.
"""

MOST_IN_FLIGHT: Final = 20_000
"""Calls in flight, and connections. So many calls are cancelled within a second of Ctrl-C."""

request = group("Requests")
amount = group("Load")
objective = group("Objective")
connection = group("Connection")
output = group("Output")


@click.command(
    cls=GroupedCommand,
    examples=EXAMPLES,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 90},
)
@click.argument("address", metavar="HOST:PORT")
@click.argument("method", metavar="[pkg.Service/METHOD[=WEIGHT]]...", nargs=-1)
@request(
    "--json",
    "-d",
    "request",
    metavar="JSON",
    multiple=True,
    help="The request (default {}), a list for a stream of requests, @FILE, or - for standard"
    " input. For each of several methods, or one for all.",
)
@request(
    "--requests",
    metavar="FILE",
    multiple=True,
    help="Requests in rotation: JSON values one after another, or one array.",
)
@request(
    "--data",
    metavar="FILE",
    help="Rows (CSV or JSON) for templates in requests and metadata: {{row.NAME}}. Others:"
    " {{count}}, {{uuid}}, {{random(1, 9)}}, {{text(16)}}, {{now}}.",
)
@request(
    "--metadata",
    "-H",
    metavar="NAME=VALUE|JSON",
    multiple=True,
    help="Sent with each call, and to reflection: NAME=VALUE, NAME=@FILE for a secret, or a JSON"
    " object; base64 for names that end with -bin.",
)
@request(
    "--check",
    metavar="CONDITION",
    multiple=True,
    help="A condition on each reply, such as 'text == \"ok\"' or 'items.0.price > 0'.",
)
@request(
    "--descriptors",
    metavar="FILE",
    multiple=True,
    help="A descriptor set, for a server without reflection.",
)
@request(
    "--proto", metavar="FILE", multiple=True, help="A .proto file in its place; needs grpcio-tools."
)
@request(
    "--import-path",
    "-I",
    metavar="FOLDER",
    multiple=True,
    help="Where the imports of .proto files are.",
)
@amount(
    "--in-flight",
    "-c",
    type=click.IntRange(max=MOST_IN_FLIGHT),
    metavar="N",
    help="Calls in flight (default 1; in an open loop the limit, 1,000).",
)
@amount(
    "--rate", "-r", "rate_per_s", type=float, metavar="N", help="Arrivals per second: an open loop."
)
@amount(
    "--steps",
    "rates",
    type=Steps(),
    metavar="RATE:TIME,...",
    help="Rates one after the other: 100:10s,200:10s, or a ramp 100..1000:30s.",
)
@amount(
    "--arrivals",
    type=click.Choice(["poisson", "even"]),
    default="poisson",
    help="Gaps of an open loop: random as between users (default), or even.",
)
@amount(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Seed of random arrivals; each step of a search has the next one. Without it, each run"
    " draws its own and prints it.",
)
@amount(
    "--join-over",
    type=Duration(),
    metavar="TIME",
    help="Callers of a closed loop start one by one over this time.",
)
@amount(
    "--warm-up",
    type=Duration(),
    metavar="TIME",
    help="A run of this length comes first and is left out.",
)
@amount(
    "--keep-going", is_flag=True, help="Go on while the service is away, and say how long it was."
)
@amount(
    "--stream-time",
    type=Duration(),
    metavar="TIME",
    help="Cut each stream of replies after this time; it counts as OK.",
)
@amount(
    "--stream-messages",
    type=click.IntRange(min=1),
    metavar="N",
    help="Cut each stream of replies after so many messages.",
)
@amount(
    "--seconds",
    "-s",
    "duration_s",
    type=Duration(),
    metavar="TIME",
    help="Time after which nothing more is sent (default 10s).",
)
@amount("--calls", "-n", type=int, metavar="N", help="Calls after which nothing more is sent.")
@amount(
    "--connections",
    type=click.IntRange(max=MOST_IN_FLIGHT),
    metavar="N",
    help="Connections, which share the calls evenly (default 1).",
)
@amount(
    "--deadline",
    "--deadline-s",
    "deadline_s",
    type=Duration(),
    metavar="TIME",
    help="Time limit of each call (default 30s).",
)
@amount(
    "--strategy",
    type=click.Choice(list(BY_NAME)),
    help="How calls are kept in flight (default tasks; in an open loop bounded).",
)
@amount(
    "--workers",
    "--fleet",
    metavar="N|ADDRESS",
    help="Several load generators: local processes, or a Dask scheduler.",
)
@amount("--no-calibration", is_flag=True, help="Make the run without a prediction.")
@objective("--find-rate", is_flag=True, help="Search for the highest arrival rate.")
@objective(
    "--p99",
    "--p99-ms",
    type=Duration("ms"),
    metavar="TIME",
    help="Limit on the p99 of the latency from the due time; a bare number is in ms.",
)
@objective(
    "--errors",
    type=float,
    default=0.001,
    metavar="SHARE",
    help="Share of calls that may fail (default 0.001).",
)
@objective(
    "--step",
    "--step-s",
    type=Duration(),
    metavar="TIME",
    help="Length of each step of the search (default 3s to 12s, as its rate needs).",
)
@objective(
    "--search-time",
    type=Duration(),
    metavar="TIME",
    help="Length of all steps together (default 150s, or 12 steps).",
)
@objective(
    "--fail-if",
    metavar="CONDITION",
    multiple=True,
    help="Exit with 1 if this holds for the run: 'p99 > 50ms', 'errors > 1%', 'throughput < 100'.",
)
@connection("--tls", is_flag=True, help="Encrypt the connections.")
@connection("--ca", metavar="FILE", help="Certificates that sign the server's (PEM).")
@connection("--cert", metavar="FILE", help="The client's certificate (PEM).")
@connection("--key", metavar="FILE", help="Its private key (PEM).")
@connection("--server-name", metavar="NAME", help="The name in the server's certificate.")
@connection(
    "--token",
    metavar="FILE",
    help="File with a word that each call carries: authorization: Bearer TOKEN.",
)
@connection(
    "--insecure-skip-verify",
    is_flag=True,
    help="Encrypt, and trust whatever certificate the server presents at the start. Somebody"
    " between you and the server can then read and change all calls.",
)
@connection("--authority", metavar="NAME", help="The :authority that each call names.")
@connection(
    "--max-message-bytes",
    type=click.IntRange(-1, 2**31 - 1),
    metavar="N",
    help="Limit on a message (default 4194304 for replies; -1: none).",
)
@connection("--gzip", is_flag=True, help="Compress the requests.")
@connection(
    "--keepalive",
    type=Duration(),
    metavar="TIME",
    help="Send a ping on a quiet connection so often.",
)
@connection(
    "--service-config", metavar="JSON", help="gRPC's service config, such as a retryPolicy."
)
@connection("--i-may-load-this-host", is_flag=True, help="Permit a host that is not this machine.")
@output(
    "--output",
    "-o",
    type=click.Choice(["table", "json", "csv", "html"]),
    default="table",
    help="Form of the report on standard output (default table).",
)
@output(
    "--config",
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, path: _read_config(ctx, path),
    help="Flags by name in a TOML file; flags of the command line count more.",
)
@output("--save", metavar="FILE", help="Write the run to this file.")
@output("--quiet", "-q", is_flag=True, help="Print no progress.")
def command(**flags: Any) -> int:
    """Load one method of a gRPC service, predict what it can do, and measure it.

    First, short runs with more and more calls in flight show the ceiling of the service and the
    knee N*. They give a prediction. Then comes the run, with intervals and the reasons to distrust
    it. With --find-rate, a search follows in place of the run.
    """
    try:
        return load_test(Flags(**flags))
    except KeyboardInterrupt:  # click would write an empty line
        return _error("interrupted before the run began", INTERRUPTED)


def _read_config(ctx: click.Context, path: str | None) -> None:
    if path is not None:
        known = {
            name.lstrip("-"): each
            for each in ctx.command.params
            for name in each.opts
            if name.startswith("--") or isinstance(each, click.Argument)
        }
        ctx.default_map = flags_of(path, known)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    # gRPC logs the traceback of a reply that does not parse; its status is in the report.
    logging.getLogger("grpc").addHandler(logging.NullHandler())
    words = sys.argv[1:] if arguments is None else list(arguments)
    chosen = saved if words[:1] and words[0] in saved.commands else command
    try:
        status: int = chosen.main(words, "rpcload", standalone_mode=False)
        return status
    except click.UsageError as wrong:
        return _error(f"{wrong.format_message()}\nTry: rpcload --help", BAD_INPUT)
    except (ServerNotReached, FirstCallFailed, NotEnoughMemory) as wrong:
        return _error(wrong, COULD_NOT_RUN)
    except (ValueError, TypeError, OSError) as wrong:
        return _error(wrong, BAD_INPUT)
    except RecursionError:
        return _error("the request, or the type of it, is nested too deeply", BAD_INPUT)
    except RuntimeError as wrong:
        return _error(wrong, COULD_NOT_RUN)


def script() -> None:
    """Run the command and end the process: threads of cancelled calls must not hold it back."""
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _error(problem: object, status: int) -> int:
    print(f"error: {printable(str(problem))}", file=sys.stderr)
    return status


if __name__ == "__main__":
    script()
