"""stream.py: the columns of a request, and what does not fit."""

import pytest

from kvstore.protocol import (
    DELETE,
    MESSAGE_LIMIT_BYTES,
    NOT_FOUND,
    OK,
    RESOURCE_EXHAUSTED,
    RETRIEVE,
    StationTimes,
)
from kvstore.server.stream import (
    Batch,
    answer_to,
)
from kvstore.v1 import kvstore_pb2 as pb


def request(kinds: list[int], keys: list[bytes], values: list[bytes]) -> Batch:
    return Batch.of(pb.PipelineRequest(id=9, kinds=bytes(kinds), keys=keys, values=values))


@pytest.mark.parametrize(
    "value_bytes",
    [
        100,
        16_000,
    ],
)
@pytest.mark.parametrize("times", [None, StationTimes(0.1, 0.2, 0.3, 0.4)])
def test_a_reply_is_kept_below_the_limit_and_hardly_further(value_bytes, times):
    """Reads from the first that does not fit on fail by name; what was done stays done."""
    reads = 5_000_000 // value_bytes + 2
    requested = request([DELETE, *[RETRIEVE] * reads, DELETE], [b"k"] * (reads + 2), [])
    requested = requested._replace(id=2**64 - 1)
    values = [bytes(value_bytes)] * (reads - 1)
    statuses = bytes([OK, NOT_FOUND, *[OK] * (reads - 1), OK])  # the first read found nothing

    answer = answer_to(requested, statuses, values, times)
    reply = answer.reply()
    good = len(reply.values)

    assert MESSAGE_LIMIT_BYTES - 400 - value_bytes - 5 * reads < reply.ByteSize()
    assert reply.ByteSize() <= MESSAGE_LIMIT_BYTES
    assert reply.statuses == bytes(
        [OK, NOT_FOUND, *[OK] * good, *[RESOURCE_EXHAUSTED] * (reads - 1 - good), OK]
    )
    assert 0 < good < reads - 1
    assert good * value_bytes == answer.value_bytes
