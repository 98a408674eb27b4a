"""`python -m kvstore.client`: make a run against the course's own service.

Started by `run_in_process`, it makes the run that its parent has planned. The load test of any
other service is `python -m kvstore.load_test`.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kvstore.client import load, strategies
from kvstore.client.apart import work_for_parent
from kvstore.client.channel import Target, Tls
from kvstore.client.errors import (
    NotEnoughMemory,
    RunFailed,
    RunInterrupted,
    ServerNotReached,
    TlsMismatch,
    WrongServer,
)
from kvstore.client.fleet import fleet_of
from kvstore.client.plan import RunOptions
from kvstore.client.workload import Workload
from kvstore.credentials import read_token
from kvstore.flags import add_flags, given_flags
from kvstore.measure import Outcome, Run
from kvstore.measure.audit import audit
from kvstore.measure.recorder import Sample
from kvstore.measure.summary import summary
from kvstore.subprocesses import INTERRUPTED, has_parent


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


BAD_INPUT = 2
EXIT_STATUS = {ServerNotReached: 3, WrongServer: 4, TlsMismatch: 5}
"""Exit status when the run cannot begin, by error; that of others is `BAD_INPUT`."""

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
    add("--strategy", choices=BY_NAME, default="tasks",
        help="how calls are kept in flight (default: tasks)")  # fmt: skip
    add_flags(parse, RunOptions, {"duration_s": "--seconds", "rate_per_s": "--rate"})
    add_tls_arguments(parse)
    add("--fleet", "--workers", default=None, metavar="FLEET",
        help="several load generators: a number of local processes, or the address of a Dask"
        " scheduler, such as tcp://10.0.0.1:8786")  # fmt: skip
    add("--workload", type=json.loads, default={}, metavar="JSON",
        help='settings of the workload, such as {"seed": 1, "value_bytes_mean": 1024}')  # fmt: skip
    add("--save", default=None, metavar="FILE", help="write the run to this file")
    return parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    if has_parent():
        work_for_parent(Path(sys.argv[1]))
        return 0
    given = parser().parse_args(arguments)
    try:
        run = _run(given)
    except (RunInterrupted, RunFailed) as error:
        _finish(error.run, given.save)  # with a status of its own, saved or not
        if isinstance(error, RunInterrupted):
            return INTERRUPTED
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED  # before the run began; Python's own exit may wait for threads
    except (ValueError, TypeError, OSError, RuntimeError, NotEnoughMemory) as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return EXIT_STATUS.get(type(wrong), BAD_INPUT)
    is_saved = _finish(run, given.save)
    if run.outcome is Outcome.SERVER_UNRESPONSIVE:
        print(f"error: {run.ended_by}", file=sys.stderr)
        return 1
    return 0 if is_saved else BAD_INPUT


def _run(given: argparse.Namespace) -> Run:
    options = RunOptions(**given_flags(given, RunOptions))
    if options.duration_s is None and options.calls is None:
        options = replace(options, duration_s=10.0)
    return load.run(
        BY_NAME[given.strategy],
        Target(given.address, tls=tls_from(given)),
        Workload(**given.workload),
        options,
        fleet=fleet_of(given.fleet),
        on_sample=_show,
    )


def _finish(run: Run, path: str | None) -> bool:
    """Report the run, and save it; return whether it is saved, if it should be."""
    print(f"\r{'':70}\r{summary(run)}\n{audit(run)}")
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


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads of cancelled calls must not hold the process back
