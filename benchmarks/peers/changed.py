"""Our server in a process of its own, or our client in this one, with a setting changed.

`python -m benchmarks.peers.changed CHANGE ...` is `python -m kvstore.server ...` with the change.
Only benchmarks need this: what is meant to be changed has an argument of its own.
"""

import asyncio
import json
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from kvstore.client import channel, client
from kvstore.lifeline import child
from kvstore.server import Server, ServerSettings, serve
from kvstore.server.__main__ import main as serve_here
from kvstore.server.process import START_S, ServerDidNotStart

ARGUMENTS = ("--asyncio", "--read-delay-s=0", "--write-delay-s=0", "--locking=per_key")
SETTINGS = ServerSettings(
    use_asyncio=True, read_delay_s=0, write_delay_s=0, locking="per_key", settle_garbage=True
)
"""What the arguments come to."""

FACTORY, LIMITS = "event_loop_factory", "channel_options"
"""What the modules call the two that are changed here."""

Options = Sequence[tuple[str, int]]
LoopFactory = Callable[[], asyncio.AbstractEventLoop] | None


class Change(NamedTuple):
    """What is done in another way than usual."""

    without: tuple[str, ...] = ()
    """Channel options that are left out."""
    tried: tuple[str, int] | None = None
    """A channel option that is set."""
    plain_loop: bool = False
    """Python's own event loop in place of uvloop's."""
    leave_garbage: bool = False
    """The collector as Python has it."""

    def options(self, usual: Options) -> list[tuple[str, int]]:
        """Channel options with the change."""
        kept = [(name, value) for name, value in usual if name not in self.without]
        return kept if self.tried is None else [*kept, (self.tried[0], self.tried[1])]

    def loop_factory(self, usual: LoopFactory) -> LoopFactory:
        """What makes event loops with the change."""
        return None if self.plain_loop else usual


@contextmanager
def changed_client(change: Change) -> Iterator[None]:
    """Clients of this process have the change for as long as the block lasts."""
    options = list(channel.OPTIONS)
    factory: Callable[[], LoopFactory] = getattr(client, FACTORY)
    channel.OPTIONS[:] = change.options(options)  # in place: others hold this very list
    setattr(client, FACTORY, lambda: change.loop_factory(factory()))
    try:
        yield
    finally:
        channel.OPTIONS[:] = options
        setattr(client, FACTORY, factory)


@contextmanager
def changed_server(change: Change) -> Iterator[Server]:
    """A server with the change, in a process of its own. Raises `ServerDidNotStart`."""
    identity = secrets.token_hex(8)
    arguments = [json.dumps(change), *ARGUMENTS, "--identity", identity]
    if change.leave_garbage:
        arguments.append("--leave-garbage")
    with child("benchmarks.peers.changed", arguments) as process:
        address = process.first_line(START_S)
        if not address:
            raise ServerDidNotStart(process.error_text())
        yield Server(address, identity, SETTINGS, process)


def main(arguments: Sequence[str]) -> int:
    """Serve with the change; return the exit status."""
    change = Change(*json.loads(arguments[0]))
    usual: Callable[[ServerSettings], Options] = getattr(serve, LIMITS)
    factory: Callable[[], LoopFactory] = getattr(serve, FACTORY)
    setattr(serve, LIMITS, lambda settings: change.options(usual(settings)))
    setattr(serve, FACTORY, lambda: change.loop_factory(factory()))
    return serve_here(arguments[1:])


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)  # as the server does: no thread of gRPC is waited for
