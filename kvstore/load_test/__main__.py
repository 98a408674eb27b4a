"""`rpcload`, or `python -m kvstore.load_test`: a load test of any gRPC service."""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import click

from kvstore.client import load, strategies
from kvstore.client.channel import Target, Tls, check_encryption, is_loopback, target_of
from kvstore.client.errors import (
    NotEnoughMemory,
    RunFailed,
    RunInterrupted,
    ServerNotReached,
)
from kvstore.client.fleet import Fleet, fleet_of
from kvstore.client.plan import Plan, RunOptions
from kvstore.client.reflection import BadRequest, from_text, method_by_reflection, method_in_file
from kvstore.client.strategies import Strategy
from kvstore.client.workload import MethodCalls
from kvstore.credentials import read_token
from kvstore.load_test.first_call import FirstCallFailed, Progress, first_call
from kvstore.load_test.levels import calibrate
from kvstore.load_test.options import Duration, GroupedCommand, group
from kvstore.load_test.report import as_json, as_text, predicted, prediction_text
from kvstore.load_test.search import Objective, search
from kvstore.measure.recorder import Sample
from kvstore.subprocesses import INTERRUPTED

MISSED, BAD_INPUT, COULD_NOT_RUN = 1, 2, 3
"""Exit statuses besides 0 and 130 (Ctrl-C)."""

OPEN_LOOP_IN_FLIGHT: Final = 1000
"""Limit in flight of an open loop, unless another one is given: high, because arrivals do not wait
for replies."""

EXAMPLES: Final = """
rpcload 127.0.0.1:50051 pkg.Service/Get --json '{"id": 7}' -c 50 -s 10s
rpcload 127.0.0.1:50051 pkg.Service/Get --json '{"id": 7}' --find-rate --p99 50ms
rpcload 127.0.0.1:50051
"""

EXIT_CODES: Final = """\b
Exit codes: 0 the run is complete; 1 it missed its objective, or the service went
away in mid-run; 2 the input is wrong; 3 the test could not run; 130 Ctrl-C.
"""

BY_NAME: Final = {each.__name__: each for each in strategies.STRATEGIES}


class Refused(ValueError):
    """The load test would put load on a host that is not this machine."""


request = group("Requests")
amount = group("Load")
objective = group("Objective: find the highest rate that meets it")
connection = group("Connection")
output = group("Output")


@click.command(
    cls=GroupedCommand,
    examples=EXAMPLES,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 90},
)
@click.argument("address", metavar="HOST:PORT")
@click.argument("method", metavar="[pkg.Service/METHOD]", required=False)
@request("--json", "-d", "request", metavar="JSON",
    help="The request (default {}), or a list for a stream of requests.")  # fmt: skip
@request("--requests", metavar="FILE",
    help="Requests that are sent in rotation, one JSON value in each line.")  # fmt: skip
@request("--metadata", "-H", metavar="JSON", help="Sent with each call, as text by name.")
@request("--descriptors", metavar="FILE",
    help="A descriptor set, for a server without reflection.")  # fmt: skip
@amount("--in-flight", "-c", type=int, metavar="N",
    help="Calls in flight (default 1; in an open loop the limit, 1,000).")  # fmt: skip
@amount("--rate", "-r", type=float, metavar="N", help="Arrivals per second: an open loop.")
@amount("--seconds", "-s", type=Duration(), metavar="TIME",
    help="Time after which nothing more is sent (default 10s).")  # fmt: skip
@amount("--calls", "-n", type=int, metavar="N", help="Calls after which nothing more is sent.")
@amount("--connections", type=int, metavar="N",
    help="Connections, which share the calls evenly (default 1).")  # fmt: skip
@amount("--deadline", "--deadline-s", type=Duration(), metavar="TIME",
    help="Time limit of each call (default 30s).")  # fmt: skip
@amount("--strategy", type=click.Choice(list(BY_NAME)),
    help="How calls are kept in flight (default tasks; in an open loop bounded).")  # fmt: skip
@amount("--workers", "--fleet", metavar="N|ADDRESS",
    help="Several load generators: local processes, or a Dask scheduler.")  # fmt: skip
@amount("--no-calibration", is_flag=True, help="Make the run without a prediction.")
@objective("--find-rate", is_flag=True, help="Search for the highest arrival rate.")
@objective("--p99", "--p99-ms", type=Duration("ms"), metavar="TIME",
    help="Limit on the p99 of the latency from the due time; a bare number is in ms.")  # fmt: skip
@objective("--errors", type=float, default=0.001, metavar="SHARE",
    help="Share of calls that may fail (default 0.001).")  # fmt: skip
@objective("--step", "--step-s", type=Duration(), metavar="TIME",
    help="Length of each step of the search (default 3s).")  # fmt: skip
@connection("--tls", is_flag=True, help="Encrypt the connections.")
@connection("--ca", metavar="FILE", help="Certificates that sign the server's (PEM).")
@connection("--cert", metavar="FILE", help="The client's certificate (PEM).")
@connection("--key", metavar="FILE", help="Its private key (PEM).")
@connection("--server-name", metavar="NAME", help="The name in the server's certificate.")
@connection("--token", metavar="FILE",
    help="File with a word that each call carries: authorization: Bearer TOKEN.")  # fmt: skip
@connection("--service-config", metavar="JSON",
    help="gRPC's service config, such as a retryPolicy.")  # fmt: skip
@connection("--i-may-load-this-host", is_flag=True,
    help="Permit a host that is not this machine.")  # fmt: skip
@output("--output", "-o", type=click.Choice(["table", "json"]), default="table",
    help="Form of the report (default table).")  # fmt: skip
@output("--save", metavar="FILE", help="Write the run to this file.")
@output("--quiet", "-q", is_flag=True, help="Print no progress.")
def command(**given: Any) -> int:
    """Load one method of a gRPC service, predict what it can do, and measure it.

    First, short runs with more and more calls in flight show the ceiling of the service and the
    knee N*. They give a prediction. Then comes the run, with intervals and the reasons to distrust
    it. With --find-rate, a search follows in place of the run.
    """
    return _load_test(SimpleNamespace(**given))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    try:
        status: int = command.main(
            None if arguments is None else list(arguments), "rpcload", standalone_mode=False
        )
        return status
    except click.UsageError as wrong:
        return _error(f"{wrong.format_message()}\nTry: rpcload --help", BAD_INPUT)
    except (KeyboardInterrupt, click.Abort):
        return _error("interrupted before the run began", INTERRUPTED)
    except (ServerNotReached, FirstCallFailed, NotEnoughMemory) as wrong:
        return _error(wrong, COULD_NOT_RUN)
    except (ValueError, TypeError, OSError) as wrong:
        return _error(wrong, BAD_INPUT)
    except RuntimeError as wrong:
        return _error(wrong, COULD_NOT_RUN)


def script() -> None:
    """Run the command and end the process: threads of cancelled calls must not hold it back."""
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _error(said: object, status: int) -> int:
    print(f"error: {said}", file=sys.stderr)
    return status


def _load_test(given: SimpleNamespace) -> int:
    if given.method is None:
        raise click.UsageError("give the METHOD to call, such as pkg.Service/Method")
    target = _target(given)
    method = (
        method_in_file(given.descriptors, given.method)
        if given.descriptors
        else method_by_reflection(target, given.method)
    )
    calls = method.calls(_requests(given))
    searching = given.find_rate or given.p99 is not None
    open_loop = searching or given.rate is not None
    strategy = _strategy(given.strategy, calls, open_loop)
    options = _options(given, open_loop)
    Plan.of(strategy, target, calls, options)  # refuse what makes no sense before any call
    if searching and given.p99 is None:
        raise ValueError("a search needs an objective: give --p99, such as --p99 50ms")
    make = _search if searching else _run
    fleet = fleet_of(given.workers)
    with fleet or nullcontext():  # one start of the workers for all runs
        return make(given, strategy, target, calls, options, fleet)


def _options(given: SimpleNamespace, open_loop: bool) -> RunOptions:
    timed = given.seconds is not None or given.calls is not None
    named = {
        "in_flight": given.in_flight or (OPEN_LOOP_IN_FLIGHT if open_loop else None),
        "connections": given.connections,
        "duration_s": given.seconds if timed else 10.0,
        "calls": given.calls,
        "rate_per_s": given.rate,
        "deadline_s": given.deadline,
        "metadata": json.loads(given.metadata or "{}"),
        "service_config": json.loads(given.service_config or "{}"),
    }
    if given.in_flight is not None:
        named["in_flight"] = given.in_flight
    return RunOptions(**{name: value for name, value in named.items() if value is not None})


def _run(
    given: SimpleNamespace,
    strategy: Strategy,
    target: Target,
    calls: MethodCalls,
    options: RunOptions,
    fleet: Fleet | None,
) -> int:
    calibration = prediction = None
    if given.no_calibration:
        first_call(target, calls, options)
    else:
        calibration = calibrate(strategy, target, calls, options, fleet=fleet, progress=_say(given))
        prediction = predicted(calibration, options.rate_per_s, options.in_flight)
        print(prediction_text(prediction, calibration), file=_out(given), flush=True)
    status = 0
    try:
        run = load.run(
            strategy, target, calls, options, fleet=fleet,
            on_sample=None if given.quiet else _show_on_screen,
        )  # fmt: skip
    except (RunInterrupted, RunFailed) as ended:
        run, status = ended.run, INTERRUPTED
        if isinstance(ended, RunFailed):
            status = _error(ended, MISSED)
    if sys.stderr.isatty() and not given.quiet:
        print(f"\r{'':78}\r", end="", file=sys.stderr)
    if given.save:
        run.save(given.save)
    if given.output == "json":
        print(json.dumps(as_json(run, prediction, calibration), indent=1))
    else:
        print(as_text(run, prediction))
    return status


def _search(
    given: SimpleNamespace,
    strategy: Strategy,
    target: Target,
    calls: MethodCalls,
    options: RunOptions,
    fleet: Fleet | None,
) -> int:
    wanted = Objective(latency_s=given.p99, errors=given.errors)
    calibration = calibrate(strategy, target, calls, options, fleet=fleet, progress=_say(given))
    out = _out(given)
    print(f"objective   {wanted}", file=out)
    print(
        prediction_text(calibration.open_loop(calibration.ceiling_per_s), calibration)
        .split("\n", 1)[1],
        file=out, flush=True,
    )  # fmt: skip
    settings = {} if given.step is None else {"step_s": given.step}
    found = search(
        strategy, target, calls, wanted, calibration, options,
        fleet=fleet, progress=_say(given), **settings,
    )  # fmt: skip
    if given.output == "json":
        print(json.dumps(as_json(None, None, calibration, found), indent=1))
    else:
        print(f"found       {found}")
    if found.limit == "interrupted":
        return INTERRUPTED
    return 0 if found.rate_per_s else MISSED


def _target(given: SimpleNamespace) -> Target:
    target = target_of(given.address)
    host = target.address.rpartition(":")[0]
    if not is_loopback(host) and not given.i_may_load_this_host:
        raise Refused(
            f"{host} is not this machine. A load test takes a service away from its users, and it"
            " looks like an attack to its owner. If you may load this host, say so with"
            " --i-may-load-this-host"
        )
    target = Target(target.address, None, _tls(given))
    check_encryption(target)
    return target


def _tls(given: SimpleNamespace) -> Tls | None:
    """Return how connections are encrypted; None: they are not."""
    if not (given.tls or any((given.ca, given.cert, given.key, given.server_name))):
        if given.token:
            raise ValueError("a token is sent over encrypted connections only: give --tls or --ca")
        return None
    ca, cert, key = (
        Path(path).read_bytes() if path else None for path in (given.ca, given.cert, given.key)
    )
    token = read_token(given.token) if given.token else None
    return Tls(ca=ca, certificate=cert, key=key, server_name=given.server_name, token=token)


def _requests(given: SimpleNamespace) -> list[Any]:
    if given.requests and given.request:
        raise BadRequest("give --json or --requests, not both")
    if given.requests:
        return from_text(Path(given.requests).read_text("utf-8"))
    try:
        return [json.loads(given.request or "{}")]
    except json.JSONDecodeError as wrong:
        raise BadRequest(f"--json is not JSON: {wrong}. In a shell, put it in quotes") from None


def _strategy(name: str | None, calls: MethodCalls, open_loop: bool) -> Strategy:
    """Return the strategy of this name, or the default.

    `tasks` costs the generator least. In an open loop `bounded` keeps the due times better.
    """
    if name is not None:
        return BY_NAME[name]
    unary = calls.shape == "unary_unary"
    return strategies.bounded if open_loop and unary else strategies.tasks


def _out(given: SimpleNamespace) -> Any:
    """Return where text goes before the run: not between the lines of JSON."""
    return sys.stderr if given.output == "json" else sys.stdout


def _say(given: SimpleNamespace) -> Progress:
    if given.quiet:
        return lambda text: None
    return lambda text: print(text, file=sys.stderr, flush=True)


def _show_on_screen(sample: Sample) -> None:
    if not sys.stderr.isatty():
        return  # a line that is written over and over belongs on a screen
    rate = sample.answered / sample.elapsed_s if sample.elapsed_s else 0.0
    print(
        f"\r{sample.elapsed_s:6.1f} s  {sample.answered:12,.0f} answered  {rate:10,.1f} calls/s"
        f"  {sample.in_flight:8,.0f} in flight",
        end="", flush=True, file=sys.stderr,
    )  # fmt: skip


if __name__ == "__main__":
    script()
