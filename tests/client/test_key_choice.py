"""workload.py: which of the known keys is asked for."""

import json
import math
import random
from collections import Counter
from hashlib import sha256

import pytest

from kvstore.client import load, workload
from kvstore.client.strategies import bounded
from kvstore.client.workload import KnownKeys, Operations, Workload, ZipfKeys
from kvstore.codes import CREATE, DELETE

THREE = [b"oldest", b"middle", b"newest"]


class Fixed(random.Random):
    """Draws what it is told to."""

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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("exponent", [0.5, 1.0, 3.0])
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


@pytest.mark.parametrize(
    ("named", "settings"),
    [
        ("key_choice must be 'uniform' or 'zipf', got 'hot'", {"key_choice": "hot"}),
        ("zipf_exponent must be above 0 and at most 10, got 0: ", {"zipf_exponent": 0}),
        ("zipf_exponent must be .* got -1", {"key_choice": "zipf", "zipf_exponent": -1}),
        ("zipf_exponent must be .* got nan", {"zipf_exponent": math.nan}),
        ("zipf_exponent must be .* got inf", {"zipf_exponent": math.inf}),
        ("keys that are all alike choose 'uniform'", {"zipf_exponent": 0}),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(named, settings):
    with pytest.raises(ValueError, match=named):
        Workload(**settings)
