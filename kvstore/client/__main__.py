"""`python -m kvstore.client`: load the course's own service, or any other gRPC service.

With the name of a method, it is a load test of that method: see `load_test.command`. Without one,
it makes a run against the course's key-value service. Started by `subprocesses.child`, it prints
samples as JSON lines for its parent.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from kvstore.client import load, strategies
from kvstore.client.channel import Target
from kvstore.client.errors import NotEnoughMemory, RunFailed, RunInterrupted
from kvstore.client.fleet import Gate, fleet_of
from kvstore.client.load import EXIT_STATUS
from kvstore.client.options import RunOptions
from kvstore.client.workload import Workload
from kvstore.flags import add_flags, given_flags
from kvstore.load_test import command
from kvstore.load_test.calibration import Calibration
from kvstore.measure.audit import audit
from kvstore.measure.run import Run
from kvstore.measure.sampler import Sample
from kvstore.measure.summary import summary
from kvstore.parent import INTERRUPTED, has_parent, listen

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
    command.add_arguments(parse)
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
            return command.load_test(given, _options(given), _draw)
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
    server = Target(given.address, given.identity, command.tls_from(given))
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
