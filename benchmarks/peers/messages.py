"""How many stream requests and replies this process makes, encodes and decodes in a second.

In a process of its own, because protobuf's implementation is chosen when it is imported.
"""

import time

from kvstore.codes import OK, RETRIEVE
from kvstore.v1 import kvstore_pb2 as pb

OPERATIONS = 128
MESSAGES = 200


def main() -> None:
    """Print operations per second, and processor seconds for each."""
    kinds, keys = bytes([RETRIEVE]) * OPERATIONS, [bytes(8)] * OPERATIONS
    statuses, values = bytes([OK]) * OPERATIONS, [bytes(16)] * OPERATIONS
    start_s, cpu_s = time.perf_counter(), time.process_time()
    for number in range(MESSAGES):
        sent = pb.PipelineRequest(id=number, kinds=kinds, keys=keys).SerializeToString()
        asked = list(pb.PipelineRequest.FromString(sent).keys)
        reply = pb.PipelineResponse(id=number, statuses=statuses, values=values)
        read = list(pb.PipelineResponse.FromString(reply.SerializeToString()).values)
        assert len(asked) == len(read) == OPERATIONS
    operations = MESSAGES * OPERATIONS
    took_s = time.perf_counter() - start_s
    print(operations / took_s, (time.process_time() - cpu_s) / operations)


if __name__ == "__main__":
    main()
