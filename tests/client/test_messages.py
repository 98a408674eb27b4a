"""messages.py: operations as messages, and what is too large for one."""

import pytest

from kvstore.client.errors import MessageTooLarge
from kvstore.client.messages import batch_of, create, delete, fitting, retrieve, update
from kvstore.protocol import CREATE, MESSAGE_LIMIT_BYTES, UPDATE
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
        ("of 10,000,084 bytes, .*, 4 fit into one", [create(b"k", bytes(1_000_000))] * 10),
        ("too large on its own: use a smaller", [retrieve(b"k"), create(b"k", bytes(5_000_000))]),
    ],
)
def test_what_is_too_large_for_a_message_is_told_with_what_would_fit(says, operations):
    with pytest.raises(MessageTooLarge, match=says):
        _ = stream_request(1, operations) if isinstance(operations, list) else operations.request


@pytest.mark.parametrize(
    "operations",
    [
        [create(b"k" * 8, bytes(60_000))] * 100,
        [create(b"k" * 200, bytes(length)) for length in range(0, 300_000, 1_000)],
        [retrieve(b"r" * 130), update(b"u", bytes(127)), delete(b"d" * 16_384)] * 300,
        [retrieve(b"k" * 18)] * 200_000,
        [create(b"k", bytes(4_000_000)), *[update(b"k", bytes(10))] * 5_000] * 2,
    ],
)
def test_the_number_said_to_fit_is_true_to_the_last_bytes(operations):
    """Whichever neighbours: any so many make a message that passes, and some one more does not."""
    batch = batch_of(operations)
    fit = fitting(batch)

    assert max(_sizes_bytes(batch, fit)) <= MESSAGE_LIMIT_BYTES
    assert max(_sizes_bytes(batch, fit + 1)) > MESSAGE_LIMIT_BYTES - 16


def _sizes_bytes(batch, count):
    """What messages of `count` neighbours take, of all of them or of some hundred."""
    step = 1 if len(batch) <= 1_000 else len(batch) // 100
    for first in range(0, len(batch) - count + 1, step):
        kinds = batch.kinds[first : first + count]
        before = sum(kind in (CREATE, UPDATE) for kind in batch.kinds[:first])
        inside = sum(kind in (CREATE, UPDATE) for kind in kinds)
        yield pb.PipelineRequest(
            id=2**64 - 1, kinds=kinds, keys=batch.keys[first : first + count],
            values=batch.values[before : before + inside],
        ).ByteSize()  # fmt: skip


@pytest.mark.parametrize("key_bytes", [1, 64, 16 * 1024])
def test_what_is_let_through_is_below_the_limit_on_the_wire(key_bytes):
    """The framing of key and value has to fit too."""
    largest = create(bytes(key_bytes), bytes(MESSAGE_LIMIT_BYTES - 64 - key_bytes))

    assert largest.request.ByteSize() <= MESSAGE_LIMIT_BYTES
    assert len(stream_request(2**63, [create(largest.key, largest.value[:-16])])) <= (
        MESSAGE_LIMIT_BYTES
    )
