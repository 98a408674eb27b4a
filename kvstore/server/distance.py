"""A long wire: a TCP proxy in a process of its own that delivers everything later.

`with at_distance(server, round_trip_s=0.050) as far:` is used as a server is. A piece of data that
comes in leaves half a round trip later, in its order, as on a cable: at most
`MOST_ON_ITS_WAY` bytes are on their way in one direction, and then TCP holds the sender back. The
proxy knows nothing of HTTP/2 or gRPC.
"""

import argparse
import asyncio
import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

from kvstore.server.launch import START_S, Server, ServerDidNotStart
from kvstore.subprocesses import child, listen

PIECE_BYTES = 65_536
"""At most so much is read at once."""
MOST_ON_ITS_WAY = 64 << 20
"""Bytes on their way in one direction of a connection; the peer waits beyond."""


@contextmanager
def at_distance(server: Server, *, round_trip_s: float) -> Iterator[Server]:
    """Yield the server as from afar: `round_trip_s` seconds there and back.

    Raises:
        ValueError: the round trip is negative.
        ServerDidNotStart: with the proxy's error output when it could not start.
    """
    if not 0 <= round_trip_s < float("inf"):
        raise ValueError(f"round_trip_s must be 0 or more, in seconds, got {round_trip_s!r}")
    arguments = [f"--to={server.address}", f"--delay={round_trip_s / 2}"]
    with child("kvstore.server.distance", arguments) as proxy:
        address = proxy.first_line(START_S)
        if not address:
            raise ServerDidNotStart(f"the proxy did not start: {proxy.error_text()}")
        yield dataclasses.replace(server, address=address)


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter, delay_s: float) -> None:
    """Deliver what comes from `source` to `sink`, each piece `delay_s` seconds later."""
    loop = asyncio.get_running_loop()
    on_its_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(MOST_ON_ITS_WAY // PIECE_BYTES)

    async def receive() -> None:
        try:
            while piece := await source.read(PIECE_BYTES):
                await on_its_way.put((loop.time() + delay_s, piece))
        except ConnectionError:
            pass  # what was on its way still arrives
        await on_its_way.put((loop.time() + delay_s, b""))

    receiving = asyncio.create_task(receive())
    try:
        while True:
            due_s, piece = await on_its_way.get()
            await asyncio.sleep(due_s - loop.time())
            if not piece:
                break
            sink.write(piece)
            await sink.drain()
        sink.write_eof()
    except (ConnectionError, OSError):
        pass  # the other end has gone
    finally:
        receiving.cancel()


async def _serve(host: str, port: int, delay_s: float) -> None:
    connections: set[asyncio.Task[None]] = set()

    async def connected(near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            far, far_out = await asyncio.open_connection(host, port)
        except OSError:
            near_out.close()
            return
        try:
            await asyncio.gather(_carry(near, far_out, delay_s), _carry(far, near_out, delay_s))
        finally:
            for each in (near_out, far_out):
                each.close()
            connections.discard(task)

    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    listen(lambda: loop.call_soon_threadsafe(stopped.set))
    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=PIECE_BYTES)
    print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await stopped.wait()
    server.close()
    for each in connections:
        each.cancel()


def main() -> None:
    """Carry connections until the parent stops this process."""
    parser = argparse.ArgumentParser(prog="python -m kvstore.server.distance", description=__doc__)
    parser.add_argument("--to", required=True, help="host:port of the server")
    parser.add_argument("--delay", type=float, required=True, help="seconds in each direction")
    options = parser.parse_args()
    host, _, port = options.to.rpartition(":")
    asyncio.run(_serve(host, int(port), options.delay))


if __name__ == "__main__":
    main()
