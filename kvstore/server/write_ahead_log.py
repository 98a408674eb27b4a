"""Find damage in SQLite's write-ahead log, which SQLite itself passes over in silence.

SQLite reads the log up to the first frame whose checksum is wrong, and ignores the rest: after a
crash, the rest was never acknowledged. A damaged frame in the middle looks the same to it, and all
writes after it are gone. Here, whole transactions after the wrong frame show the difference.

The format: https://www.sqlite.org/fileformat2.html, section 4, "The Write-Ahead Log".
"""

import struct
from pathlib import Path

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = 0x377F0682


def damage(path: Path) -> str:
    """Return where the log is damaged, in words; empty if it is not, or if there is none.

    Damage in the last transaction looks like a crash that came while it was written.
    """
    try:
        log = path.read_bytes()
    except FileNotFoundError:
        return ""
    if len(log) <= _HEADER.size:
        return ""
    magic, _, page_bytes, _, salt_1, salt_2, *stated = _HEADER.unpack_from(log)
    order = ">" if magic & 1 else "<"
    checksum = _checksum(log[:24], (0, 0), order)
    if magic & ~1 != _MAGIC or checksum != tuple(stated):
        return "in its header"
    size = _FRAME.size + page_bytes
    wrong = 0
    commits_after = 0
    for number, at in enumerate(range(_HEADER.size, len(log) - size + 1, size), 1):
        _, commit, first, second, *stated = _FRAME.unpack_from(log, at)
        if not wrong:
            if (first, second) == (salt_1, salt_2):
                checksum = _checksum(log[at : at + 8], checksum, order)
                checksum = _checksum(log[at + _FRAME.size : at + size], checksum, order)
            if (first, second) != (salt_1, salt_2) or checksum != tuple(stated):
                wrong = number
        elif (first, second) == (salt_1, salt_2) and commit:
            commits_after += 1
    # The transaction of the wrong frame may be the last one, which a crash left unfinished.
    return f"at frame {wrong}, with {commits_after:,} commits after it" if commits_after > 1 else ""


def _checksum(data: bytes, start: tuple[int, int], order: str) -> tuple[int, int]:
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    low, high = start
    for even, odd in zip(words[::2], words[1::2], strict=True):
        low = (low + even + high) & 0xFFFFFFFF
        high = (high + odd + low) & 0xFFFFFFFF
    return low, high
