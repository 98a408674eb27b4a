"""Measure how many stream requests and replies a process can build, encode and decode per second.

It runs in its own process, because protobuf chooses its implementation when it is imported.
"""

import time

from kvstore.protocol import OK, RETRIEVE
from kvstore.v1 import kvstore_pb2 as pb

OPERATIONS = 128
MESSAGES = 200


def main() -> None:
    """Print operations per second, and CPU seconds for each operation."""
    kinds, keys = bytes([RETRIEVE]) * OPERATIONS, [bytes(8)] * OPERATIONS
    statuses, values = bytes([OK]) * OPERATIONS, [bytes(16)] * OPERATIONS
    start_s, cpu_s = time.perf_counter(), time.process_time()
    for number in range(MESSAGES):
        sent = pb.PipelineRequest(id=number, kinds=kinds, keys=keys).SerializeToString()
        keys_read = list(pb.PipelineRequest.FromString(sent).keys)
        reply = pb.PipelineResponse(id=number, statuses=statuses, values=values)
        values_read = list(pb.PipelineResponse.FromString(reply.SerializeToString()).values)
        assert len(keys_read) == len(values_read) == OPERATIONS
    operations = MESSAGES * OPERATIONS
    took_s = time.perf_counter() - start_s
    print(operations / took_s, (time.process_time() - cpu_s) / operations)


if __name__ == "__main__":
    main()
