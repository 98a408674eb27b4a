"""batch.py: the columns of a request, and what does not fit."""

import pytest

from kvstore.codes import (
    CREATE,
    DELETE,
    NOT_FOUND,
    OK,
    RESOURCE_EXHAUSTED,
    RETRIEVE,
    UPDATE,
)
from kvstore.server.batch import kept_within_limit, operations_of, problem_of, refused, reply_to
from kvstore.stations import StationTimes
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.wire import MESSAGE_LIMIT_BYTES


def request(kinds: list[int], keys: list[bytes], values: list[bytes]) -> pb.PipelineRequest:
    return pb.PipelineRequest(id=9, kinds=bytes(kinds), keys=keys, values=values)


def test_columns_become_operations_in_order():
    wanted = request(
        [RETRIEVE, CREATE, DELETE, UPDATE], [b"a", b"b", b"c", b"d"], [b"of b", b"of d"]
    )

    assert problem_of(wanted) is None
    assert [
        (RETRIEVE, b"a", b""),
        (CREATE, b"b", b"of b"),
        (DELETE, b"c", b""),
        (UPDATE, b"d", b"of d"),
    ] == list(operations_of(wanted))


@pytest.mark.parametrize(
    ("problem", "kinds", "keys", "values"),
    [
        ("kinds is empty: a request carries at least one operation", [], [], []),
        ("kinds is empty", [], [b"a"], []),
        ("2 kinds but 1 keys: one key for each operation", [RETRIEVE, RETRIEVE], [b"a"], []),
        ("1 kinds but 2 keys", [RETRIEVE], [b"a", b"b"], []),
        ("1 creates and updates but 0 values: one value for each of them", [CREATE], [b"a"], []),
        ("0 creates and updates but 1 values", [DELETE], [b"a"], [b"v"]),
        ("2 creates and updates but 1 values", [UPDATE, CREATE], [b"a", b"b"], [b"v"]),
    ],
)
def test_columns_that_do_not_fit_are_named(problem, kinds, keys, values):
    assert (problem_of(request(kinds, keys, values)) or "").startswith(problem)


@pytest.mark.parametrize("kind", [0, 5, 255])
def test_a_kind_nobody_knows_is_for_the_store_to_refuse(kind):
    """Its neighbours can still be done."""
    assert problem_of(request([kind, RETRIEVE], [b"a", b"b"], [])) is None


@pytest.mark.parametrize(
    ("count", "kinds", "keys"), [(1, [], []), (3, [], [b"a", b"b", b"c"]), (2, [1, 1], [b"a"])]
)
def test_a_refusal_has_a_status_for_each_operation(count, kinds, keys):
    reply = refused(request(kinds, keys, []), "it does not fit")

    assert (9, bytes([3]) * count, "it does not fit") == (reply.id, reply.statuses, reply.detail)


def test_a_reply_carries_the_first_reason_in_words():
    reply = reply_to(request([], [], []), bytes([OK, NOT_FOUND, 6]), [b"v"], None)

    assert (9, b"\x00\x05\x06") == (reply.id, reply.statuses)
    assert [b"v"] == list(reply.values)
    assert reply.detail.startswith("the key is not known")
    assert not reply.HasField("station_times")


def test_a_reply_in_which_all_went_well_has_nothing_to_explain():
    assert "" == reply_to(request([], [], []), bytes(3), [], None).detail


def test_a_reply_tells_its_stations_when_it_is_asked_to():
    reply = reply_to(request([], [], []), b"\x00", [], StationTimes(0.1, 0.2, 0.3, 0.4))
    told = reply.station_times

    assert (0.1, 0.2, 0.3, 0.4) == (told.pool_s, told.lock_s, told.disk_s, told.rest_s)


@pytest.mark.parametrize("value_bytes", [100, 16_000, 1_000_000, 4_000_000])
@pytest.mark.parametrize("times", [None, StationTimes(0.1, 0.2, 0.3, 0.4)], ids=["", "times"])
def test_a_reply_is_kept_below_the_limit_and_hardly_further(value_bytes, times):
    """Reads from the first that does not fit on fail by name; what was done stays done."""
    reads = 5_000_000 // value_bytes + 2
    asked = request([DELETE, *[RETRIEVE] * reads, DELETE], [b"k"] * (reads + 2), [])
    asked.id = 2**64 - 1
    values = [bytes(value_bytes)] * (reads - 1)
    statuses = bytes([OK, NOT_FOUND, *[OK] * (reads - 1), OK])  # the first read found nothing

    trimmed, kept = kept_within_limit(asked, statuses, values)
    reply = reply_to(asked, trimmed, kept, times)
    good = len(reply.values)

    assert MESSAGE_LIMIT_BYTES - 400 - value_bytes - 5 * reads < reply.ByteSize()
    assert reply.ByteSize() <= MESSAGE_LIMIT_BYTES
    assert reply.statuses == bytes(
        [OK, NOT_FOUND, *[OK] * good, *[RESOURCE_EXHAUSTED] * (reads - 1 - good), OK]
    )
    assert 0 < good < reads - 1


def test_a_reply_that_fits_is_left_alone():
    values = [bytes(1_000)] * 4_000
    statuses = bytes(4_000)

    assert (statuses, values) == kept_within_limit(
        request([RETRIEVE] * 4_000, [b"k"] * 4_000, []), statuses, values
    )


def test_the_largest_value_that_can_be_stored_can_be_read_again():
    largest = [bytes(MESSAGE_LIMIT_BYTES - 65)]

    assert (bytes(1), largest) == kept_within_limit(
        request([RETRIEVE], [b"k"], []), bytes(1), largest
    )
