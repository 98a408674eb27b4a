"""durable.py: what was answered is in the file, in groups or one by one, and errors have words."""

import random
import sqlite3
import threading
from concurrent.futures import CancelledError
from typing import Any

import pytest

from kvstore.protocol import (
    CREATE,
    DELETE,
    INTERNAL,
    NOT_FOUND,
    OK,
    RETRIEVE,
    UPDATE,
)
from kvstore.server.durable import FILE_NAME, DurableStore
from kvstore.server.store import Store
from kvstore.server_settings import ServerSettings

HANG_S = 15.0
ON_LOOP = {"use_asyncio": True}


@pytest.fixture
def opened(tmp_path):
    """Opens stores on one folder, and closes those that a test left open."""
    stores = []

    def open_store(**settings: Any) -> DurableStore:
        chosen = {"store": f"sqlite:{tmp_path}/data", "write_delay_s": 0.0, **ON_LOOP, **settings}
        stores.append(DurableStore(ServerSettings(**chosen)))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


class Gate:
    """A disk whose first write takes until the gate is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def work(self, kind: int) -> None:
        self.reached.set()
        assert self.opened.wait(HANG_S)


def create(store: DurableStore, key: bytes, value: bytes) -> int:
    """The status of a create, once it is on the disk."""
    return store.write(bytes([CREATE]), [key], [value]).result(HANG_S)[0][0]


@pytest.mark.parametrize("group_commit", [False, True])
def test_it_does_what_a_store_in_memory_does_and_knows_it_when_opened_again(group_commit, opened):
    rng = random.Random(9)
    keys, memory, durable = (b"", b"a", b"b", b"c"), Store(), opened(group_commit=group_commit)
    for number in range(60):
        kinds = bytes(rng.choice((CREATE, RETRIEVE, UPDATE, DELETE, 99)) for _ in range(3))
        requested = [rng.choice(keys) for _ in kinds]
        values = [b"%d" % number] * (kinds.count(CREATE) + kinds.count(UPDATE))

        assert memory.apply_columns(kinds, requested, values) == durable.write(
            kinds, requested, values
        ).result(HANG_S)
    durable.close()

    assert 0 < len(memory)
    assert memory._values == durable.memory._values == opened().memory._values


def test_the_file_is_set_to_survive_a_loss_of_power(opened):
    """Killing a process cannot show it: what the system holds in memory survives that."""
    store = opened()
    found = {
        name: store._file.execute(f"pragma {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "locking_mode", "fullfsync")
    }

    assert {
        "journal_mode": "wal",
        "synchronous": 2,
        "locking_mode": "exclusive",
        "fullfsync": 1,
    } == found


@pytest.mark.parametrize(("group_commit", "commits"), [(False, 11), (True, 2)])
def test_what_waits_while_one_is_on_the_disk_is_the_next_group(group_commit, commits, opened):
    store = opened(group_commit=group_commit)
    store._disk = gate = Gate()
    said: list[str] = []
    store._file.set_trace_callback(said.append)
    writes = [store.write(bytes([CREATE]), [b"0"], [b"v"])]
    assert gate.reached.wait(HANG_S)
    writes += [store.write(bytes([CREATE]), [b"%d" % n], [b"v"]) for n in range(1, 11)]
    before = (store.memory.apply(RETRIEVE, b"0", b""), any(write.done() for write in writes))
    gate.opened.set()

    assert [(bytes([OK]), [])] * 11 == [write.result(HANG_S) for write in writes]
    assert ((NOT_FOUND, b""), False) == before  # no reader sees what a crash could undo
    assert commits == said.count("COMMIT")
    assert b"v" == store.memory.apply(RETRIEVE, b"7", b"")[1]


def test_who_left_before_his_turn_is_not_written(opened):
    store = opened(group_commit=False)
    store._disk = gate = Gate()
    kept = store.write(bytes([CREATE]), [b"kept"], [b""])
    assert gate.reached.wait(HANG_S)
    left = store.write(bytes([CREATE]), [b"left"], [b""])
    assert left.cancel()
    assert not kept.cancel()  # the disk has it already, or will
    gate.opened.set()
    store.close()

    assert OK == kept.result()[0][0]
    with pytest.raises(CancelledError):
        left.result()
    assert {b"kept": b""} == opened().memory._values


def test_a_disk_that_refuses_is_never_trusted_again(opened, caplog):
    store = opened(group_commit=True)
    create(store, b"before", b"1")
    (pages,) = store._file.execute("pragma page_count").fetchone()
    store._file.execute(f"pragma max_page_count = {pages}")
    full = create(store, b"large", bytes(100_000))
    store._file.execute("pragma max_page_count = 100000")

    assert INTERNAL == full == create(store, b"a", b"")
    assert {b"before": b"1"} == store.memory._values
    assert "database or disk is full" in caplog.text
    store.close()
    assert {b"before": b"1"} == opened().memory._values


def test_a_second_server_on_the_folder_is_refused(opened):
    first = opened()
    with pytest.raises(OSError, match=r"another server has its data in .*: give each"):
        opened()
    create(first, b"k", b"v")
    first.close()

    assert 1 == len(opened().memory)


def test_a_page_that_was_overwritten_is_found(tmp_path, opened):
    store = opened()
    for number in range(40):
        create(store, b"%d" % number, bytes(500))
    store.close()
    file = tmp_path / "data" / FILE_NAME
    with sqlite3.connect(file) as healthy:
        (page_bytes,) = healthy.execute("pragma page_size").fetchone()
    healthy.close()
    content = bytearray(file.read_bytes())
    content[2 * page_bytes : 3 * page_bytes] = b"\xff" * page_bytes
    file.write_bytes(content)

    with pytest.raises(OSError, match=r"is damaged"):
        opened()
