"""`python -m kvstore.server`: serve until Ctrl-C, SIGTERM or the end of the parent."""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kvstore import garbage
from kvstore.lifeline import end_with_parent
from kvstore.server.serve import serve
from kvstore.server.settings import LOCKINGS, WRITINGS, ServerSettings

DEFAULT = ServerSettings()


def parser() -> argparse.ArgumentParser:
    """The command's options; their defaults are those of `ServerSettings`."""
    parse = argparse.ArgumentParser(
        prog="python -m kvstore.server",
        description="A gRPC key-value server to measure. The first line it prints is its address.",
    )

    def add(name: str, says: str, **how: Any) -> None:
        parse.add_argument(name, help=says, **how)

    seconds = {"type": float, "metavar": "S"}
    number = {"type": int, "metavar": "N"}
    add("--read-delay-s", "simulated disk of a retrieve (default %(default)s)",
        default=DEFAULT.read_delay_s, **seconds)  # fmt: skip
    add("--write-delay-s", "simulated disk of a create, update or delete (default %(default)s)",
        default=DEFAULT.write_delay_s, **seconds)  # fmt: skip
    add("--locking", "one lock for all operations, one for each key while its entry changes, or"
        " one for each key through the disk time (default %(default)s)",
        choices=LOCKINGS, default=DEFAULT.locking)  # fmt: skip
    add("--writing", "how a write gets from the value it saw to the one it stores, with the disk in"
        " between (default %(default)s)", choices=WRITINGS, default=DEFAULT.writing)  # fmt: skip
    add("--threads", f"size of the thread pool (default {DEFAULT.threads})",
        default=None, **number)  # fmt: skip
    add("--asyncio", "serve from one event loop instead of a pool", action="store_true")
    add("--port", "port on 127.0.0.1; 0 takes a free one (default %(default)s)",
        default=DEFAULT.port, **number)  # fmt: skip
    add("--max-concurrent-rpcs", "refuse calls beyond this many (default: accept all)",
        default=None, **number)  # fmt: skip
    add("--max-streams", "calls that one connection may have open at once (default: no limit)",
        default=None, **number)  # fmt: skip
    add("--no-refuse-streams", "make calls beyond --max-streams wait: no overload protection",
        dest="refuse_streams", action="store_false")  # fmt: skip
    add("--group-commit", "a batch pays the disk once, not once for each operation",
        action="store_true")  # fmt: skip
    add("--time-needed-s", "drop a call that has less than this left when its work would begin"
        " (default %(default)s)", default=DEFAULT.time_needed_s, **seconds)  # fmt: skip
    add("--stall-s", "the disk stands still for this long ... (default %(default)s)",
        default=DEFAULT.stall_s, **seconds)  # fmt: skip
    add("--stall-every-s", "... at the beginning of every so many seconds (default %(default)s)",
        default=DEFAULT.stall_every_s, **seconds)  # fmt: skip
    add("--station-times", "tell callers in trailing metadata where the server spent its time",
        action="store_true")  # fmt: skip
    add("--metadata-work", "read all metadata of each call and write it out, so often"
        " (default %(default)s)", default=DEFAULT.metadata_work, **number)  # fmt: skip
    add("--default-limits", "leave gRPC's own caps on calls that wait: a burst loses some",
        action="store_true")  # fmt: skip
    add("--leave-garbage", "leave Python's collector as it is", action="store_true")
    add("--data-dir", "keep all in this folder: a write is on the disk before it is answered",
        metavar="FOLDER", default=None)  # fmt: skip
    add("--back-end", "ask this key-value server for every answer, and keep nothing here; several,"
        " with commas between, are replicas", metavar="HOST:PORT", default=None)  # fmt: skip
    add("--write-quorum", "how many replicas must have answered a write before it is answered",
        default=None, **number)  # fmt: skip
    add("--identity", "a word that clients can check; GetServerStatus tells it", default="")
    add("--end-with-parent", "end when standard input closes or this process is gone",
        type=int, metavar="PID", default=None)  # fmt: skip
    return parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parse = parser()
    options = parse.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    if options.asyncio and options.threads is not None:
        parse.error("--threads sizes a pool, and --asyncio serves without one: give one of them")
    try:
        settings = ServerSettings(
            read_delay_s=options.read_delay_s,
            write_delay_s=options.write_delay_s,
            locking=options.locking,
            writing=options.writing,
            threads=DEFAULT.threads if options.threads is None else options.threads,
            use_asyncio=options.asyncio,
            port=options.port,
            max_concurrent_rpcs=options.max_concurrent_rpcs,
            max_streams=options.max_streams,
            refuse_streams=options.refuse_streams,
            group_commit=options.group_commit,
            time_needed_s=options.time_needed_s,
            stall_s=options.stall_s,
            stall_every_s=options.stall_every_s,
            station_times=options.station_times,
            metadata_work=options.metadata_work,
            default_limits=options.default_limits,
            settle_garbage=not options.leave_garbage,
            data_dir=options.data_dir,
            back_end=options.back_end,
            write_quorum=options.write_quorum,
        )
    except ValueError as wrong:
        parse.error(str(wrong))
    try:
        serve(settings, options.identity, partial(_ready, settings, options.end_with_parent))
    except OSError as refused:
        print(f"error: {refused}", file=sys.stderr)
        return 1
    return 0


def _ready(
    settings: ServerSettings, parent_pid: int | None, port: int, stop: Callable[[], object]
) -> None:
    if parent_pid is not None:
        end_with_parent(parent_pid, stop)
    if settings.settle_garbage:
        garbage.settle()
    print(f"127.0.0.1:{port}", flush=True)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: it would wait for every thread of the pool to finish what is queued.
    os._exit(status)
