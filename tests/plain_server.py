"""A key-value server as another make would be: the contract's methods, and nothing beside them.

`python tests/plain_server.py` prints its address and serves until its input ends. With the argument
`exchange` it exchanges the contents of each two replies of a stream.
"""

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from subprocess import PIPE, Popen

import grpc

from kvstore.server.admission import MeasuredPool
from kvstore.server.counts import Counts
from kvstore.server.service import KeyValueService
from kvstore.server_settings import ServerSettings
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc


@contextmanager
def plain_server(*arguments: str) -> Iterator[tuple[str, "Popen[str]"]]:
    """Its address and its process, which may end before the block does."""
    with Popen(
        [sys.executable, __file__, *arguments], stdin=PIPE, stdout=PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


class Exchanging(KeyValueService):
    """Answers each request of a stream with the reply to another."""

    def Pipeline(
        self, request_iterator: Iterable[pb.PipelineRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.PipelineResponse]:
        """Exchange the ids of each two replies, in the order in which they are ready."""
        waiting = None
        for reply in super().Pipeline(request_iterator, context):
            if waiting is None:
                waiting = reply
                continue
            waiting.id, reply.id = reply.id, waiting.id
            yield from (waiting, reply)
            waiting = None


def main() -> None:
    """Serve on a free port until standard input ends."""
    settings = ServerSettings(read_delay_s=0.002, write_delay_s=0.004, locking="per_key")
    server = grpc.server(ThreadPoolExecutor(64), options=[("grpc.so_reuseport", 0)])
    make = Exchanging if "exchange" in sys.argv else KeyValueService
    service = make(settings, Counts(), MeasuredPool(64, "plain"))
    kvstore_pb2_grpc.add_KeyValueServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"127.0.0.1:{port}", flush=True)
    sys.stdin.read()
    server.stop(0.05).wait()  # what is not done by then is cut off


if __name__ == "__main__":
    main()
