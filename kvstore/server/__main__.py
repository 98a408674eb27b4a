"""`python -m kvstore.server`: serve until Ctrl-C, SIGTERM or the end of the parent."""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial

from kvstore.lifeline import end_with_parent
from kvstore.server.serve import serve
from kvstore.server.settings import LOCKINGS, ServerSettings

DEFAULT = ServerSettings()


def parser() -> argparse.ArgumentParser:
    """The command's options; their defaults are those of `ServerSettings`."""
    parse = argparse.ArgumentParser(
        prog="python -m kvstore.server",
        description="A gRPC key-value server to measure. The first line it prints is its address.",
    )
    add = parse.add_argument
    add("--read-delay-s", type=float, default=DEFAULT.read_delay_s, metavar="S",
        help="simulated disk of a retrieve, in seconds (default %(default)s)")  # fmt: skip
    add("--write-delay-s", type=float, default=DEFAULT.write_delay_s, metavar="S",
        help="simulated disk of a create, update or delete, in seconds (default %(default)s)")  # fmt: skip
    add("--locking", choices=LOCKINGS, default=DEFAULT.locking,
        help="one lock for all operations, or one for each key written (default %(default)s)")  # fmt: skip
    how = parse.add_mutually_exclusive_group()
    how.add_argument("--threads", type=int, default=DEFAULT.threads, metavar="N",
                     help="size of the thread pool (default %(default)s)")  # fmt: skip
    how.add_argument("--asyncio", action="store_true", help="serve from one event loop instead")
    add("--port", type=int, default=DEFAULT.port, metavar="N",
        help="port on 127.0.0.1; 0 takes a free one (default %(default)s)")  # fmt: skip
    add("--max-concurrent-rpcs", type=int, default=None, metavar="N",
        help="refuse calls beyond this many with RESOURCE_EXHAUSTED (default: accept all)")  # fmt: skip
    add("--station-times", action="store_true",
        help="tell callers in trailing metadata where the server spent its time")  # fmt: skip
    add("--identity", default="", help="a word that clients can check; GetServerStatus tells it")
    add("--end-with-parent", type=int, default=None, metavar="PID",
        help="end as soon as standard input closes or this parent process is gone")  # fmt: skip
    return parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parse = parser()
    options = parse.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    try:
        settings = ServerSettings(
            read_delay_s=options.read_delay_s,
            write_delay_s=options.write_delay_s,
            locking=options.locking,
            threads=options.threads,
            use_asyncio=options.asyncio,
            port=options.port,
            max_concurrent_rpcs=options.max_concurrent_rpcs,
            station_times=options.station_times,
        )
    except ValueError as wrong:
        parse.error(str(wrong))
    try:
        serve(settings, options.identity, partial(_ready, options.end_with_parent))
    except OSError as refused:
        print(f"error: {refused}", file=sys.stderr)
        return 1
    return 0


def _ready(parent_pid: int | None, port: int, stop: Callable[[], object]) -> None:
    if parent_pid is not None:
        end_with_parent(parent_pid, stop)
    print(f"127.0.0.1:{port}", flush=True)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: it would wait for every thread of the pool to finish what is queued.
    os._exit(status)
