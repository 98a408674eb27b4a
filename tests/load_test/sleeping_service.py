"""A service in a process of its own that sheds, freezes or goes away: the load test has to see it.

The body of a request is a JSON object: `sleep_s`, or `every_s` for a stream of messages without
end, so far apart.
"""

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import grpc

from kvstore.client.workload import MethodCalls


def work(request, context):
    time.sleep(json.loads(request)["sleep_s"])
    return b"done"


def watch(request, context):
    while context.is_active():
        yield b"message"
        time.sleep(json.loads(request)["every_s"])


def main() -> None:
    workers, at_once, port = map(int, sys.argv[1:])
    server = grpc.server(
        ThreadPoolExecutor(workers),
        options=[("grpc.so_reuseport", 0)],
        maximum_concurrent_rpcs=at_once or None,
    )
    methods = {
        "Work": grpc.unary_unary_rpc_method_handler(work),
        "Watch": grpc.unary_stream_rpc_method_handler(watch),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.Service", methods),))
    print(f"127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{port}')}", flush=True)
    server.start()
    sys.stdin.read()  # it ends with the test that started it


@contextmanager
def sleeping_service(
    workers: int, *, at_once: int = 0, port: int = 0
) -> Iterator[tuple[str, "Popen[str]"]]:
    """Serve from another process; yield the address and the process. `at_once` sheds the rest."""
    command = [sys.executable, str(Path(__file__)), str(workers), str(at_once), str(port)]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def calls_of(method: str = "Work", **wanted: object) -> MethodCalls:
    """Return calls of a method with this request."""
    shape = "unary_stream" if method == "Watch" else "unary_unary"
    body = json.dumps(wanted).encode()
    return MethodCalls(method=f"t.Service/{method}", shape=shape, requests=((body,),))


if __name__ == "__main__":
    main()
