"""workload.py: what is drawn, which keys are chosen, and that a seed draws it again."""

import math
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import pytest

from kvstore.client import workload
from kvstore.client.workload import Operations, Workload
from kvstore.protocol import CREATE, DELETE, UPDATE

KNOWN = [b"key %d" % number for number in range(10)]


def drawn(settings: Workload, count: int, *, salt: str = "", known=None) -> list:
    """Draws, each create answered OK at once; without `known` keys, also those before the run."""
    operations = Operations(settings, salt)
    for key in [each.key for each in operations.preloads()] if known is None else known:
        operations.created(key)
    taken = []
    for _ in range(count):
        operation = operations.draw()
        taken.append(operation)
        if operation.kind == CREATE:
            operations.created(operation.key)
    return taken


def fingerprint(settings: Workload) -> str:
    """The first 500 operations in one short text."""
    digest = sha256()
    for operation in drawn(settings, 500, salt="s"):
        shape = (operation.kind, operation.key, len(operation.value))
        digest.update(repr(shape).encode() + operation.value[:16])
    return digest.hexdigest()[:16]


@pytest.mark.parametrize(
    ("expected", "settings"),
    [
        ("a2879fc2f27fe7a4", workload.crud(seed=7)),
        ("828a4e60ee0052d8", workload.reads(seed=3, keys=50)),
    ],
)
def test_a_seed_draws_what_it_has_always_drawn(expected, settings):
    """Runs that were saved, and the predictions made for them, must stay repeatable."""
    assert expected == fingerprint(settings)
    assert expected != fingerprint(Workload(**{**settings.as_dict(), "seed": 8}))


def test_another_salt_changes_the_keys_and_nothing_else():
    """A second run against the same server must not ask for the first one's keys."""
    settings = workload.crud(seed=7, key_bytes_mean=200)
    monday, tuesday = (drawn(settings, 300, salt=salt) for salt in ("monday", "tuesday"))

    assert [(op.kind, len(op.key), op.value) for op in monday] == [
        (op.kind, len(op.key), op.value) for op in tuesday
    ]
    keys = [{op.key for op in each if len(op.key) > 4} for each in (monday, tuesday)]
    assert not keys[0] & keys[1]


def test_sizes_are_exponential_around_their_means():
    """Mean m, standard deviation m, half of them below m ln 2: within 5 % over 20,000 draws."""
    creates = drawn(
        workload.crud(mix={"create": 1}, key_bytes_mean=64, value_bytes_mean=1000), 20_000
    )
    for mean, sizes in (
        (64, [len(op.key) for op in creates]),
        (1000, [len(op.value) for op in creates]),
    ):
        measured = sum(sizes) / len(sizes)
        deviation = math.sqrt(sum((size - measured) ** 2 for size in sizes) / len(sizes))

        assert mean == pytest.approx(measured, rel=0.05)
        assert mean == pytest.approx(deviation, rel=0.05)
        assert mean * math.log(2) == pytest.approx(sorted(sizes)[len(sizes) // 2], rel=0.05)


def test_kinds_are_drawn_by_their_weights_and_only_writes_carry_a_value():
    mix = {"create": 4, "retrieve": 3, "update": 2, "delete": 1}
    taken = drawn(workload.crud(mix=mix, value_bytes_mean=1), 20_000)
    counts = Counter(op.name for op in taken)

    for name, weight in mix.items():
        assert weight / 10 == pytest.approx(counts[name] / 20_000, abs=0.02)
    assert all((op.kind in (CREATE, UPDATE)) == bool(op.value) for op in taken)


def test_a_create_that_is_not_answered_yet_makes_no_key_known():
    """Else a retrieve could overtake it and be refused."""
    operations = Operations(workload.crud())
    first = operations.draw()

    assert CREATE == operations.draw().kind
    operations.created(first.key)
    requested = {op.key for op in (operations.draw() for _ in range(200)) if op.kind != CREATE}
    assert {first.key} == requested


def test_a_key_is_not_asked_for_again_once_its_delete_was_drawn():
    mix = {"retrieve": 3, "update": 3, "delete": 1}
    operations = Operations(Workload(mix=mix, preload=1))
    for key in KNOWN:
        operations.created(key)
    deleted: set[bytes] = set()
    while len(operations.known):
        operation = operations.draw()

        assert operation.key not in deleted
        if operation.kind == DELETE:
            deleted.add(operation.key)

    assert set(KNOWN) == deleted


def test_known_keys_stay_whole_when_threads_draw_and_report_at_once():
    operations = Operations(workload.crud(value_bytes_mean=1))
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def call(_: object) -> None:
        for _ in range(1_000):
            operation = operations.draw()
            if operation.kind == CREATE:
                operations.created(operation.key)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(call, range(6)))  # raises what went wrong
    sys.setswitchinterval(usual_s)

    known = operations.known
    assert {key: place for place, key in enumerate(known._keys)} == known._place


@pytest.mark.parametrize(
    ("named", "settings"),
    [
        (r"mix may name create, retrieve, update, delete, got \['read'\]", {"mix": {"read": 1}}),
        ("weights of 0 or more, one above 0", {"mix": {"create": -1, "retrieve": 2}}),
        ("sizes must be 'exponential' or 'fixed', got 'normal'", {"sizes": "normal"}),
        ("key_bytes_mean must be from 1 to 16384, got 0", {"key_bytes_mean": 0}),
        ("got 5,000,000: gRPC refuses messages over 4 MiB", {"value_bytes_mean": 5_000_000}),
        ("set preload to 1 or more, got 0", {"mix": {"retrieve": 1}}),
    ],
)
def test_a_workload_that_makes_no_sense_is_refused(named, settings):
    with pytest.raises(ValueError, match=named):
        Workload(**settings)
