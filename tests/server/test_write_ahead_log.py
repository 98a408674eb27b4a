"""durable.py: one flipped bit in the middle is damage; what a crash leaves is not."""

import shutil

import pytest

from kvstore.protocol import CREATE, OK
from kvstore.server import ServerSettings
from kvstore.server.durable import FILE_NAME, DurableStore, damage


@pytest.fixture
def log(tmp_path):
    """The log of a store that was killed after forty writes."""
    place = f"sqlite:{tmp_path}/data"
    store = DurableStore(ServerSettings(store=place, use_asyncio=True, write_delay_s=0))
    for number in range(40):
        write = store.write(bytes([CREATE]), [b"%d" % number], [b"value"])
        assert OK == write.result()[0][0]
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    store.close()
    return tmp_path / "copy" / f"{FILE_NAME}-wal"


@pytest.mark.parametrize(
    ("at", "says"), [(0.0, "in its header"), (0.3, "at frame"), (0.7, "at frame")]
)
def test_a_flipped_bit_is_named_with_its_place(at, says, log):
    whole = log.read_bytes()
    damaged = bytearray(whole)
    damaged[8 + int(at * len(whole))] ^= 1
    log.write_bytes(damaged)
    try:
        assert damage(log).startswith(says)
        with pytest.raises(OSError, match=r"is damaged .*acknowledged writes .*Put a copy"):
            DurableStore(ServerSettings(store=f"sqlite:{log.parent}", use_asyncio=True))
    finally:
        log.write_bytes(whole)


def test_damage_is_named_in_each_transaction_but_the_last(log):
    """A crash leaves the last one unfinished; the one before it was acknowledged, and is lost."""
    whole = log.read_bytes()
    frame_bytes = 24 + int.from_bytes(whole[8:12], "big")
    frames = [*range(32, len(whole) - frame_bytes + 1, frame_bytes)]
    silent = []
    for number, at in enumerate(frames, start=1):
        damaged = bytearray(whole)
        damaged[at + frame_bytes // 2] ^= 1
        log.write_bytes(damaged)
        if not damage(log):
            silent.append(number)
    log.write_bytes(whole)

    last_before = max(
        number
        for number, at in enumerate(frames[:-1], start=1)
        if int.from_bytes(whole[at + 4 : at + 8], "big")  # it ends a transaction
    )
    assert silent == [*range(last_before + 1, len(frames) + 1)]


@pytest.mark.parametrize("cut", [0, 1, 100, 5000, 10_000])
def test_a_log_that_ends_early_is_what_a_crash_leaves(cut, log):
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole) - cut])

    assert "" == damage(log)
    log.write_bytes(whole)


def test_no_log_is_no_damage(tmp_path):
    assert "" == damage(tmp_path / "none")
