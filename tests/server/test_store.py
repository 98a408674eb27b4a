"""store.py: who waits for whom and how long, and what each operation does, without a clock."""

import asyncio
import random
import threading
from queue import SimpleQueue
from typing import Any

import pytest
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
from kvstore.server import LOCKINGS, ServerSettings
from kvstore.server import store as store_module
from kvstore.server.store import ASYNC_LOCKS, DETAILS, LOCKS, Disk, KeyLocks, Store

# ---- locks --------------------------------------------------------------------------------------


HANG_S = 10.0
"""What ought to happen at once gets this long on a busy machine."""
SHORT_S = 0.02
"""What ought not to happen is looked for this long; the look can only miss, not fail."""

WHO_WAITS = [
    # locking, first operation, second operation, whether the second waits for the first
    ("global", (UPDATE, b"a"), (UPDATE, b"a"), True),
    ("global", (UPDATE, b"a"), (UPDATE, b"b"), True),
    ("global", (RETRIEVE, b"a"), (RETRIEVE, b"b"), True),
    ("per_key_held", (UPDATE, b"a"), (DELETE, b"a"), True),
    ("per_key_held", (UPDATE, b"a"), (UPDATE, b"b"), False),
    ("per_key_held", (UPDATE, b"a"), (RETRIEVE, b"a"), False),
    ("per_key_held", (RETRIEVE, b"a"), (UPDATE, b"a"), False),
    ("per_key", (CREATE, b"a"), (CREATE, b"b"), False),
    ("per_key", (RETRIEVE, b"a"), (RETRIEVE, b"a"), False),
]


@for_each(("locking", "first", "second", "waits"), WHO_WAITS)
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


@for_each(("locking", "first", "second", "waits"), WHO_WAITS)
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


WHO_WAITS_FOR_A_BATCH = [
    # locking, the batch's operations, an operation beside it, whether that one waits
    ("global", [(UPDATE, b"a"), (RETRIEVE, b"b")], (RETRIEVE, b"c"), True),
    ("per_key_held", [(UPDATE, b"a"), (DELETE, b"b"), (UPDATE, b"a")], (UPDATE, b"b"), True),
    ("per_key_held", [(UPDATE, b"a"), (RETRIEVE, b"b")], (UPDATE, b"b"), False),
    ("per_key_held", [(UPDATE, b"a"), (DELETE, b"b")], (RETRIEVE, b"b"), False),
]


@for_each(("locking", "batch", "beside", "waits"), WHO_WAITS_FOR_A_BATCH)
def test_who_waits_for_a_batch_among_threads(locking, batch, beside, waits):
    locks = LOCKS[locking]()
    entered = threading.Event()

    def enter() -> None:
        with locks.holding(*beside):
            entered.set()

    other = threading.Thread(target=enter)
    with locks.holding_all(bytes(kind for kind, _ in batch), [key for _, key in batch]):
        other.start()
        came_in = entered.wait(SHORT_S if waits else HANG_S)
    other.join(HANG_S)

    assert waits == (not came_in)
    assert entered.is_set()


@for_each(("locking", "batch", "beside", "waits"), WHO_WAITS_FOR_A_BATCH)
def test_who_waits_for_a_batch_among_tasks(locking, batch, beside, waits):
    async def scene() -> tuple[bool, bool]:
        locks = ASYNC_LOCKS[locking]()
        entered = asyncio.Event()

        async def enter() -> None:
            async with locks.holding(*beside):
                entered.set()

        async with locks.holding_all(bytes(kind for kind, _ in batch), [key for _, key in batch]):
            other = asyncio.create_task(enter())
            await turns()
            came_in = entered.is_set()
        await asyncio.wait_for(other, HANG_S)
        return came_in, entered.is_set()

    assert (not waits, True) == asyncio.run(scene())


def test_two_batches_that_want_the_same_keys_do_not_wait_for_ever():
    """Whatever order they name them in, they take them in the same."""

    async def scene() -> None:
        locks = ASYNC_LOCKS["per_key_held"]()

        async def commit(keys: list[bytes]) -> None:
            async with locks.holding_all(bytes([UPDATE, UPDATE]), keys):
                await turns()

        # Another writer has one key: both batches are in the middle of taking when it lets go.
        async with locks.holding(UPDATE, b"a"):
            both = [asyncio.create_task(commit(keys)) for keys in ([b"a", b"b"], [b"b", b"a"])]
            await turns()
        await asyncio.wait_for(asyncio.gather(*both), HANG_S)

    asyncio.run(scene())


def test_two_writers_of_one_key_never_change_its_entry_at_once():
    """Under `per_key` too: what is not held through the disk is held in the dictionary."""
    locks = LOCKS["per_key"]()
    entered = threading.Event()

    def write() -> None:
        with locks.holding(UPDATE, b"a"):
            entered.set()

    other = threading.Thread(target=write)
    with locks.holding(UPDATE, b"a"):
        other.start()
        early = entered.wait(SHORT_S)
    other.join(HANG_S)

    assert not early


@for_each(
    ("locking", "through_disk"), [("global", True), ("per_key", False), ("per_key_held", True)]
)
def test_whether_the_disk_time_is_spent_inside_the_lock(locking, through_disk):
    assert through_disk == LOCKS[locking]().through_disk == ASYNC_LOCKS[locking]().through_disk
    assert set(LOCKINGS) == set(LOCKS) == set(ASYNC_LOCKS)


@for_each("locking", ["per_key", "per_key_held"])
def test_the_table_of_locks_is_empty_again_after_the_writes(locking):
    """Else it would grow by every key ever written."""
    locks = LOCKS[locking]()
    seen: list[int] = []
    counters = dict.fromkeys((b"a", b"b", b"c"), 0)

    def write(key: bytes) -> None:
        for _ in range(200):
            with locks.holding(UPDATE, key):
                seen.append(len(locks._writers))
                counters[key] += 1

    writers = [threading.Thread(target=write, args=(key,)) for key in counters for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(HANG_S)

    assert {} == locks._writers
    assert 1 <= max(seen) <= 3
    assert {600} == set(counters.values())


def test_the_table_of_locks_for_tasks_is_empty_again():
    async def scene() -> tuple[dict, int]:
        locks = ASYNC_LOCKS["per_key_held"]()
        inside = most = 0

        async def write(key: bytes) -> None:
            nonlocal inside, most
            async with locks.holding(UPDATE, key):
                inside += key == b"a"
                most = max(most, inside)
                await turns()
                inside -= key == b"a"

        await asyncio.gather(*(write(key) for key in [b"a", b"b", b"a", b"c", b"a"]))
        return locks._writers, most

    assert ({}, 1) == asyncio.run(scene())


def test_a_writer_that_comes_later_waits_for_those_before_it_among_threads():
    """The first has left, the second is inside, and the third comes: they share one lock."""
    came: SimpleQueue[Any] = SimpleQueue()

    class Watched:
        """A lock that reports who comes to it, before it is acquired."""

        def __init__(self) -> None:
            self.lock = threading.Lock()

        def __enter__(self) -> None:
            came.put(self)
            self.lock.acquire()

        def __exit__(self, *error: object) -> None:
            self.lock.release()

    locks = KeyLocks(through_disk=True, lock=Watched)
    inside, leave = threading.Event(), threading.Event()

    def second() -> None:
        with locks.holding(UPDATE, b"a"):
            inside.set()
            leave.wait(HANG_S)

    def third() -> None:
        with locks.holding(UPDATE, b"a"):
            pass

    writers = [threading.Thread(target=each) for each in (second, third)]
    with locks.holding(UPDATE, b"a"):
        first_lock = came.get(timeout=HANG_S)
        writers[0].start()
        second_lock = came.get(timeout=HANG_S)
    assert inside.wait(HANG_S)
    writers[1].start()
    third_lock = came.get(timeout=HANG_S)
    leave.set()
    for writer in writers:
        writer.join(HANG_S)

    assert first_lock is second_lock is third_lock


def test_a_writer_that_comes_later_waits_for_those_before_it_among_tasks():
    async def scene() -> list[str]:
        locks = ASYNC_LOCKS["per_key_held"]()
        seen, leave = [], {name: asyncio.Event() for name in ("first", "second", "third")}

        async def write(name: str) -> None:
            async with locks.holding(UPDATE, b"a"):
                seen.append(name)
                await leave[name].wait()

        writers = []
        for name in ("first", "second"):
            writers.append(asyncio.create_task(write(name)))
            await turns()
        leave["first"].set()
        await turns()
        writers.append(asyncio.create_task(write("third")))
        await turns()
        before = list(seen)
        leave["second"].set()
        leave["third"].set()
        await asyncio.wait_for(asyncio.gather(*writers), HANG_S)
        assert ["first", "second", "third"] == seen
        return before

    assert ["first", "second"] == asyncio.run(scene())


def test_an_operation_that_fails_gives_its_lock_back():
    for locking in LOCKINGS:
        locks = LOCKS[locking]()
        with pytest.raises(RuntimeError), locks.holding(UPDATE, b"a"):
            raise RuntimeError
        with locks.holding(UPDATE, b"a"):
            pass


@for_each("locking", LOCKINGS)
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


# ---- disk ---------------------------------------------------------------------------------------


BOTH = ServerSettings(read_delay_s=0.01, write_delay_s=0.05)


@pytest.fixture
def slept(monkeypatch) -> list[float]:
    """The seconds for which the callers would have slept."""
    slept: list[float] = []

    async def sleep(delay_s: float) -> None:
        slept.append(delay_s)

    monkeypatch.setattr(store_module.time, "sleep", slept.append)
    monkeypatch.setattr(store_module.asyncio, "sleep", sleep)
    return slept


@for_each(("delay_s", "kind"), [(0.01, RETRIEVE), (0.05, CREATE), (0.05, UPDATE), (0.05, DELETE)])
def test_reads_and_writes_take_their_own_time_on_both_stacks(delay_s, kind, slept):
    slept.clear()
    Disk(BOTH).work(kind)
    asyncio.run(Disk(BOTH).work_async(kind))

    assert delay_s == Disk(BOTH).delay_s(kind)
    assert [delay_s, delay_s] == slept


@for_each(
    ("instant", "read_delay_s", "write_delay_s"),
    [(True, 0, 0), (False, 0.01, 0), (False, 0, 0.01), (False, 0.01, 0.05)],
)
def test_a_disk_is_instant_when_nothing_waits(instant, read_delay_s, write_delay_s, slept):
    """Then it does not sleep at all: even a sleep of 0 s lets other threads run."""
    slept.clear()
    made = Disk(ServerSettings(read_delay_s=read_delay_s, write_delay_s=write_delay_s))
    made.work(RETRIEVE)
    asyncio.run(made.work_async(CREATE))

    assert instant == made.instant
    assert [delay_s for delay_s in (read_delay_s, write_delay_s) if delay_s] == slept


@for_each(("passed_s", "stalled_s"), [(0.0, 0.3), (0.1, 0.2), (0.4, 0.0), (1.1, 0.2), (1.9, 0.0)])
def test_a_stalled_disk_first_gets_over_its_stall(passed_s, stalled_s, slept, monkeypatch):
    slept.clear()
    monkeypatch.setattr(store_module.time, "perf_counter", lambda: 5.0)
    stalling = Disk(ServerSettings(read_delay_s=0.01, stall_s=0.3, stall_every_s=1.0))
    monkeypatch.setattr(store_module.time, "perf_counter", lambda: 5.0 + passed_s)
    stalling.work(RETRIEVE)
    asyncio.run(stalling.work_async(RETRIEVE))

    assert not stalling.instant
    assert pytest.approx([stalled_s + 0.01] * 2) == slept


# ---- data ---------------------------------------------------------------------------------------


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
