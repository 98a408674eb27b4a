"""store.py: what each operation does, as one table."""

import random

from tables import for_each

from kvstore.protocol import (
    ALREADY_EXISTS,
    CREATE,
    DEADLINE_EXCEEDED,
    DELETE,
    INTERNAL,
    INVALID_ARGUMENT,
    NOT_FOUND,
    OK,
    RESOURCE_EXHAUSTED,
    RETRIEVE,
    UNAVAILABLE,
    UPDATE,
)
from kvstore.server.store import DETAILS, Store


@for_each(
    ("kind", "known", "status", "found", "kept"),
    [
        (CREATE, False, OK, b"", b"new"),
        (CREATE, True, ALREADY_EXISTS, b"", b"old"),
        (RETRIEVE, False, NOT_FOUND, b"", None),
        (RETRIEVE, True, OK, b"old", b"old"),
        (UPDATE, False, NOT_FOUND, b"", None),
        (UPDATE, True, OK, b"", b"new"),
        (DELETE, False, OK, b"", None),
        (DELETE, True, OK, b"", None),
    ],
)
def test_each_operation_on_a_known_and_an_unknown_key(kind, known, status, found, kept):
    store = Store()
    if known:
        store.apply(CREATE, b"key", b"old")

    assert (status, found) == store.apply(kind, b"key", b"new")
    assert ((OK, kept) if kept is not None else (NOT_FOUND, b"")) == (
        store.apply(RETRIEVE, b"key", b"")
    )


@for_each(
    ("kind", "key"),
    [
        *((kind, b"key") for kind in (0, 5, 99, 255)),
        *((kind, b"") for kind in (CREATE, RETRIEVE, UPDATE, DELETE)),
    ],
)
def test_an_unknown_kind_and_an_empty_key_are_refused(kind, key):
    store = Store()

    assert (INVALID_ARGUMENT, b"") == store.apply(kind, key, b"value")
    assert 0 == len(store)


def test_keys_are_bytes_and_an_empty_value_is_a_value():
    store = Store()
    store.apply(CREATE, b"\xff\x00", b"")

    assert (OK, b"") == store.apply(RETRIEVE, b"\xff\x00", b"")
    assert (ALREADY_EXISTS, b"") == store.apply(CREATE, b"\xff\x00", b"x")
    assert NOT_FOUND == store.apply(RETRIEVE, b"\xff", b"")[0]


@for_each("seed", range(5))
def test_a_store_behaves_as_a_dictionary_does(seed):
    rng = random.Random(seed)
    store, model = Store(), dict[bytes, bytes]()
    for _ in range(2_000):
        kind = rng.choice([CREATE, RETRIEVE, UPDATE, DELETE])
        key, value = b"%d" % rng.randrange(1, 30), rng.randbytes(4)
        known = key in model
        if kind == CREATE:
            expected = (ALREADY_EXISTS if known else OK, b"")
            model.setdefault(key, value)
        elif kind == RETRIEVE:
            expected = (OK, model[key]) if known else (NOT_FOUND, b"")
        elif kind == UPDATE:
            expected = (OK if known else NOT_FOUND, b"")
            model.update({key: value} if known else {})
        else:
            expected = (OK, b"")
            model.pop(key, None)

        assert expected == store.apply(kind, key, value)
    assert len(model) == len(store)


def test_every_refusal_says_what_to_do():
    assert {
        ALREADY_EXISTS,
        DEADLINE_EXCEEDED,
        INTERNAL,
        INVALID_ARGUMENT,
        NOT_FOUND,
        RESOURCE_EXHAUSTED,
        UNAVAILABLE,
    } == set(DETAILS)


KEYS = (b"", b"a", b"b", b"c", b"d")


@for_each("kinds", [(RETRIEVE,), (RETRIEVE, UPDATE), range(6)])
def test_a_batch_in_columns_does_what_its_operations_do_one_by_one(kinds):
    """Same statuses, same values read, same store afterwards, whatever the batch."""
    rng = random.Random(4)
    for _ in range(300):
        one_by_one, in_columns = Store(), Store()
        for key in rng.sample(KEYS[1:], rng.randrange(5)):
            one_by_one.apply(CREATE, key, b"old " + key)
            in_columns.apply(CREATE, key, b"old " + key)
        batch = [
            (rng.choice(kinds), rng.choice(KEYS[bool(rng.random() < 0.8) :]), b"%d" % number)
            for number in range(rng.randrange(1, 9))
        ]
        singly = [(kind, *one_by_one.apply(kind, key, value)) for kind, key, value in batch]
        statuses, found = in_columns.apply_columns(
            bytes(kind for kind, _, _ in batch),
            [key for _, key, _ in batch],
            [value for kind, _, value in batch if kind in (CREATE, UPDATE)],
        )

        assert [status for _, status, _ in singly] == list(statuses)
        assert [v for kind, status, v in singly if kind == RETRIEVE and status == OK] == found
        assert one_by_one._values == in_columns._values
