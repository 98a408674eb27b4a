"""messages.py: operations as messages, and what is too large for one."""

import pytest
from tables import for_each

from kvstore.client import workload
from kvstore.client.errors import MessageTooLarge
from kvstore.client.messages import batch_of, create, delete, fitting, retrieve, update
from kvstore.protocol import CREATE, MESSAGE_LIMIT_BYTES, UPDATE
from kvstore.v1 import kvstore_pb2 as pb


@for_each(
    ("request_", "operation"),
    [
        (pb.CreateRequest(key=b"k", value=b"v"), create(b"k", b"v")),
        (pb.RetrieveRequest(key=b"k"), retrieve(b"k")),
        (pb.UpdateRequest(key=b"k", value=b"v"), update(b"k", b"v")),
        (pb.DeleteRequest(key=b"k"), delete(b"k")),
    ],
)
def test_an_operation_is_the_request_of_its_own_method(request_, operation):
    assert request_ == operation.request


def test_a_batch_is_laid_out_in_columns():
    """One value for each create and update, in their order; none for the others."""
    operations = [update(b"a", b"1"), retrieve(b"b"), delete(b"c"), create(b"d", b"")]
    batch = pb.PipelineRequest.FromString(stream_request(7, operations))

    assert (7, b"\x03\x02\x04\x01") == (batch.id, batch.kinds)
    assert [b"a", b"b", b"c", b"d"] == list(batch.keys)
    assert [b"1", b""] == list(batch.values)


def stream_request(number, operations):
    """The bytes of a stream request."""
    return batch_of(operations).message(number).SerializeToString()


def test_five_megabytes_are_too_large_and_the_message_says_what_to_do():
    with pytest.raises(MessageTooLarge) as refused:
        _ = create(b"k" * 8, bytes(5_000_000)).request

    assert (
        "a create of 5,000,008 bytes is over gRPC's limit of 4,194,304 bytes for one message:"
        " use a smaller value, or split it over several keys"
    ) == str(refused.value)


def test_a_batch_that_is_too_large_says_how_many_would_fit():
    with pytest.raises(MessageTooLarge) as refused:
        stream_request(1, [create(b"k", bytes(1_000_000))] * 10)

    assert (
        "a batch of 10 operations makes a message of 10,000,084 bytes, over gRPC's limit of"
        " 4,194,304 bytes: with operations of this size, 4 fit into one"
    ) == str(refused.value)


def test_an_operation_too_large_on_its_own_makes_no_batch_of_any_size():
    with pytest.raises(MessageTooLarge, match="too large on its own: use a smaller value"):
        stream_request(1, [retrieve(b"k"), create(b"k", bytes(5_000_000))])


@for_each(
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


def test_a_message_too_large_is_a_value_error():
    assert issubclass(MessageTooLarge, ValueError)


@for_each("key_bytes", [1, 64, 16 * 1024])
def test_what_is_let_through_is_below_the_limit_on_the_wire(key_bytes):
    """The framing of key and value has to fit too."""
    largest = create(bytes(key_bytes), bytes(MESSAGE_LIMIT_BYTES - 64 - key_bytes))

    assert largest.request.ByteSize() <= MESSAGE_LIMIT_BYTES
    assert len(stream_request(2**63, [create(largest.key, largest.value[:-16])])) <= (
        MESSAGE_LIMIT_BYTES
    )


def test_the_largest_operation_a_workload_draws_can_be_sent():
    largest = create(bytes(16 * 1024), bytes(workload.LARGEST_VALUE_BYTES))

    assert largest.request.ByteSize() <= MESSAGE_LIMIT_BYTES
    assert len(stream_request(1, [largest])) <= MESSAGE_LIMIT_BYTES
