"""shards.py: who a key belongs to is the same everywhere, and evenly shared out."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import kvstore
from kvstore.shards import generator_of, shard_of

KEYS = [b"key %d" % number for number in range(20_000)]


def test_a_key_has_the_same_place_in_every_process():
    """Python's own hash is another one in each."""
    told = subprocess.run(
        [
            sys.executable, "-c",
            "from kvstore.shards import *; print(shard_of(b'a key', 1000),"
            " generator_of(b'a key', 1000))",
        ],
        cwd=Path(kvstore.__file__).parents[1], check=True, capture_output=True, text=True,
    )  # fmt: skip

    # CRC-32 of b"a key" is 0xB7937465 = 3079894117; its upper half is 0xB793 = 46995.
    assert "117 995" == told.stdout.strip()
    assert (117, 995) == (shard_of(b"a key", 1000), generator_of(b"a key", 1000))


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("place", [shard_of, generator_of])
def test_keys_are_shared_out_evenly(place, count):
    found = Counter(place(key, count) for key in KEYS)

    assert set(range(count)) == set(found)
    assert min(found.values()) > 0.9 * len(KEYS) / count


def test_every_generator_speaks_to_every_server():
    pairs = Counter((shard_of(key, 2), generator_of(key, 2)) for key in KEYS)

    assert min(pairs.values()) > 0.9 * len(KEYS) / 4


@pytest.mark.parametrize("count", [2, 3, 8, 16, 32])
def test_even_keys_of_one_byte_reach_everybody(count):
    single = [bytes([number]) for number in range(256)]

    assert set(range(count)) == {generator_of(key, count) for key in single}
