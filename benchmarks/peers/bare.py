"""A bare loop in a process of its own, as the clients that it is compared with."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import NamedTuple

import psutil

from benchmarks.peers.loops import LOOPS, Asked, made, new_key
from kvstore import garbage
from kvstore.lifeline import child, end_with_parent, interrupt_main
from kvstore.server import Server

START_AND_END_S = 30.0
"""Seconds beyond the run itself for the process to come up and the last answers to come."""


class Bare(NamedTuple):
    """What a bare loop did."""

    per_s: float
    """Operations per second."""
    client_cpu_s: float
    """Processor seconds for each operation."""
    server_cpu_s: float


def bare(
    shape: str, server: Server, *, in_flight: int, seconds: float, streams: int = 1, batch: int = 1
) -> Bare:
    """Retrieve one small value for so long through a loop of this shape, one of `LOOPS`.

    Raises `RuntimeError` with the loop's own words when it failed.
    """
    watched = psutil.Process(server.pid)
    arguments = [
        shape, server.address,
        f"--in-flight={in_flight}", f"--seconds={seconds}",
        f"--streams={streams}", f"--batch={batch}",
    ]  # fmt: skip
    before = watched.cpu_times()
    with child("benchmarks.peers.bare", arguments) as process:
        told = process.first_line(seconds + START_AND_END_S)
        after = watched.cpu_times()
        if not told:
            raise RuntimeError(f"the bare {shape} loop ended early: {process.error_text()}")
    operations, took_s, cpu_s = json.loads(told)
    server_s = after.user + after.system - before.user - before.system
    return Bare(operations / took_s, cpu_s / operations, server_s / operations)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one loop; print operations answered, seconds, processor seconds as JSON."""
    parse = argparse.ArgumentParser(prog="python -m benchmarks.peers.bare")
    parse.add_argument("shape", choices=LOOPS)
    parse.add_argument("address")
    for name in ("in-flight", "streams", "batch"):
        parse.add_argument(f"--{name}", type=int, default=1)
    parse.add_argument("--seconds", type=float, default=1.0)
    parse.add_argument("--end-with-parent", type=int, required=True, metavar="PID")
    options = parse.parse_args(arguments)
    end_with_parent(options.end_with_parent, interrupt_main)
    asked = Asked(
        options.address, new_key(options.address), options.seconds,
        in_flight=options.in_flight, streams=options.streams, batch=options.batch,
    )  # fmt: skip
    with garbage.settled():
        print(json.dumps(made(options.shape, asked)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
