"""Which of several servers, or of several generators, a key belongs to.

Both sides have to agree, in every process and in every run, so Python's own `hash` is of no
use: it is salted anew in each process. CRC-32 is stable, spreads short keys well, and costs a
tenth of a microsecond.
"""

from zlib import crc32


def shard_of(key: bytes, shards: int) -> int:
    """The number of the server, from 0, that keeps a key."""
    return crc32(key) % shards


def generator_of(key: bytes, generators: int) -> int:
    """The number of the generator, from 0, that may ask for a key.

    Taken from other bits than `shard_of`: with as many generators as servers, each would
    otherwise speak to one server only.
    """
    return (crc32(key) >> 16) % generators
