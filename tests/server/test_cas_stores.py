"""Without writes in between, all stores do the same; the tests show the difference with one."""

import random

import pytest

from kvstore.client import load, strategies, workload
from kvstore.protocol import (
    ALREADY_EXISTS,
    CREATE,
    DELETE,
    INVALID_ARGUMENT,
    NOT_FOUND,
    OK,
    RETRIEVE,
    UPDATE,
)
from kvstore.server import WRITINGS
from kvstore.server.store import STORES, CompareAndReplace, ReadThenWrite, Store


@pytest.mark.parametrize("writing", WRITINGS[1:])
def test_alone_they_all_do_what_the_plain_store_does(writing):
    rng = random.Random(7)
    store, plain = STORES[writing](), Store()
    for _ in range(2_000):
        kind = rng.choice([CREATE, RETRIEVE, UPDATE, DELETE, 99])
        key, value = rng.choice([b"", b"a", b"b", b"c"]), rng.randbytes(rng.randrange(2))
        seen = store.look(key)

        assert plain.apply(kind, key, value) == store.settle(kind, key, value, seen)
        assert plain._values == store._values


def between(store, kind, value, other, other_value):
    """Another call writes between the look and the write of this one; known before: "old"."""
    store.apply(CREATE, b"key", b"old")
    seen = store.look(b"key")
    store.apply(other, b"key", other_value)
    return store.settle(kind, b"key", value, seen)


def test_who_trusts_brings_back_what_was_deleted():
    store = ReadThenWrite()

    assert (OK, b"") == between(store, UPDATE, b"new", DELETE, b"")
    assert (OK, b"new") == store.apply(RETRIEVE, b"key", b"")
    assert (ALREADY_EXISTS, b"") == between(ReadThenWrite(), CREATE, b"new", DELETE, b"")


@pytest.mark.parametrize(("other", "value"), [(DELETE, b""), (UPDATE, b"theirs")])
@pytest.mark.parametrize("kind", [CREATE, UPDATE, DELETE])
def test_who_compares_begins_again_if_the_key_holds_something_else(kind, other, value):
    store = CompareAndReplace()

    assert between(store, kind, b"new", other, value) is None
    assert store.look(b"key") == (value or None)
    # An equal value is no change: what an operation does depends on the value alone.
    assert (OK, b"") == between(CompareAndReplace(), UPDATE, b"new", UPDATE, b"old")


@pytest.mark.parametrize("store", [ReadThenWrite(), CompareAndReplace()])
def test_a_read_tells_what_is_there_when_it_answers(store):
    assert (NOT_FOUND, b"") == between(store, RETRIEVE, b"", DELETE, b"")
    assert (INVALID_ARGUMENT, b"") == store.settle(CREATE, b"", b"x", store.look(b""))


@pytest.mark.slow
def test_writers_of_one_key_try_again_until_all_are_done(own_server):
    """Eight at once: each time one wins, and the others pay for the disk once more."""
    server = own_server(
        writing="compare_and_replace", write_delay_s=0.01, threads=16, station_times=True
    )
    one_key = workload.writes(keys=1, value_bytes_mean=64)
    run = load.run(strategies.threads, server, one_key, in_flight=8, calls=40)

    assert {"OK": 40} == run.outcomes()
    calls = run.calls
    at_stations_s = calls[["pool_s", "lock_s", "disk_s", "rest_s"]].sum(axis=1)
    assert (at_stations_s < calls["residence_s"]).all()
    tries = calls["disk_s"] / 0.01
    assert tries.min() > 0.8  # timers of whole milliseconds may be a little early
    assert tries.mean() > 2
    assert run.window_s > 0.8 * 40 * 0.01  # one wins in each disk time: no more than with a lock
