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
    refused,
)
from kvstore.v1 import kvstore_pb2 as pb


def request(kinds: list[int], keys: list[bytes], values: list[bytes]) -> Batch:
    return Batch.of(pb.PipelineRequest(id=9, kinds=bytes(kinds), keys=keys, values=values))


@pytest.mark.parametrize(
    ("count", "kinds", "keys"), [(1, [], []), (3, [], [b"a", b"b", b"c"]), (2, [1, 1], [b"a"])]
)
def test_a_refusal_has_a_status_for_each_operation(count, kinds, keys):
    reply = refused(request(kinds, keys, []), "it does not fit").reply()

    assert (9, bytes([3]) * count, "it does not fit") == (reply.id, reply.statuses, reply.detail)


def test_a_reply_carries_the_first_reason_in_words_and_the_station_times():
    reply = answer_to(request([], [], []), bytes([OK, NOT_FOUND, 6]), [b"v"], None).reply()

    assert (9, b"\x00\x05\x06") == (reply.id, reply.statuses)
    assert [b"v"] == list(reply.values)
    assert reply.detail.startswith("the key is not known")
    assert not reply.HasField("station_times")

    all_ok = answer_to(request([], [], []), bytes(3), [], StationTimes(0.1, 0.2, 0.3, 0.4)).reply()
    times = all_ok.station_times

    assert "" == all_ok.detail
    assert (0.1, 0.2, 0.3, 0.4) == (times.pool_s, times.lock_s, times.disk_s, times.rest_s)


@pytest.mark.parametrize("value_bytes", [100, 16_000, 1_000_000, 4_000_000])
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
