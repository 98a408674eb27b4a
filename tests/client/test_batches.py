"""batch.py: operations in columns, and what is known of their answers."""

import math
from collections import Counter
from itertools import islice
from typing import Any

import pytest
from tables import for_each

from kvstore.client import pacing, workload
from kvstore.client.messages import (
    Batch,
    PipelineReader,
    batch_of,
    create,
    delete,
    retrieve,
    update,
    verify,
)
from kvstore.client.schedule import BLOCK_OPERATIONS, LOOK_EVERY, Batches, Schedule
from kvstore.client.workload import Operations, Workload
from kvstore.protocol import CREATE, NOT_FOUND, OK, RETRIEVE, UPDATE
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


def test_operations_become_columns():
    batch = batch_of(
        [update(b"a", b"1"), retrieve(b"b"), delete(b"c"), create(b"d", b"22")._replace(due_s=3.0)]
    )

    assert (b"\x03\x02\x04\x01", [b"a", b"b", b"c", b"d"]) == (batch.kinds, batch.keys)
    assert ([b"1", b"22"], None) == (batch.values, batch.written)
    assert (4, 7) == (len(batch), batch.payload_bytes)
    assert math.isnan(batch.due_s)  # that of the first


def test_batches_of_one_come_in_the_order_of_the_seed():
    """A lesson tells a story about the one write that comes first."""
    batches = Batches(preloaded(MIXED)[0])
    singly = preloaded(MIXED)[0]

    assert [singly.draw()[:2] for _ in range(30)] == [
        (batch.kinds[0], batch.keys[0]) for batch in (batches.draw(1) for _ in range(30))
    ]


@for_each("count", [1, 7, 512, BLOCK_OPERATIONS])
def test_every_column_of_a_batch_belongs_to_the_same_operations(count):
    operations, written = preloaded(MIXED)
    batches = Batches(operations)
    for _ in range(5):
        batch = batches.draw(count)
        values, reads = iter(batch.values), iter(batch.written or ())
        for kind, key in zip(batch.kinds, batch.keys, strict=True):
            assert written[key] == next(values if kind == UPDATE else reads)

        assert count == len(batch) == batch.kinds.count(RETRIEVE) + batch.kinds.count(UPDATE)
        assert [] == [*values, *reads]


def test_batches_hold_the_mix_and_all_the_keys():
    operations, written = preloaded(MIXED)
    batches = Batches(operations)
    kinds: Counter[int] = Counter()
    keys: Counter[bytes] = Counter()
    for _ in range(100):
        batch = batches.draw(100)
        kinds.update(batch.kinds)
        keys.update(batch.keys)

    assert 0.4 < kinds[UPDATE] / 10_000 < 0.6
    assert set(written) == set(keys)


@for_each(
    "changes",
    [
        workload.crud(**SMALL),
        workload.crud(preload=5, **SMALL),
        workload.writes(),
        Workload(mix={"retrieve": 1, "delete": 1}, preload=50, **SMALL),
        workload.reads(keys=2_000, key_bytes_mean=1, value_bytes_mean=1, sizes="fixed"),
    ],
)
def test_where_a_key_may_change_what_it_holds_nothing_is_claimed(changes):
    batch = Batches(preloaded(changes)[0]).draw(20)

    assert (20, None) == (len(batch), batch.written)


def test_until_a_key_is_known_there_is_nothing_to_cut_from():
    operations = Operations(MIXED)
    operations.preloads()

    assert bytes([CREATE] * 3) == Batches(operations).draw(3).kinds


def test_batches_come_round_again_and_are_not_made_anew():
    batches = Batches(preloaded(MIXED)[0])
    once, again = ([batches.draw(4096) for _ in range(4)] for _ in range(2))

    assert [id(batch) for batch in once] == [id(batch) for batch in again]


def test_batches_of_one_that_are_alike_are_one():
    """Each that is another object is one more that the processor has to fetch from memory."""
    batches = Batches(preloaded(MIXED)[0])
    alike: dict[tuple[bytes, bytes], set[int]] = {}
    for _ in range(1_000):
        batch = batches.draw(1)
        alike.setdefault((batch.kinds, batch.keys[0]), set()).add(id(batch))

    assert len(alike) == 100  # 50 keys, read and written
    assert {1} == {len(each) for each in alike.values()}


@for_each("count", [1, 3])
def test_a_batch_whose_message_is_kept_says_what_its_columns_say(count):
    batches = Batches(preloaded(MIXED)[0])
    for batch in (batches.draw(count) for _ in range(20)):
        sent = batch.message(9)

        assert sent is batch.kept
        assert (9, batch.kinds, batch.keys, batch.values) == (
            sent.id, sent.kinds, sent.keys, sent.values
        )  # fmt: skip


def test_large_values_are_not_kept_twice():
    large = Workload(mix={"update": 1}, preload=40, value_bytes_mean=500_000, sizes="fixed")
    batch = Batches(preloaded(large)[0]).draw(1)

    assert (True, None) == (batch.payload_bytes > 500_000, batch.kept)


@for_each("count", [1, 5, 7])
def test_the_first_of_a_batch_are_a_batch(count):
    """The last request of a run that counts its calls is a short one."""
    operations, written = preloaded(MIXED)
    short = Batches(operations)
    short.prepare(8)
    whole, batch = short.draw(8).first(count), short.draw(count)
    values, reads = iter(batch.values), iter(batch.written or ())

    assert (count, count) == (len(whole), len(batch))
    assert (whole.kept, batch.kept) == (None, None)
    for kind, key in zip(batch.kinds, batch.keys, strict=True):
        assert written[key] == next(values if kind == UPDATE else reads)
    assert [] == [*values, *reads]


READS = Batch(
    bytes([RETRIEVE, UPDATE, RETRIEVE]), [b"a", b"b", b"c"], [b"v"], written=[b"of a", b"of c"]
)


@for_each(
    ("statuses", "values"),
    [([OK, OK, OK], [b"of a", b"of c"]), ([NOT_FOUND, OK, OK], [b"of c"])],
)
def test_the_right_answers_pass(statuses, values):
    verify(READS, bytes(statuses), values)


@for_each(
    ("says", "statuses", "values"),
    [
        ("a retrieve of b'a' read b'of c', but b'of a' was", [OK] * 3, [b"of c", b"of a"]),
        ("a retrieve of b'c' read b'', but b'of c' was", [OK] * 3, [b"of a", b""]),
        ("1 values for 2 retrieves", [OK] * 3, [b"of a"]),
        ("2 values for 1 retrieves", [NOT_FOUND, OK, OK], [b"of a", b"of c"]),
    ],
)
def test_a_wrong_answer_is_named(says, statuses, values):
    reply = pb.PipelineResponse(statuses=bytes(statuses), values=values)
    with pytest.raises(ValueError, match=says):
        PipelineReader().replied(READS, reply)


# ---- batches from a schedule ---------------------------------------------------------------


def schedule(**settings: Any) -> Schedule:
    usual: dict[str, Any] = {"clock": lambda: 0.0}
    return Schedule(Operations(workload.crud(value_bytes_mean=1)), **{**usual, **settings})


def sizes(requested: Schedule, most: int) -> list[int]:
    return [len(batch) for batch in iter(lambda: requested.take(most), None)]


def test_the_last_batch_may_be_shorter_and_after_it_there_is_none():
    requested = schedule(calls=20)

    assert ([8, 8, 4], None) == (sizes(requested, 8), requested.take(8))


def test_single_operations_and_batches_share_one_count():
    requested = schedule(calls=10)

    assert 3 == len(list(islice(requested, 3)))
    assert [5, 2] == sizes(requested, 5)


def test_a_closed_loop_hands_out_no_batch_after_its_end():
    times = iter([0.0, 0.4, 0.5, 0.4])
    requested = schedule(duration_s=0.5, clock=lambda: next(times))

    assert ([8, 8], None) == (sizes(requested, 8), requested.take(8))


def test_an_open_loop_hands_out_what_falls_due_within_its_time():
    requested = schedule(duration_s=0.5, due_times=pacing.constant_rate(10))
    batches = [requested.take(3) for _ in range(3)]

    assert [3, 2, 0] == [len(batch or ()) for batch in batches]
    assert [0.0, 0.3] == pytest.approx([batch.due_s for batch in batches[:2] if batch])


@for_each("most", [1, 7, LOOK_EVERY, 3 * LOOK_EVERY])
def test_the_guard_looks_as_often_as_for_single_operations(most):
    looks: list[int] = []
    sizes(schedule(calls=12 * LOOK_EVERY, guard=lambda: looks.append(1)), most)

    assert len(looks) >= min(12, 12 * LOOK_EVERY // most)


def test_a_guard_stops_batches_too():
    assert [] == sizes(schedule(calls=100, guard=lambda: True), 8)


def test_what_is_drawn_ahead_is_what_would_be_drawn():
    handed_out = []
    for ahead in (False, True):
        operations = Operations(workload.reads(keys=20, value_bytes_mean=4))
        for preload in operations.preloads():
            operations.created(preload.key)
        requested = Schedule(operations, clock=lambda: 0.0, calls=50)
        if ahead:
            requested.prepare(8)
        batches = [requested.take(8) for _ in range(3)]
        handed_out.append([(batch.kinds, batch.keys, batch.values) for batch in batches if batch])

    assert handed_out[0] == handed_out[1]


def test_a_reader_refuses_a_reply_that_holds_what_was_not_written():
    """The stream then breaks, and the request is recorded as NO_ANSWER."""
    reader, drawn = PipelineReader(), Batch(bytes([RETRIEVE]), [b"k"], [], written=[b"right"])
    reader.unsent[1] = drawn
    about = reader.sent(drawn.message(1))[3]

    assert about is drawn
    assert {} == reader.unsent
    with pytest.raises(ValueError, match="read b'wrong', but b'right' was written"):
        reader.replied(about, pb.PipelineResponse(id=1, statuses=bytes([OK]), values=[b"wrong"]))


def test_a_reader_names_the_keys_that_were_created():
    known: list[bytes] = []
    reader = PipelineReader(known.append)
    about = reader.sent(batch_of([create(b"new", b""), create(b"old", b"")]).message(1))[3]
    status, ok, _ = reader.replied(
        about, pb.PipelineResponse(id=1, statuses=bytes([OK, NOT_FOUND]))
    )

    assert ([b"new"], 1, NOT_FOUND) == (known, ok, status)
