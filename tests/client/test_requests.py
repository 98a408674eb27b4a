"""requests.py: operations as messages, and what is too large for one."""

import pytest

from kvstore.client import workload
from kvstore.client.requests import METHODS, MessageTooLarge, stream_request, unary_request
from kvstore.client.workload import MESSAGE_LIMIT_BYTES, create, delete, retrieve, update
from kvstore.v1 import kvstore_pb2 as pb


@pytest.mark.parametrize(
    ("request_", "operation"),
    [
        (pb.CreateRequest(key=b"k", value=b"v"), create(b"k", b"v")),
        (pb.RetrieveRequest(key=b"k"), retrieve(b"k")),
        (pb.UpdateRequest(key=b"k", value=b"v"), update(b"k", b"v")),
        (pb.DeleteRequest(key=b"k"), delete(b"k")),
    ],
    ids=METHODS.values(),
)
def test_an_operation_is_the_request_of_its_own_method(request_, operation):
    assert request_ == unary_request(operation)


def test_a_batch_is_laid_out_in_columns():
    """One value for each create and update, in their order; none for the others."""
    batch = stream_request(7, [update(b"a", b"1"), retrieve(b"b"), delete(b"c"), create(b"d", b"")])

    assert (7, b"\x03\x02\x04\x01") == (batch.id, batch.kinds)
    assert [b"a", b"b", b"c", b"d"] == list(batch.keys)
    assert [b"1", b""] == list(batch.values)


def test_five_megabytes_are_too_large_and_the_message_says_what_to_do():
    with pytest.raises(MessageTooLarge) as refused:
        unary_request(create(b"k" * 8, bytes(5_000_000)))

    assert (
        "a create of 5,000,008 bytes is over gRPC's limit of 4,194,304 bytes for one message:"
        " use a smaller value, or split it over several keys"
    ) == str(refused.value)


def test_a_batch_that_is_too_large_says_how_many_would_fit():
    with pytest.raises(MessageTooLarge) as refused:
        stream_request(1, [create(b"k", bytes(1_000_000))] * 10)

    assert "a batch of 10 operations and 10,000,170 bytes" in str(refused.value)
    assert "about 4 would fit" in str(refused.value)


def test_as_many_as_are_said_to_fit_do_fit():
    assert len(stream_request(1, [create(b"k", bytes(1_000_000))] * 4).keys) == 4


def test_a_message_too_large_is_a_value_error():
    assert issubclass(MessageTooLarge, ValueError)


@pytest.mark.parametrize("key_bytes", [1, 64, 16 * 1024])
def test_what_is_let_through_is_below_the_limit_on_the_wire(key_bytes):
    """The framing of key and value has to fit too."""
    largest = create(bytes(key_bytes), bytes(MESSAGE_LIMIT_BYTES - 64 - key_bytes))

    assert unary_request(largest).ByteSize() <= MESSAGE_LIMIT_BYTES
    assert stream_request(2**63, [create(largest.key, largest.value[:-16])]).ByteSize() <= (
        MESSAGE_LIMIT_BYTES
    )


def test_the_largest_operation_a_workload_draws_can_be_sent():
    largest = create(bytes(16 * 1024), bytes(workload.LARGEST_VALUE_BYTES))

    assert unary_request(largest).ByteSize() <= MESSAGE_LIMIT_BYTES
    assert stream_request(1, [largest]).ByteSize() <= MESSAGE_LIMIT_BYTES
