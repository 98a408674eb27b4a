"""Our server in its own process, or our client in this process, with a changed setting.

`python -m benchmarks.peers.changed CHANGE ...` is `python -m kvstore.server ...` with the change.
Only benchmarks change these settings: every setting for users has its own argument.
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
from kvstore.server import Server, ServerSettings
from kvstore.server import __main__ as command
from kvstore.server.launch import START_S, ServerDidNotStart
from kvstore.subprocesses import child

ARGUMENTS = ("--use-asyncio", "--read-delay-s=0", "--write-delay-s=0", "--locking=per_key")
SETTINGS = ServerSettings(
    use_asyncio=True, read_delay_s=0, write_delay_s=0, locking="per_key", settle_garbage=True
)
"""The settings that these arguments give."""

FACTORY, LIMITS = "event_loop_factory", "channel_options"
"""The names of the two module attributes that are replaced here."""

Options = Sequence[tuple[str, int]]
LoopFactory = Callable[[], asyncio.AbstractEventLoop] | None


class Change(NamedTuple):
    """A difference from the usual settings."""

    without: tuple[str, ...] = ()
    """Channel options that are left out."""
    added: tuple[str, int] | None = None
    """A channel option that is set."""
    plain_loop: bool = False
    """Python's own event loop in place of uvloop's."""
    leave_garbage: bool = False
    """Leave the garbage collector with the settings of Python."""

    def options(self, usual: Options) -> list[tuple[str, int]]:
        """Return the channel options with the change."""
        kept = [(name, value) for name, value in usual if name not in self.without]
        return kept if self.added is None else [*kept, (self.added[0], self.added[1])]

    def loop_factory(self, usual: LoopFactory) -> LoopFactory:
        """Return the factory of event loops with the change."""
        return None if self.plain_loop else usual


@contextmanager
def changed_client(change: Change) -> Iterator[None]:
    """Apply the change to the clients of this process while the block lasts."""
    options = list(channel.OPTIONS)
    factory: Callable[[], LoopFactory] = getattr(client, FACTORY)
    channel.OPTIONS[:] = change.options(options)  # in place: others refer to this list
    setattr(client, FACTORY, lambda: change.loop_factory(factory()))
    try:
        yield
    finally:
        channel.OPTIONS[:] = options
        setattr(client, FACTORY, factory)


@contextmanager
def changed_server(change: Change) -> Iterator[Server]:
    """Yield a server with the change, in its own process. Raises `ServerDidNotStart`."""
    identity = secrets.token_hex(8)
    arguments = [json.dumps(change), *ARGUMENTS, "--identity", identity]
    if change.leave_garbage:
        arguments.append("--no-settle-garbage")
    with child("benchmarks.peers.changed", arguments) as process:
        address = process.first_line(START_S)
        if not address:
            raise ServerDidNotStart(process.error_text())
        yield Server(address, identity, SETTINGS, process)


def main(arguments: Sequence[str]) -> int:
    """Serve with the change; return the exit status."""
    change = Change(*json.loads(arguments[0]))
    usual: Callable[[ServerSettings], Options] = getattr(command, LIMITS)
    factory: Callable[[], LoopFactory] = getattr(command, FACTORY)
    setattr(command, LIMITS, lambda settings: change.options(usual(settings)))
    setattr(command, FACTORY, lambda: change.loop_factory(factory()))
    return command.main(arguments[1:])


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)  # as the server does, without waiting for threads of gRPC
