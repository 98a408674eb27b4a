"""Servers with a planted bug each: `python tests/long/planted.py BUG [arguments of the server]`.

A judge that finds nothing proves nothing. Each bug is one that real stores have had, and it shows
in one of fifty operations. This file is run as a program; only `BUGS` is imported elsewhere.
"""

import asyncio
import os
import random
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import grpc

from kvstore.protocol import CREATE, DELETE, OK, RETRIEVE, UPDATE
from kvstore.server import __main__ as command
from kvstore.server.store import Store
from kvstore.subprocesses import listen
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

CHANCE = random.Random()  # of each process its own: with one seed, all tries would be alike
RATE = 1 / 50
GROUP_RATE = 1 / 5
"""Of the groups that are written to the disk; only what is lost just before a kill shows."""


def happens(rate: float = RATE) -> bool:
    return CHANCE.random() < rate


Apply = Callable[[Store, int, bytes, bytes], tuple[int, bytes]]


class Bug(NamedTuple):
    """A planted bug, and what it needs to show."""

    plants: Callable[[], None]
    settings: dict[str, Any]
    kills: int = 0
    """Kills of the server without which the bug does no harm, at a time."""


BUGS: dict[str, Bug] = {}


def bug(kills: int = 0, **settings: Any) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Add a bug to the table, under the name of its function."""

    def add(plants: Callable[[], None]) -> Callable[[], None]:
        BUGS[plants.__name__.replace("_", " ")] = Bug(plants, settings, kills)
        return plants

    return add


# ---- the store -------------------------------------------------------------------------------


def store_bug(**settings: Any) -> Callable[[Any], Any]:
    """Add a bug of the store: a function of the usual `apply` and its arguments.

    Batches then apply one operation after the other with it.
    """

    def add(changed: Callable[..., tuple[int, bytes]]) -> Any:
        def plants() -> None:
            usual: Any = Store.apply
            Store.apply = lambda *of: changed(usual, *of)  # type: ignore[method-assign]
            _columns_with(lambda operations: operations)

        BUGS[changed.__name__.replace("_", " ")] = Bug(plants, settings)
        return changed

    return add


def _columns_with(change: Callable[[list[Any]], list[Any]]) -> None:
    """Let batches apply their operations as changed: each has a place, a kind, a key, a value."""

    def apply_columns(
        self: Store, kinds: bytes, keys: Sequence[bytes], values: Iterable[bytes]
    ) -> tuple[bytes, list[bytes]]:
        carried, statuses, found = iter(values), bytearray(len(kinds)), dict[int, bytes]()
        operations = [
            (place, kind, key, next(carried) if kind in (CREATE, UPDATE) else b"")
            for place, (kind, key) in enumerate(zip(kinds, keys, strict=True))
        ]
        for place, kind, key, value in change(operations):
            statuses[place], read = self.apply(kind, key, value)
            if kind == RETRIEVE and statuses[place] == OK:
                found[place] = read
        return bytes(statuses), [found[place] for place in sorted(found)]

    Store.apply_columns = apply_columns  # type: ignore[method-assign]


OLD: dict[bytes, bytes] = {}
LATE: list[bytes] = []
AGAIN: list[tuple[int, bytes, bytes]] = []


@store_bug()
def a_read_of_an_old_value(apply: Apply, store: Store, kind: int, key: bytes, value: bytes) -> Any:
    if kind == RETRIEVE and key in OLD and happens():
        return OK, OLD[key]
    _, before = apply(store, RETRIEVE, key, b"")
    if kind != RETRIEVE and before:
        OLD[key] = before
    return apply(store, kind, key, value)


@store_bug()
def an_update_is_dropped(apply: Apply, store: Store, kind: int, key: bytes, value: bytes) -> Any:
    if kind == UPDATE and happens():
        return apply(store, RETRIEVE, key, b"")[0], b""
    return apply(store, kind, key, value)


@store_bug()
def a_delete_that_is_done_later(
    apply: Apply, store: Store, kind: int, key: bytes, value: bytes
) -> Any:
    """It is acknowledged at once, and done with the next write of any key."""
    if kind == DELETE and happens():
        LATE.append(key)
        return OK, b""
    if kind != RETRIEVE:
        while LATE:
            apply(store, DELETE, LATE.pop(), b"")
    return apply(store, kind, key, value)


@store_bug()
def a_write_is_done_twice(apply: Apply, store: Store, kind: int, key: bytes, value: bytes) -> Any:
    """The second time after its acknowledgement, as a retry that is not filtered."""
    answer = apply(store, kind, key, value)
    if AGAIN and happens():  # when its client has its answer for long
        apply(store, *AGAIN.pop())
    elif kind == UPDATE and answer[0] == OK and happens():
        AGAIN.append((kind, key, value))
    return answer


@bug(writing="read_then_write", write_delay_s=0.002)
def a_write_ignores_the_writes_in_between() -> None:
    """The store of the lesson on lost updates: no code is changed."""


# ---- batches and streams -----------------------------------------------------------------------
# Without a disk time, the asyncio server applies the columns of a batch at once.


@bug(use_asyncio=True)
def a_batch_in_the_wrong_order() -> None:
    _columns_with(lambda operations: operations[::-1] if happens() else operations)


@bug(use_asyncio=True)
def statuses_of_a_batch_are_shifted() -> None:
    apply = Store.apply_columns

    def shifted(self: Store, *columns: Any) -> tuple[bytes, list[bytes]]:
        statuses, values = apply(self, *columns)
        return (statuses[1:] + statuses[:1] if happens() else statuses), values

    Store.apply_columns = shifted  # type: ignore[assignment]


@bug()
def two_replies_of_a_stream_are_exchanged() -> None:
    """Each has the number of the other request, wherever the server mixes them up."""
    add: Any = kvstore_pb2_grpc.add_KeyValueServiceServicer_to_server

    def exchanged(replies: Iterator[pb.PipelineResponse]) -> Iterator[pb.PipelineResponse]:
        held = None
        for reply in replies:
            if held is not None:
                held.id, reply.id = reply.id, held.id
                yield held
                held = None
            elif happens():
                held = reply
                continue
            yield reply
        if held is not None:
            yield held

    def add_changed(servicer: Any, server: Any) -> None:
        pipeline = servicer.Pipeline
        servicer.Pipeline = lambda requests, context: exchanged(pipeline(requests, context))
        add(servicer, server)

    kvstore_pb2_grpc.add_KeyValueServiceServicer_to_server = add_changed


# ---- the disk ----------------------------------------------------------------------------------


def _rows_with(change: Callable[[str, list[Any]], list[Any]]) -> None:
    """Let SQLite write other rows than it was given."""

    class Changed(sqlite3.Connection):
        def executemany(self, statement: str, rows: Iterable[Any]) -> sqlite3.Cursor:  # type: ignore[override]
            return super().executemany(statement, change(statement, list(rows)))

    connect: Any = sqlite3.connect
    sqlite3.connect = lambda *args, **more: connect(*args, factory=Changed, **more)  # type: ignore


@bug(kills=3, store="sqlite:", use_asyncio=True)
def a_group_is_acknowledged_and_not_written() -> None:
    _rows_with(lambda statement, rows: [] if happens(GROUP_RATE) else rows)


@bug(kills=3, store="sqlite:", use_asyncio=True)
def deletes_are_not_written() -> None:
    def dropped(statement: str, rows: list[Any]) -> list[Any]:
        return [] if statement.lstrip().lower().startswith("delete") and happens(1 / 2) else rows

    _rows_with(dropped)


# ---- the back end ------------------------------------------------------------------------------


REPEATED = ("/Create", "/Update", "/Txn", "/Put", "/DeleteRange")
LATER_S = 0.01


class Repeater(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Forwards every unary call, and sends some writes a second time, after their answer."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self._again: set[asyncio.Task[None]] = set()

    def service(self, details: Any) -> Any:
        """Return a handler for any method."""
        call = self._channel.unary_unary(details.method)

        async def forward(request: bytes, context: Any) -> Any:
            try:
                reply = await call(request, timeout=context.time_remaining())
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details())
            if details.method.endswith(REPEATED) and happens():
                task = asyncio.create_task(again(request))
                self._again.add(task)
                task.add_done_callback(self._again.discard)
            return reply

        async def again(request: bytes) -> None:
            await asyncio.sleep(LATER_S)
            try:
                await call(request, timeout=5)
            except grpc.aio.AioRpcError:
                pass  # such as a create of a key that exists by now

        return grpc.unary_unary_rpc_method_handler(forward)


async def repeat(target: str) -> None:
    """Forward calls to a server until the end of standard input; print the own address."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    async with grpc.aio.insecure_channel(target) as channel:
        server.add_generic_rpc_handlers((Repeater(channel),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        listen(lambda: loop.call_soon_threadsafe(ended.set))
        print(f"127.0.0.1:{port}", flush=True)
        await ended.wait()
        await server.stop(None)


def main(arguments: Sequence[str]) -> int:
    """Repeat the writes to a server, or plant a bug and run the usual command of the server."""
    if arguments[0] == "repeat":
        asyncio.run(repeat(arguments[1]))
        return 0
    BUGS[arguments[0]].plants()
    return command.main(arguments[1:])


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # as the server does, without waiting for threads of gRPC
