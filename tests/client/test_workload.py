"""workload.py: what is drawn, which keys are chosen, and that a seed draws it again."""

import json
import math
import random
import sys
import threading
from collections import Counter
from hashlib import sha256

import pytest
from tables import for_each

from kvstore.client import load, workload
from kvstore.client.strategies import bounded
from kvstore.client.workload import KnownKeys, Operations, Workload, ZipfKeys
from kvstore.protocol import CREATE, DELETE, UPDATE

KNOWN = [b"key %d" % number for number in range(10)]


def drawn(settings: Workload, count: int, *, salt: str = "", known=()) -> list:
    """Draws, each create answered OK at once."""
    operations = Operations(settings, salt)
    for key in known:
        operations.created(key)
    taken = []
    for _ in range(count):
        operation = operations.draw()
        taken.append(operation)
        if operation.kind == CREATE:
            operations.created(operation.key)
    return taken


# ---- a seed --------------------------------------------------------------------------------


def test_the_same_seed_draws_the_same_operations():
    assert drawn(workload.crud(seed=7), 300) == drawn(workload.crud(seed=7), 300)


def test_another_seed_draws_others():
    assert drawn(workload.crud(seed=7), 300) != drawn(workload.crud(seed=8), 300)


def test_another_salt_changes_the_keys_and_nothing_else():
    """A second run against the same server must not ask for the first one's keys."""
    shapes = []
    for salt in ("monday", "tuesday"):
        taken = drawn(workload.crud(seed=7, key_bytes_mean=200), 300, salt=salt)
        shapes.append([(op.kind, len(op.key), op.value) for op in taken])
    keys = [{op.key for op in drawn(workload.crud(7), 300, salt=salt)} for salt in ("a", "b")]

    assert shapes[0] == shapes[1]
    assert {key for key in keys[0] & keys[1] if len(key) > 4} == set()


# ---- sizes ---------------------------------------------------------------------------------


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


def test_every_key_and_value_has_at_least_one_byte():
    creates = drawn(workload.crud(mix={"create": 1}, key_bytes_mean=1, value_bytes_mean=1), 500)

    assert 1 == min(len(op.key) for op in creates)
    assert 1 == min(len(op.value) for op in creates)


def test_no_value_is_over_the_message_limit():
    creates = drawn(
        workload.crud(mix={"create": 1}, value_bytes_mean=workload.LARGEST_VALUE_BYTES), 100
    )

    assert workload.LARGEST_VALUE_BYTES == max(len(op.value) for op in creates)


def test_fixed_sizes_are_the_means():
    creates = drawn(
        workload.crud(mix={"create": 1}, sizes="fixed", key_bytes_mean=16, value_bytes_mean=99), 20
    )

    assert {(16, 99)} == {(len(op.key), len(op.value)) for op in creates}


def test_only_creates_and_updates_carry_a_value():
    for operation in drawn(workload.crud(), 500):
        assert (operation.kind in (CREATE, UPDATE)) == bool(operation.value)


# ---- the mix -------------------------------------------------------------------------------


def test_kinds_are_drawn_by_their_weights():
    mix = {"create": 4, "retrieve": 3, "update": 2, "delete": 1}
    counts = Counter(op.name for op in drawn(workload.crud(mix=mix, value_bytes_mean=1), 20_000))

    for name, weight in mix.items():
        assert weight / 10 == pytest.approx(counts[name] / 20_000, abs=0.02)


def test_a_kind_of_no_weight_is_never_drawn():
    mix = {"create": 0, "retrieve": 1, "update": 0.0, "delete": 0}
    taken = drawn(Workload(mix=mix, preload=1), 500, known=KNOWN)

    assert {"retrieve"} == {op.name for op in taken}


def test_with_no_key_known_there_is_nothing_to_do_but_create():
    operations = Operations(Workload(mix={"create": 0.001, "delete": 1000}))

    assert {CREATE} == {operations.draw().kind for _ in range(100)}


def test_a_create_that_is_not_answered_yet_makes_no_key_known():
    """Else a retrieve could overtake it and be refused."""
    operations = Operations(workload.crud())
    first = operations.draw()

    assert CREATE == operations.draw().kind
    operations.created(first.key)
    requested = {op.key for op in (operations.draw() for _ in range(200)) if op.kind != CREATE}
    assert {first.key} == requested


def test_a_key_is_not_asked_for_again_once_its_delete_was_drawn():
    operations = Operations(Workload(mix={"retrieve": 3, "update": 3, "delete": 1}, preload=1))
    for key in KNOWN:
        operations.created(key)
    deleted: set[bytes] = set()
    while len(operations.known):
        operation = operations.draw()

        assert operation.key not in deleted
        if operation.kind == DELETE:
            deleted.add(operation.key)

    assert set(KNOWN) == deleted


def test_every_known_key_is_asked_for_about_equally_often():
    taken = drawn(workload.reads(), 10_000, known=KNOWN)
    counts = Counter(op.key for op in taken)

    assert set(KNOWN) == set(counts)
    assert all(800 < count < 1200 for count in counts.values())


def test_the_due_time_travels_with_the_operation():
    operations = Operations(workload.crud())

    assert 1.5 == operations.draw(1.5).due_s
    assert math.isnan(operations.draw().due_s)


# ---- known keys ----------------------------------------------------------------------------


@for_each("seed", range(10))
def test_known_keys_behave_as_a_set_does(seed):
    """Random adds, removes and draws, against Python's own set."""
    rng = random.Random(seed)
    keys, model = KnownKeys(), set[bytes]()
    for _ in range(2_000):
        key = b"%d" % rng.randrange(50)
        step = rng.random()
        if step < 0.45:
            keys.add(key)
            model.add(key)
        elif step < 0.8 and key in model:
            keys.remove(key)
            model.remove(key)
        elif model:
            assert keys.draw(rng) in model
        assert len(model) == len(keys)
    while model:
        key = keys.draw(rng)
        keys.remove(key)
        model.remove(key)
    assert 0 == len(keys)


def test_a_key_that_is_not_known_cannot_be_forgotten():
    keys = KnownKeys()
    keys.add(b"a")

    with pytest.raises(KeyError):
        keys.remove(b"b")
    assert 1 == len(keys)


def test_known_keys_stay_whole_when_threads_draw_and_report_at_once():
    operations = Operations(workload.crud(value_bytes_mean=1))
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    failures: list[BaseException] = []

    def call() -> None:
        try:
            for _ in range(1_000):
                operation = operations.draw()
                if operation.kind == CREATE:
                    operations.created(operation.key)
        except BaseException as failure:
            failures.append(failure)

    callers = [threading.Thread(target=call) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    sys.setswitchinterval(usual_s)

    known = operations.known
    assert [] == failures
    assert {key: place for place, key in enumerate(known._keys)} == known._place


# ---- the settings --------------------------------------------------------------------------


def test_keys_to_ask_for_from_the_start_are_created_before():
    operations = Operations(workload.reads(keys=5))

    assert 5 == len(operations.preloads())
    assert {CREATE} == {op.kind for op in operations.preloads()}


def test_the_workload_of_the_java_original():
    settings = workload.crud()

    assert {"create": 1, "retrieve": 1, "update": 1, "delete": 1} == settings.mix
    assert (64, 65536, "exponential") == (
        settings.key_bytes_mean,
        settings.value_bytes_mean,
        settings.sizes,
    )


@for_each("settings", [workload.crud(3), workload.reads(keys=2), workload.writes(sizes="fixed")])
def test_a_workload_survives_the_journey_to_another_process(settings):
    assert settings == Workload(**json.loads(json.dumps(settings.as_dict())))


@for_each(
    ("named", "settings"),
    [
        (r"mix may name create, retrieve, update, delete, got \['read'\]", {"mix": {"read": 1}}),
        ("mix may name .*, got nothing", {"mix": {}}),
        (r"may name .*got \['batch'\]", {"mix": {"batch": 1}}),
        ("weights of 0 or more, one above 0", {"mix": {"create": -1, "retrieve": 2}}),
        ("weights of 0 or more, one above 0", {"mix": {"create": 0}}),
        ("weights of 0 or more, one above 0", {"mix": {"create": math.nan}}),
        ("sizes must be 'exponential' or 'fixed', got 'normal'", {"sizes": "normal"}),
        ("key_bytes_mean must be from 1 to 16384, got 0", {"key_bytes_mean": 0}),
        ("key_bytes_mean must be from 1 to 16384, got 99999", {"key_bytes_mean": 99_999}),
        ("key_bytes_mean must be from 1 to 16384, got nan", {"key_bytes_mean": math.nan}),
        ("value_bytes_mean must be from 1 to .*, got 0", {"value_bytes_mean": 0}),
        ("got 5,000,000: gRPC refuses messages over 4 MiB", {"value_bytes_mean": 5_000_000}),
        ("set preload to 1 or more, got 0", {"mix": {"retrieve": 1}}),
        ("set preload to 1 or more, got -1", {"preload": -1}),
    ],
)
def test_a_workload_that_makes_no_sense_is_refused(named, settings):
    with pytest.raises(ValueError, match=named):
        Workload(**settings)


def test_reads_of_no_keys_are_refused():
    with pytest.raises(ValueError, match="set preload to 1 or more"):
        workload.reads(keys=0)


THREE = [b"oldest", b"middle", b"newest"]


class Fixed(random.Random):
    """Draws a fixed value."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def random(self) -> float:
        return self.value


def keys_of(exponent: float = 1.0, keys=THREE) -> ZipfKeys:
    known = ZipfKeys(exponent)
    for key in keys:
        known.add(key)
    return known


def fingerprint(settings: Workload) -> str:
    """The first 500 operations in one short text."""
    operations = Operations(settings, "s")
    for operation in operations.preloads():
        operations.created(operation.key)
    digest = sha256()
    for _ in range(500):
        operation = operations.draw()
        shape = (operation.kind, operation.key, len(operation.value))
        digest.update(repr(shape).encode() + operation.value[:16])
        if operation.kind == CREATE:
            operations.created(operation.key)
    return digest.hexdigest()[:16]


@for_each(
    ("expected", "settings"),
    [
        ("a2879fc2f27fe7a4", workload.crud(seed=7)),
        ("828a4e60ee0052d8", workload.reads(seed=3, keys=50)),
        ("f1c1885c13404d68", workload.crud(sizes="fixed", value_bytes_mean=100)),
    ],
)
def test_a_seed_draws_what_it_drew_before_there_was_a_choice(expected, settings):
    """Runs that were saved, and the predictions made for them, must stay repeatable."""
    assert expected == fingerprint(settings)


def test_a_seed_draws_the_same_skewed_keys_again():
    skewed = workload.crud(seed=7, key_choice="zipf")

    assert fingerprint(skewed) == fingerprint(skewed)
    assert fingerprint(skewed) != fingerprint(workload.crud(seed=7))


@for_each(
    ("key", "drawn"),
    [  # weights 6, 3 and 2 of 11
        (b"oldest", 0.0),
        (b"oldest", 5.9 / 11),
        (b"middle", 6.1 / 11),
        (b"middle", 8.9 / 11),
        (b"newest", 9.1 / 11),
        (b"newest", math.nextafter(1, 0)),
        (b"newest", 1.0),  # what rounding may make of the largest draw
    ],
)
def test_the_oldest_key_is_the_hottest(key, drawn):
    assert key == keys_of().draw(Fixed(drawn))


def test_the_newest_key_takes_the_place_of_a_deleted_one():
    known = keys_of()
    known.remove(b"oldest")

    assert [b"newest", b"middle"] == [known.draw(Fixed(drawn)) for drawn in (0.6, 0.7)]


def test_a_key_that_becomes_known_again_starts_at_the_end():
    known = keys_of()
    known.draw(Fixed(0))
    known.remove(b"oldest")
    known.add(b"oldest")

    assert b"oldest" == known.draw(Fixed(0.99))


@for_each("exponent", [0.5, 1.0, 3.0])
def test_places_come_and_go_and_chances_stay_in_proportion(exponent):
    """Five keys left of a thousand: place k is drawn 1 / k**s times as often as place 1."""
    known = keys_of(exponent, [b"%d" % number for number in range(1_000)])
    rng = random.Random(1)
    known.draw(rng)
    for number in range(5, 1_000):
        known.remove(b"%d" % number)
    counts = Counter(known.draw(rng) for _ in range(50_000))

    for place in range(1, 6):
        wanted = counts[b"0"] * place**-exponent
        assert wanted == pytest.approx(counts[b"%d" % (place - 1)], rel=0.1, abs=5 * wanted**0.5)


def test_a_skewed_client_forgets_what_it_deletes():
    operations = Operations(
        Workload(mix={"retrieve": 1, "delete": 1}, preload=1, key_choice="zipf", sizes="fixed")
    )
    for key in (b"%d" % number for number in range(50)):
        operations.created(key)
    deleted: set[bytes] = set()
    while len(operations.known):
        operation = operations.draw()
        assert operation.key not in deleted
        if operation.kind == DELETE:
            deleted.add(operation.key)

    assert 50 == len(deleted)


def test_without_a_choice_all_keys_are_alike():
    operations = Operations(workload.crud())

    assert type(operations.known) is KnownKeys
    assert ("uniform", 1.0) == (workload.crud().key_choice, workload.crud().zipf_exponent)


def test_the_choice_survives_the_journey_to_another_process():
    skewed = workload.reads(key_choice="zipf", zipf_exponent=0.99)

    assert skewed == Workload(**json.loads(json.dumps(skewed.as_dict())))


def test_settings_saved_before_there_was_a_choice_can_be_read():
    old = workload.crud().as_dict()
    del old["key_choice"], old["zipf_exponent"]

    assert workload.crud() == Workload(**old)


def test_a_skewed_run_is_answered_and_says_what_it_was(quick_server):
    skewed = workload.reads(keys=5, key_choice="zipf", sizes="fixed", value_bytes_mean=10)
    run = load.run(bounded, quick_server, skewed, in_flight=4, calls=200)

    assert {"OK": 200} == run.outcomes()
    assert skewed == Workload(**run.settings["workload"])


@for_each(
    ("named", "settings"),
    [
        ("key_choice must be 'uniform' or 'zipf', got 'hot'", {"key_choice": "hot"}),
        ("zipf_exponent must be above 0 and at most 10, got 0: ", {"zipf_exponent": 0}),
        ("zipf_exponent must be .* got -1", {"key_choice": "zipf", "zipf_exponent": -1}),
        ("zipf_exponent must be .* got nan", {"zipf_exponent": math.nan}),
        ("zipf_exponent must be .* got inf", {"zipf_exponent": math.inf}),
        ("keys without skew choose 'uniform'", {"zipf_exponent": 0}),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(named, settings):
    with pytest.raises(ValueError, match=named):
        Workload(**settings)
