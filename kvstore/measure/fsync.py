"""How long this machine's disk takes to have something for certain."""

import os
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt


def fsyncs_s(
    folder: str | Path, *, times: int = 50, written_bytes: int = 4096
) -> npt.NDArray[np.float64]:
    """Seconds that each of `times` appends of `written_bytes` took until the disk had it.

    In a file of its own in `folder`, which is removed again. What comes out is the disk below
    this folder: on a folder that lives in memory (tmpfs) it is next to nothing, and a disk
    with a battery lies close to it. On macOS the drive itself is told to write (F_FULLFSYNC).

    Raises `ValueError` for less than one time or byte, `OSError` for a folder that cannot be
    written.
    """
    for name, value in (("times", times), ("written_bytes", written_bytes)):
        if not value >= 1:
            raise ValueError(f"{name} must be 1 or more, got {value}")
    file = Path(folder) / f"fsync-{os.getpid()}"
    taken_s = np.empty(times)
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        for number in range(times):
            began_s = time.perf_counter()
            os.write(descriptor, bytes(written_bytes))
            _sync(descriptor)
            taken_s[number] = time.perf_counter() - began_s
    finally:
        os.close(descriptor)
        file.unlink()
    return taken_s


def _sync(descriptor: int) -> None:
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)
