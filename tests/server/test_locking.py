"""locking.py: who waits for whom, on threads and on tasks, decided without a clock."""

import asyncio
import threading

import pytest
from tables import for_each

from kvstore.protocol import CREATE, DELETE, RETRIEVE, UPDATE
from kvstore.server import LOCKINGS
from kvstore.server.locking import ASYNC_LOCKS, LOCKS

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
