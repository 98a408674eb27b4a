"""`python -m kvstore.client`: make a run against the course's own service.

Started by `subprocesses.child`, it prints samples as JSON lines for its parent. The load test of
any other service is `python -m kvstore.load_test`.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kvstore.client import load, strategies
from kvstore.client.channel import Target, Tls
from kvstore.client.errors import EXIT_STATUS, NotEnoughMemory, RunFailed, RunInterrupted
from kvstore.client.fleet import fleet_of
from kvstore.client.monitor import Gate
from kvstore.client.plan import RunOptions
from kvstore.client.workload import Workload
from kvstore.credentials import read_token
from kvstore.flags import add_flags, given_flags
from kvstore.measure import Outcome, Run
from kvstore.measure.audit import audit
from kvstore.measure.recorder import Sample
from kvstore.measure.summary import summary
from kvstore.subprocesses import INTERRUPTED, has_parent, listen


def add_tls_arguments(parse: argparse.ArgumentParser) -> None:
    """Add the arguments of encrypted connections."""
    add = parse.add_argument_group("encryption", "For a server that demands it.").add_argument
    add("--tls", action="store_true", help="encrypt the connections")
    add("--ca", metavar="FILE", default=None, help="certificates that sign the server's (PEM)")
    add("--token", metavar="FILE", default=None,
        help="file with a word that each call carries: authorization: Bearer TOKEN")  # fmt: skip
    add("--cert", metavar="FILE", default=None, help="the client's certificate (PEM)")
    add("--key", metavar="FILE", default=None, help="its private key (PEM)")
    add("--server-name", default=None, help="the name in the server's certificate")


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


BY_NAME = {strategy.__name__: strategy for strategy in strategies.STRATEGIES}


def parser() -> argparse.ArgumentParser:
    """Return the command line: a flag for each field of `RunOptions`, and some besides."""
    parse = argparse.ArgumentParser(
        prog="python -m kvstore.client",
        description="Make calls to the course's service with one strategy, and report them.",
    )
    add = parse.add_argument
    add("address", help="the server, such as 127.0.0.1:40123; several that share the keys have"
        " commas between")  # fmt: skip
    add("--strategy", choices=BY_NAME, default=None,
        help="how calls are kept in flight (default: tasks)")  # fmt: skip
    add_flags(parse, RunOptions, {"duration_s": "--seconds", "rate_per_s": "--rate"})
    add_tls_arguments(parse)
    add("--fleet", "--workers", default=None, metavar="FLEET",
        help="several load generators: a number of local processes, or the address of a Dask"
        " scheduler, such as tcp://10.0.0.1:8786")  # fmt: skip
    add("--workload", type=json.loads, default={}, metavar="JSON",
        help='settings of the workload, such as {"seed": 1, "value_bytes_mean": 1024}')  # fmt: skip
    add("--options", type=_options_of, default=RunOptions(), metavar="JSON",
        help="all options, as RunOptions.to_json writes them, or @FILE")  # fmt: skip
    add("--save", default=None, metavar="FILE", help="write the run to this file")
    add("--identity", default=None, help="the identity that the server must have")
    return parse


def _options_of(text: str) -> RunOptions:
    if text.startswith("@"):
        text = Path(text[1:]).read_text("utf-8")
    return RunOptions.from_json(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    given = parser().parse_args(arguments)
    for_parent = has_parent()
    gate = Gate()
    listen(lambda: _stop(gate))
    try:
        run = _run(given, for_parent, gate)
    except (RunInterrupted, RunFailed) as error:
        _finish(error.run, given.save, for_parent)  # with a status of its own, saved or not
        if not isinstance(error, RunInterrupted):
            print(f"error: {error}", file=sys.stderr)
        return INTERRUPTED if isinstance(error, RunInterrupted) else 1
    except KeyboardInterrupt:
        return INTERRUPTED  # before the run began; Python's own exit may wait for threads
    except (ValueError, TypeError, OSError, RuntimeError, NotEnoughMemory) as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return EXIT_STATUS.get(type(wrong), EXIT_STATUS[ValueError])
    is_saved = _finish(run, given.save, for_parent)
    if run.outcome is Outcome.SERVER_UNRESPONSIVE and not for_parent:  # the parent reads the run
        print(f"error: {run.ended_by}", file=sys.stderr)
        return 1
    return 0 if is_saved else EXIT_STATUS[ValueError]


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


def _finish(run: Run, path: str | None, for_parent: bool) -> bool:
    """Report the run, and save it; return whether it is saved, if it should be."""
    if not for_parent:
        print(f"\r{'':70}\r{summary(run).to_string()}\n{audit(run)}")
    try:
        if path:
            run.save(path)
    except OSError as error:
        print(f"error: the run could not be saved: {error}", file=sys.stderr)
        return False
    return True


def _show(sample: Sample) -> None:
    if not sys.stderr.isatty():
        return  # a line that is written over and over belongs on a screen
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
