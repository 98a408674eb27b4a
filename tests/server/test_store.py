"""store.py: who waits for whom and how long, and what each operation does, without a clock."""

import asyncio
import random
import statistics
import threading

import pytest

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
from kvstore.server import LOCKINGS, ServerSettings
from kvstore.server import store as store_module
from kvstore.server.store import ASYNC_LOCKS, LOCKS, Disk, Store, disk_for
from kvstore.server_settings import DISK_TIMES

HANG_S = 10.0
"""What ought to happen at once gets this long on a busy machine."""
SHORT_S = 0.02
"""What ought not to happen is looked for this long; the look can only miss, not fail."""

A, B = b"a", b"b"
WHO_WAITS = [
    # locking, an operation that holds its lock, another one beside it, whether that one waits
    ("global", (UPDATE, A), (UPDATE, B), True),
    ("global", (RETRIEVE, A), (RETRIEVE, B), True),
    ("per_key_held", (UPDATE, A), (DELETE, A), True),
    ("per_key_held", (UPDATE, A), (UPDATE, B), False),
    ("per_key_held", (UPDATE, A), (RETRIEVE, A), False),
    ("per_key_held", (RETRIEVE, A), (UPDATE, A), False),
    ("per_key", (CREATE, A), (CREATE, B), False),
    ("per_key", (RETRIEVE, A), (RETRIEVE, A), False),
]


@pytest.mark.parametrize(
    ("locking", "first", "second", "waits"),
    # On an event loop no other task runs during a step, so `per_key` locks nothing there.
    [*WHO_WAITS, ("per_key", (UPDATE, A), (UPDATE, A), True)],
)
def test_who_waits_for_whom_among_threads(locking, first, second, waits):
    locks = LOCKS[locking]()
    entered = threading.Event()

    def enter() -> None:
        with locks.holding(*second):
            entered.set()

    other = threading.Thread(target=enter)
    with locks.holding(*first):
        other.start()
        came_in = entered.wait(SHORT_S if waits else HANG_S)
    other.join(HANG_S)

    assert waits == (not came_in)
    assert entered.is_set()  # afterwards, at the latest


@pytest.mark.parametrize(("locking", "first", "second", "waits"), WHO_WAITS)
def test_who_waits_for_whom_among_tasks(locking, first, second, waits):
    async def scene() -> tuple[bool, bool]:
        locks = ASYNC_LOCKS[locking]()
        entered = asyncio.Event()

        async def enter() -> None:
            async with locks.holding(*second):
                entered.set()

        async with locks.holding(*first):
            other = asyncio.create_task(enter())
            await turns()
            came_in = entered.is_set()
        await asyncio.wait_for(other, HANG_S)
        return came_in, entered.is_set()

    assert (not waits, True) == asyncio.run(scene())


def test_an_operation_that_fails_gives_its_lock_back():
    for locking in LOCKINGS:
        locks = LOCKS[locking]()
        with pytest.raises(RuntimeError), locks.holding(UPDATE, b"a"):
            raise RuntimeError
        with locks.holding(UPDATE, b"a"):
            pass


@pytest.mark.parametrize("locking", LOCKINGS)
def test_a_task_cancelled_while_it_waits_leaves_nothing_behind(locking):
    async def scene() -> None:
        locks = ASYNC_LOCKS[locking]()

        async def write() -> None:
            async with locks.holding(UPDATE, b"a"):
                await turns()

        async with locks.holding(UPDATE, b"a"):
            waiting = asyncio.create_task(write())
            await turns()
            waiting.cancel()
            await asyncio.wait([waiting])
        await asyncio.wait_for(write(), HANG_S)
        assert not getattr(locks, "_writers", {})

    asyncio.run(scene())


async def turns(count: int = 5) -> None:
    """Let every other task run as far as it can."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
def slept(monkeypatch) -> list[float]:
    """The seconds for which the callers would have slept."""
    slept: list[float] = []

    async def sleep(delay_s: float) -> None:
        slept.append(delay_s)

    monkeypatch.setattr(store_module.time, "sleep", slept.append)
    monkeypatch.setattr(store_module.asyncio, "sleep", sleep)
    return slept


@pytest.mark.parametrize(
    ("passed_s", "stalled_s"),
    [
        (0.1, 0.2),
        (0.4, 0.0),
        (1.1, 0.2),
    ],
)
def test_a_stalled_disk_first_gets_over_its_stall(passed_s, stalled_s, slept, monkeypatch):
    monkeypatch.setattr(store_module.time, "perf_counter", lambda: 5.0)
    stalling = Disk(ServerSettings(read_delay_s=0.01, stall_s=0.3, stall_every_s=1.0))
    monkeypatch.setattr(store_module.time, "perf_counter", lambda: 5.0 + passed_s)
    stalling.work(RETRIEVE)
    asyncio.run(stalling.work_async(RETRIEVE))

    assert not stalling.instant
    assert pytest.approx([stalled_s + 0.01] * 2) == slept


def drawn_s(count: int, **settings) -> list[float]:
    """The disk times of this many reads."""
    disk = disk_for(ServerSettings(read_delay_s=0.01, **settings))
    return [disk.delay_s(RETRIEVE) for _ in range(count)]


@pytest.mark.parametrize(
    ("disk_times", "variability"),
    [("fixed", 0.0), ("two_point", 4.0), ("exponential", 1.0), ("heavy_tailed", 4.0)],
)
def test_disk_times_vary_around_the_same_mean(disk_times, variability):
    times_s = drawn_s(200_000, disk_times=disk_times)
    mean_s = statistics.fmean(times_s)

    assert mean_s == pytest.approx(0.01, rel=0.02)
    # The variance of a lognormal variable is estimated badly: its largest values decide.
    assert statistics.pvariance(times_s) / mean_s**2 == pytest.approx(variability, rel=0.2)


@pytest.mark.parametrize("disk_times", [name for name in DISK_TIMES if name != "fixed"])
def test_the_same_seed_draws_the_same_disk_times(disk_times):
    first = drawn_s(50, disk_times=disk_times, disk_seed=3)

    assert first == drawn_s(50, disk_times=disk_times, disk_seed=3)
    assert first != drawn_s(50, disk_times=disk_times, disk_seed=4)


@pytest.mark.parametrize("seed", range(3))
def test_a_store_behaves_as_a_dictionary_does(seed):
    """An unknown kind and an empty key are refused; an empty value is a value."""
    rng = random.Random(seed)
    store, model = Store(), dict[bytes, bytes]()
    for _ in range(3_000):
        kind = rng.choice([CREATE, RETRIEVE, UPDATE, DELETE] * 4 + [0, 5, 255])
        key = b"\xff\x00"[: rng.randrange(3)] * rng.randrange(4)
        value = rng.randbytes(rng.choice([0, 4]))
        known = key in model
        if not key or kind not in (CREATE, RETRIEVE, UPDATE, DELETE):
            expected = (INVALID_ARGUMENT, b"")
        elif kind == CREATE:
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


KEYS = (b"", b"a", b"b", b"c", b"d")


@pytest.mark.parametrize("kinds", [(RETRIEVE,), (RETRIEVE, UPDATE), range(6)])
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
