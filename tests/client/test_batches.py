"""Operations in columns: how they are drawn, and what is known of their answers."""

from itertools import islice
from typing import Any

import pytest

from kvstore.client import workload
from kvstore.client.messages import Batch, PipelineReader
from kvstore.client.schedule import BLOCK_OPERATIONS, Batches, Schedule
from kvstore.client.workload import Operations, Workload
from kvstore.protocol import NOT_FOUND, OK, RETRIEVE, UPDATE
from kvstore.v1 import kvstore_pb2 as pb

SMALL: dict[str, Any] = {"key_bytes_mean": 8, "value_bytes_mean": 16, "sizes": "fixed"}
MIXED = Workload(mix={"retrieve": 1, "update": 1}, preload=50, **SMALL)


def preloaded(requested: Workload) -> tuple[Operations, dict[bytes, bytes]]:
    """Operations whose preloads were answered OK, and what those wrote."""
    operations = Operations(requested)
    creates = operations.preloads()
    for operation in creates:
        operations.created(operation.key)
    return operations, {operation.key: operation.value for operation in creates}


def assert_whole(batch: Batch, count: int, written: dict[bytes, bytes]) -> None:
    """Each value that is written or has to be read is that of its key."""
    values, reads = iter(batch.values), iter(batch.written or ())
    for kind, key in zip(batch.kinds, batch.keys, strict=True):
        assert written[key] == next(values if kind == UPDATE else reads)
    assert count == len(batch) == batch.kinds.count(RETRIEVE) + batch.kinds.count(UPDATE)
    assert [] == [*values, *reads]
    if batch.kept is not None:
        sent = batch.message(9)
        assert (9, batch.kinds) == (sent.id, sent.kinds)
        assert (batch.keys, batch.values) == (sent.keys, sent.values)


@pytest.mark.parametrize("count", [1, 7, 512, BLOCK_OPERATIONS])
def test_every_column_of_a_batch_belongs_to_the_same_operations(count):
    """The last request of a run that counts its calls is a short one."""
    operations, written = preloaded(MIXED)
    batches = Batches(operations)
    for _ in range(5):
        whole = batches.draw(count)
        assert_whole(whole, count, written)
        short = 1 + count // 2
        assert_whole(whole.first(short), short, written)
    assert_whole(batches.draw(1), 1, written)


@pytest.mark.parametrize(
    "changes",
    [
        workload.crud(preload=5, **SMALL),
        workload.writes(),
        Workload(mix={"retrieve": 1, "delete": 1}, preload=50, **SMALL),
        workload.reads(keys=2_000, key_bytes_mean=1, value_bytes_mean=1, sizes="fixed"),
    ],
)
def test_where_a_key_may_change_what_it_holds_nothing_is_claimed(changes):
    batch = Batches(preloaded(changes)[0]).draw(20)

    assert (20, None) == (len(batch), batch.written)


READS = Batch(
    bytes([RETRIEVE, UPDATE, RETRIEVE]), [b"a", b"b", b"c"], [b"v"], written=[b"of a", b"of c"]
)


@pytest.mark.parametrize(
    ("says", "statuses", "values"),
    [
        ("", [OK, OK, OK], [b"of a", b"of c"]),
        ("", [NOT_FOUND, OK, OK], [b"of c"]),
        ("a retrieve of b'a' read b'of c', but b'of a' was", [OK] * 3, [b"of c", b"of a"]),
        ("a retrieve of b'c' read b'', but b'of c' was", [OK] * 3, [b"of a", b""]),
        ("1 values for 2 retrieves", [OK] * 3, [b"of a"]),
        ("2 values for 1 retrieves", [NOT_FOUND, OK, OK], [b"of a", b"of c"]),
        ("2 statuses for 3 operations", [OK, OK], [b"of a"]),
    ],
)
def test_the_right_reply_passes_and_a_wrong_one_is_named(says, statuses, values):
    """The stream then breaks, and the request is recorded as NO_ANSWER."""
    reader = PipelineReader()
    reader.unsent[1] = READS
    remembered = reader.sent(READS.message(1))
    reply = pb.PipelineResponse(id=1, statuses=bytes(statuses), values=values)

    assert remembered is READS
    assert {} == reader.unsent
    if not says:
        assert statuses.count(OK) == reader.replied(remembered, reply)[1]
        return
    with pytest.raises(ValueError, match=says):
        reader.replied(remembered, reply)


def schedule(**settings: Any) -> Schedule:
    usual: dict[str, Any] = {"clock": lambda: 0.0}
    return Schedule(Operations(workload.crud(value_bytes_mean=1)), **{**usual, **settings})


def sizes(requested: Schedule, most: int) -> list[int]:
    return [len(batch) for batch in iter(lambda: requested.take(most), None)]


def test_the_end_of_a_schedule_is_the_end_of_its_batches():
    times = iter([0.0, 0.4, 0.5, 0.4])
    counted, timed = schedule(calls=20), schedule(duration_s=0.5, clock=lambda: next(times))
    shared = schedule(calls=10)

    assert ([8, 8, 4], None) == (sizes(counted, 8), counted.take(8))
    assert ([8, 8], None) == (sizes(timed, 8), timed.take(8))
    assert 3 == len(list(islice(shared, 3)))
    assert [5, 2] == sizes(shared, 5)  # single operations count as well
    assert [] == sizes(schedule(calls=100, guard=lambda: True), 8)
