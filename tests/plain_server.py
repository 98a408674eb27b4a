"""A key-value server as another make would be: the contract's methods, and nothing beside them.

`python tests/plain_server.py` prints its address and serves until its input ends.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from subprocess import PIPE, Popen

import grpc

from kvstore.server.admission import MeasuredPool
from kvstore.server.counts import Counts
from kvstore.server.service import KeyValueService
from kvstore.server.settings import ServerSettings
from kvstore.v1 import kvstore_pb2_grpc


@contextmanager
def plain_server() -> Iterator[tuple[str, "Popen[str]"]]:
    """Its address and its process, which may end before the block does."""
    with Popen([sys.executable, __file__], stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def main() -> None:
    """Serve on a free port until standard input ends."""
    settings = ServerSettings(read_delay_s=0.002, write_delay_s=0.004, locking="per_key")
    server = grpc.server(ThreadPoolExecutor(64), options=[("grpc.so_reuseport", 0)])
    service = KeyValueService(settings, Counts(), MeasuredPool(64, "plain"))
    kvstore_pb2_grpc.add_KeyValueServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"127.0.0.1:{port}", flush=True)
    sys.stdin.read()
    server.stop(0.05).wait()  # what is not done by then is cut off


if __name__ == "__main__":
    main()
