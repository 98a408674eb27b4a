"""`python -m kvstore.client`: load the course's own service, or any other gRPC service.

With the name of a method, it is a load test of that method: see `load_test`.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvstore.client import load, strategies
from kvstore.client.channel import Target, Tls, check_encryption, is_loopback, target_of
from kvstore.client.errors import NotEnoughMemory, RunFailed, RunInterrupted
from kvstore.client.fleet import Fleet, Gate, fleet_of
from kvstore.client.load import EXIT_STATUS
from kvstore.client.options import RunOptions
from kvstore.client.reflection import BadRequest, from_text, method_by_reflection, method_in_file
from kvstore.client.strategies import Strategy
from kvstore.client.workload import MethodCalls, Workload
from kvstore.credentials import read_token
from kvstore.flags import add_flags, given_flags
from kvstore.load_test import as_json, as_text, predicted, prediction_text
from kvstore.load_test.levels import Calibration, Objective, Progress, calibrate, first_call, search
from kvstore.measure import Run
from kvstore.measure.audit import audit
from kvstore.measure.recorder import Sample
from kvstore.measure.summary import summary
from kvstore.model import Prediction
from kvstore.subprocesses import INTERRUPTED, has_parent, listen

OPEN_LOOP_IN_FLIGHT = 1000
"""Limit in flight of an open loop, unless another one is given: high, because arrivals do not wait
for replies."""

Draw = Callable[[str, Calibration | None, Run], object]
"""A function that draws a calibration and a run into a file."""


class Refused(ValueError):
    """The load test would put load on a host that is not this machine."""


def add_arguments(parse: argparse.ArgumentParser) -> None:
    """Add the arguments of a load test of any service."""
    add = parse.add_argument_group(
        "any service", "With METHOD, a load test: calibration, prediction, run, verdict."
    ).add_argument
    add("--json", metavar="JSON", dest="request", default=None,
        help="the request as JSON (default {}), or a list for a stream of requests")  # fmt: skip
    add("--requests", metavar="FILE", default=None,
        help="requests that are sent in rotation, one JSON value in each line")  # fmt: skip
    add("--descriptors", metavar="FILE", default=None,
        help="a descriptor set, for a server without reflection")  # fmt: skip
    add("--find-rate", action="store_true",
        help="search for the highest arrival rate that meets the objective")  # fmt: skip
    add("--p99-ms", type=float, default=None, metavar="N",
        help="objective: the p99 of the latency from the due time, in ms")  # fmt: skip
    add("--errors", type=float, default=0.001, metavar="N",
        help="objective: share of calls that may fail (default 0.001)")  # fmt: skip
    add("--step-s", type=float, default=None, metavar="N",
        help="seconds of each step of the search (default 3)")  # fmt: skip
    add("--no-calibration", action="store_true", help="make the run without a prediction")
    add("--quiet", action="store_true", help="print no progress")
    add("--output", choices=("table", "json"), default="table", help="(default table)")
    add("--picture", metavar="FILE", default=None,
        help="draw X, R and the latency by quantile into a PNG or SVG file")  # fmt: skip
    add_tls_arguments(parse)
    add("--i-may-load-this-host", action="store_true",
        help="permit a host that is not this machine")  # fmt: skip


def add_tls_arguments(parse: argparse.ArgumentParser) -> None:
    """Add the arguments of encrypted connections, to the course's own service or another."""
    add = parse.add_argument_group("encryption", "For a server that demands it.").add_argument
    add("--tls", action="store_true", help="encrypt the connections")
    add("--ca", metavar="FILE", default=None, help="certificates that sign the server's (PEM)")
    add("--token", metavar="FILE", default=None,
        help="file with a word that each call carries: authorization: Bearer TOKEN")  # fmt: skip
    add("--cert", metavar="FILE", default=None, help="the client's certificate (PEM)")
    add("--key", metavar="FILE", default=None, help="its private key (PEM)")
    add("--server-name", default=None, help="the name in the server's certificate")


def load_test(given: argparse.Namespace, options: RunOptions, draw: Draw) -> int:
    """Make the load test that the arguments describe, print its report, return the exit status.

    Raises `ValueError`, `OSError` or `RuntimeError` with a clear message when it cannot begin.
    """
    target = _target(given)
    method = (
        method_in_file(given.descriptors, given.method)
        if given.descriptors
        else method_by_reflection(target, given.method)
    )
    calls = method.calls(_requests(given))
    searching = given.find_rate or given.p99_ms is not None
    open_loop = searching or options.rate_per_s is not None
    strategy = _strategy(given.strategy, calls, open_loop)
    if open_loop and "in_flight" not in given:
        options = replace(options, in_flight=OPEN_LOOP_IN_FLIGHT)
    options.check(strategy, calls)
    if searching and given.p99_ms is None:
        raise ValueError("a search needs an objective: give --p99-ms, such as --p99-ms 50")
    make = _search if searching else _load_test
    fleet = fleet_of(given.fleet)
    with fleet or nullcontext():  # one start of the workers for all runs
        return make(given, strategy, target, calls, options, fleet, draw)


def _load_test(
    given: argparse.Namespace,
    strategy: Strategy,
    target: Target,
    calls: MethodCalls,
    options: RunOptions,
    fleet: Fleet | None,
    draw: Draw,
) -> int:
    calibration = prediction = None
    if given.no_calibration:
        first_call(target, calls, options)
    else:
        calibration = calibrate(strategy, target, calls, options, fleet=fleet, progress=_say(given))
        prediction = predicted(calibration, options.rate_per_s, options.in_flight)
        print(prediction_text(prediction, calibration), file=_out(given), flush=True)
    try:
        run = load.run(
            strategy, target, calls, options, fleet=fleet,
            on_sample=None if given.quiet else _show_on_screen,
        )  # fmt: skip
    except (RunInterrupted, RunFailed) as ended:
        _report(given, ended.run, prediction, calibration, draw)
        if isinstance(ended, RunInterrupted):
            return INTERRUPTED
        print(f"error: {ended}", file=sys.stderr)
        return 1
    _report(given, run, prediction, calibration, draw)
    return 0


def _target(given: argparse.Namespace) -> Target:
    target = target_of(given.address)
    host = target.address.rpartition(":")[0]
    if not is_loopback(host) and not given.i_may_load_this_host:
        raise Refused(
            f"{host} is not this machine. A load test takes a service away from its users, and it"
            " looks like an attack to its owner. If you may load this host, say so with"
            " --i-may-load-this-host"
        )
    target = Target(target.address, None, tls_from(given))
    check_encryption(target)
    return target


def tls_from(given: argparse.Namespace) -> Tls | None:
    """Return how connections are encrypted, from the flags; None: they are not.

    Raises `OSError` for a missing file, and `ValueError` for a token without encryption.
    """
    if not (given.tls or any((given.ca, given.cert, given.key, given.server_name))):
        if given.token:
            raise ValueError("a token is sent over encrypted connections only: give --tls or --ca")
        return None
    ca, cert, key = (
        Path(path).read_bytes() if path else None for path in (given.ca, given.cert, given.key)
    )
    token = read_token(given.token) if given.token else None
    return Tls(ca=ca, certificate=cert, key=key, server_name=given.server_name, token=token)


def _requests(given: argparse.Namespace) -> list[Any]:
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
        return {each.__name__: each for each in strategies.STRATEGIES}[name]
    unary = calls.shape == "unary_unary"
    return strategies.bounded if open_loop and unary else strategies.tasks


def _search(
    given: argparse.Namespace,
    strategy: Strategy,
    target: Target,
    calls: MethodCalls,
    options: RunOptions,
    fleet: Fleet | None,
    draw: Draw,
) -> int:
    objective = Objective(latency_s=given.p99_ms / 1e3, errors=given.errors)
    calibration = calibrate(strategy, target, calls, options, fleet=fleet, progress=_say(given))
    out = _out(given)
    print(f"objective   {objective}", file=out)
    print(
        prediction_text(calibration.open_loop(calibration.ceiling_per_s), calibration)
        .split("\n", 1)[1],
        file=out, flush=True,
    )  # fmt: skip
    settings = {} if given.step_s is None else {"step_s": given.step_s}
    found = search(
        strategy, target, calls, objective, calibration.ceiling_per_s, options,
        fleet=fleet, progress=_say(given), **settings,
    )  # fmt: skip
    if given.output == "json":
        print(json.dumps(as_json(None, None, calibration, found), indent=1))
    else:
        print(f"found       {found}")
    return INTERRUPTED if found.limit == "interrupted" else 0


def _report(
    given: argparse.Namespace,
    run: Run,
    prediction: Prediction | None,
    calibration: Calibration | None,
    draw: Draw,
) -> None:
    if sys.stderr.isatty() and not given.quiet:
        print(f"\r{'':78}\r", end="", file=sys.stderr)
    if given.save:
        run.save(given.save)
    if given.picture:
        draw(given.picture, calibration, run)
    if given.output == "json":
        print(json.dumps(as_json(run, prediction, calibration), indent=1))
    else:
        print(as_text(run, prediction))


def _out(given: argparse.Namespace) -> Any:
    """Return where text goes before the run: not between the lines of JSON."""
    return sys.stderr if given.output == "json" else sys.stdout


def _say(given: argparse.Namespace) -> Progress:
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


# ---- the command --------------------------------------------------------------------------------
# Without the name of a method, it makes a run against the course's key-value service.
#
# Started by `subprocesses.child`, it prints samples as JSON lines for its parent.


BY_NAME = {strategy.__name__: strategy for strategy in strategies.STRATEGIES}


def parser() -> argparse.ArgumentParser:
    """Return the command line: a flag for each field of `RunOptions`, and some besides."""
    parse = argparse.ArgumentParser(
        prog="python -m kvstore.client",
        description="Make calls to a gRPC service with one strategy, and report what happened.",
    )
    add = parse.add_argument
    add("address", help="the server, such as 127.0.0.1:40123; several that share the keys have"
        " commas between")  # fmt: skip
    add("method", nargs="?", default=None, metavar="METHOD",
        help="pkg.Service/Method of any service (default: the course's own service)")  # fmt: skip
    add("--strategy", choices=BY_NAME, default=None,
        help="how calls are kept in flight (default: tasks; bounded in an open loop)")  # fmt: skip
    add_flags(parse, RunOptions, {"duration_s": "--seconds", "rate_per_s": "--rate"})
    add_arguments(parse)
    add("--fleet", "--workers", default=None, metavar="FLEET",
        help="several load generators: a number of local processes, or the address of a Dask"
        " scheduler, such as tcp://10.0.0.1:8786")  # fmt: skip
    add("--workload", type=json.loads, default={}, metavar="JSON",
        help='settings of the workload, such as {"seed": 1, "value_bytes_mean": 1024}')  # fmt: skip
    add("--options", type=RunOptions.from_json, default=RunOptions(), metavar="JSON",
        help="all options at once, as RunOptions.to_json writes them")  # fmt: skip
    add("--save", default=None, metavar="FILE", help="write the run to this file")
    add("--identity", default=None, help="the identity that the server must have")
    return parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    given = parser().parse_args(arguments)
    for_parent = has_parent()
    gate = Gate()
    listen(lambda: _stop(gate))
    try:
        if given.method is not None:
            return load_test(given, _options(given), _draw)
        run = _run(given, for_parent, gate)
    except (RunInterrupted, RunFailed) as error:
        _finish(error.run, given.save, for_parent)
        if not isinstance(error, RunInterrupted):
            print(f"error: {error}", file=sys.stderr)
        return INTERRUPTED if isinstance(error, RunInterrupted) else 1
    except KeyboardInterrupt:
        return INTERRUPTED  # before the run began; Python's own exit may wait for threads
    except (ValueError, TypeError, OSError, RuntimeError, NotEnoughMemory) as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return EXIT_STATUS.get(type(wrong), EXIT_STATUS[ValueError])
    _finish(run, given.save, for_parent)
    return 0


def _run(given: argparse.Namespace, for_parent: bool, gate: Gate) -> Run:
    strategy = BY_NAME[given.strategy or "tasks"]
    server = Target(given.address, given.identity, tls_from(given))
    workload = Workload(**given.workload)
    options = _options(given)
    return load.run(
        strategy,
        server,
        workload,
        options,
        fleet=fleet_of(given.fleet),
        on_sample=_report_to_parent if for_parent else _show,
        gate=gate if for_parent else None,
    )


def _stop(gate: Gate) -> None:
    """End the run in order; a process in which no run has begun ends here."""
    gate.stop()
    if not gate.inside:
        os._exit(INTERRUPTED)


def _options(given: argparse.Namespace) -> RunOptions:
    options: RunOptions = replace(given.options, **given_flags(given, RunOptions))
    if options.duration_s is None and options.calls is None:
        options = replace(options, duration_s=10.0)
    return options


def _draw(path: str, calibration: Calibration | None, run: Run) -> None:
    from kvstore.course.views.load_tests import draw  # matplotlib takes long to import

    draw(path, calibration, run)


def _finish(run: Run, path: str | None, for_parent: bool) -> None:
    if path:
        run.save(path)
    if not for_parent:
        print(f"\r{'':70}\r{summary(run).to_string()}\n{audit(run)}")


def _show(sample: Sample) -> None:
    rate = sample.answered / sample.elapsed_s if sample.elapsed_s else 0.0
    print(
        f"\r{sample.elapsed_s:6.1f} s  {sample.answered:12,.0f} answered  {rate:10,.1f} calls/s"
        f"  {sample.in_flight:8,.0f} in flight",
        end="",
        flush=True,
        file=sys.stderr,
    )


def _report_to_parent(sample: Sample) -> None:
    print(json.dumps(sample), flush=True)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads of cancelled calls must not hold the process back
