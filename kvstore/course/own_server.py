"""`python -m kvstore.course.own_server FILE`: a server of the learner, in a process of its own.

FILE has a function, its arguments and the address of a back end or None, as
`own_code.serving_own` wrote them. The function returns the running server and its port. The
process prints the address, and ends with its parent.
"""

import asyncio
import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from kvstore.client.channel import OPTIONS
from kvstore.subprocesses import listen
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub


def main() -> None:
    """Serve until the parent stops this process."""
    start, arguments, back_end = pickle.loads(Path(sys.argv[1]).read_bytes())
    if back_end is None:
        serve(start, arguments)
    else:
        asyncio.run(serve_before(back_end, start))


def serve(start: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Serve with the threads of a pool."""
    server, port = start(*arguments)
    stopped = threading.Event()
    listen(stopped.set)
    _print(port)
    stopped.wait()
    server.stop(0)


async def serve_before(back_end: str, start: Callable[..., Any]) -> None:
    """Serve on an event loop; the server asks the back end at this address."""
    async with grpc.aio.insecure_channel(back_end, options=OPTIONS) as channel:
        server, port = await start(KeyValueServiceStub(channel))
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        listen(lambda: loop.call_soon_threadsafe(stopped.set))
        _print(port)
        await stopped.wait()
        await server.stop(0)


def _print(port: int) -> None:
    print(f"127.0.0.1:{port}", flush=True)


if __name__ == "__main__":
    main()
