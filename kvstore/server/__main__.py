"""`python -m kvstore.server`: serve until Ctrl-C, SIGTERM or the end of the parent process."""

import argparse
import ipaddress
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from kvstore import gc_control, transport
from kvstore.flags import add_flags, given_flags
from kvstore.parent import listen
from kvstore.server.serve import serve
from kvstore.server.settings import ServerSettings


def parser() -> argparse.ArgumentParser:
    """Return the command line: a flag for each field of `ServerSettings`, and some besides."""
    parse = argparse.ArgumentParser(
        prog="python -m kvstore.server",
        description="A gRPC key-value server to measure. The first line it prints is its address.",
    )
    add_flags(parse, ServerSettings)
    parse.add_argument(
        "--settings",
        type=ServerSettings.from_json,
        default=ServerSettings(),
        metavar="JSON",
        help="all settings at once, as ServerSettings.to_json writes them",
    )
    parse.add_argument(
        "--identity", default="", help="a word that GetServerStatus reports, for clients to check"
    )
    return parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parse = parser()
    namespace = parse.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    flags = given_flags(namespace, ServerSettings)
    if flags.get("use_asyncio") and "threads" in flags:
        parse.error("--threads is the size of a pool, and --use-asyncio has none: give one of them")
    try:
        settings: ServerSettings = replace(namespace.settings, **flags)
    except ValueError as error:
        parse.error(str(error))
    if arguments is None:
        _restart_with(settings.transport)
    try:
        serve(settings, namespace.identity, partial(_print_address, settings))
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _restart_with(name: str) -> None:
    """Run this command again with the profile in its environment: gRPC is imported by now."""
    environment = transport.environment(name)
    if environment.get(transport.EXPERIMENTS) == os.environ.get(transport.EXPERIMENTS):
        return
    if sys.platform == "win32":  # a new process would have another process id than its parent knows
        print(f"note: set {transport.CHOICE}={name} before the start", file=sys.stderr)
        return
    command = [sys.executable, "-m", "kvstore.server", *sys.argv[1:]]
    os.execve(sys.executable, command, environment)


def _print_address(settings: ServerSettings, port: int, stop: Callable[[], object]) -> None:
    listen(stop)
    if settings.settle_garbage:
        gc_control.settle()
    address = ipaddress.ip_address(settings.listen)
    if address.is_unspecified:  # every address: a client on this machine takes the loopback's
        print(f"listening at port {port} of every address", file=sys.stderr, flush=True)
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
    print(f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}", flush=True)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: it would wait until every thread of the pool has finished what is queued.
    os._exit(status)
