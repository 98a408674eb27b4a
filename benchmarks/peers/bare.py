"""Run a bare loop in its own process, like the clients with which it is compared."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import NamedTuple

import psutil

from benchmarks.peers.loops import LOOPS, LoopOptions, new_key, run_loop
from kvstore import gc_control
from kvstore.server import Server
from kvstore.subprocesses import child, interrupt_main, listen

START_AND_END_S = 30.0
"""Seconds in addition to the run for the process to start and the last replies to arrive."""


class Bare(NamedTuple):
    """What a bare loop measured."""

    per_s: float
    """Operations per second."""
    client_cpu_s: float
    """CPU seconds for each operation."""
    server_cpu_s: float


def bare(
    shape: str, server: Server, *, in_flight: int, seconds: float, streams: int = 1, batch: int = 1
) -> Bare:
    """Retrieve one small value for `seconds` in a loop of this shape, one of `LOOPS`.

    Raises `RuntimeError` with the output of the loop if it fails.
    """
    watched = psutil.Process(server.pid)
    arguments = [
        shape, server.address,
        f"--in-flight={in_flight}", f"--seconds={seconds}",
        f"--streams={streams}", f"--batch={batch}",
    ]  # fmt: skip
    before = watched.cpu_times()
    with child("benchmarks.peers.bare", arguments) as process:
        line = process.first_line(seconds + START_AND_END_S)
        after = watched.cpu_times()
        if not line:
            raise RuntimeError(f"the bare {shape} loop ended early: {process.error_text()}")
    operations, took_s, cpu_s = json.loads(line)
    server_s = after.user + after.system - before.user - before.system
    return Bare(operations / took_s, cpu_s / operations, server_s / operations)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one loop; print operations answered, seconds and CPU seconds as JSON."""
    parse = argparse.ArgumentParser(prog="python -m benchmarks.peers.bare")
    parse.add_argument("shape", choices=LOOPS)
    parse.add_argument("address")
    for name in ("in-flight", "streams", "batch"):
        parse.add_argument(f"--{name}", type=int, default=1)
    parse.add_argument("--seconds", type=float, default=1.0)
    options = parse.parse_args(arguments)
    listen(interrupt_main)
    loop_options = LoopOptions(
        options.address, new_key(options.address), options.seconds,
        in_flight=options.in_flight, streams=options.streams, batch=options.batch,
    )  # fmt: skip
    with gc_control.settled():
        print(json.dumps(run_loop(options.shape, loop_options)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
