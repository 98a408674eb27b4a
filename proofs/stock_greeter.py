"""A greeter on grpcio as it is: `with greeter("threads") as address`, or "asyncio".

Its process prints its address and serves until its input ends. No option of gRPC is set. With the
folder of a certificate, its connections are encrypted.
"""

import asyncio
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from kvstore.credentials import access_from
from kvstore.subprocesses import child

SERVICE = "helloworld.Greeter"
METHOD = f"/{SERVICE}/SayHello"
START_S = 20.0


@contextmanager
def greeter(stack: str, tls: str | None = None) -> Iterator[str]:
    """Yield the address of a greeter in a process of its own, on "threads" or "asyncio"."""
    with child("proofs.stock_greeter", [stack, *filter(None, [tls])]) as process:
        address = process.first_line(START_S)
        if not address:
            raise RuntimeError(f"the stock greeter did not start: {process.error_text()}")
        yield address


def main() -> None:
    if sys.argv[1] == "asyncio":
        asyncio.run(_serve_on_a_loop())
        return
    server = grpc.server(ThreadPoolExecutor(max_workers=10))
    server.add_generic_rpc_handlers((_handler(lambda request, context: request),))
    port = _listen(server)
    server.start()
    print(f"127.0.0.1:{port}", flush=True)
    sys.stdin.read()
    server.stop(None).wait()


async def _serve_on_a_loop() -> None:
    async def hello(request: bytes, context: Any) -> bytes:
        return request

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_handler(hello),))
    port = _listen(server)
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(None)


def _listen(server: Any) -> int:
    if not sys.argv[2:]:
        return int(server.add_insecure_port("127.0.0.1:0"))
    access = access_from(sys.argv[2])
    return int(server.add_secure_port("127.0.0.1:0", access.credentials))


def _handler(hello: Any) -> grpc.GenericRpcHandler:
    method = grpc.unary_unary_rpc_method_handler(hello)
    return grpc.method_handlers_generic_handler(SERVICE, {"SayHello": method})


if __name__ == "__main__":
    main()
