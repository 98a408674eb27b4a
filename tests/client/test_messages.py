"""messages.py: operations as messages, and what is too large for one."""

import pytest

from kvstore.client.errors import MessageTooLarge
from kvstore.client.messages import batch_of, create, delete, retrieve, update
from kvstore.v1 import kvstore_pb2 as pb


def stream_request(number, operations):
    """The bytes of a stream request."""
    return batch_of(operations).message(number).SerializeToString()


def test_a_batch_is_laid_out_in_columns():
    """One value for each create and update, in their order; none for the others."""
    operations = [update(b"a", b"1"), retrieve(b"b"), delete(b"c"), create(b"d", b"")]
    batch = pb.PipelineRequest.FromString(stream_request(7, operations))

    assert (7, b"\x03\x02\x04\x01") == (batch.id, batch.kinds)
    assert [b"a", b"b", b"c", b"d"] == list(batch.keys)
    assert [b"1", b""] == list(batch.values)


@pytest.mark.parametrize(
    ("says", "operations"),
    [
        ("a create of 5,000,008 bytes .* 4,194,304 bytes", create(b"k" * 8, bytes(5_000_000))),
        ("of 10,000,084 bytes, .*: send fewer operations", [create(b"k", bytes(1_000_000))] * 10),
    ],
)
def test_what_is_too_large_for_a_message_is_refused_with_its_size(says, operations):
    with pytest.raises(MessageTooLarge, match=says):
        _ = stream_request(1, operations) if isinstance(operations, list) else operations.request
