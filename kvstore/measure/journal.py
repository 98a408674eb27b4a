"""Records kept on file while a run lasts, for the day its process is killed.

They are copied when a sample is taken, all that are new at once: a copy of 56 bytes for each call
and no more work while calls are made. The system keeps what was written even when the process that
wrote it is killed; lost is what came after the last sample, and what was in flight.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvstore.measure.recorder import CALL, Recorder


class Journal:
    """Keeps a copy of the records on file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = 0

    def keep(self, recorder: Recorder) -> None:
        """Write what is new since the last time. Raises `OSError` where nothing can be written."""
        new = recorder.since(self._kept)
        with self._path.open("ab", buffering=0) as file:
            file.write(new.tobytes())
        self._kept += len(new)


def kept_in(path: Path) -> npt.NDArray[np.void]:
    """The records that a journal kept; none where there is no file, or not one whole record."""
    stored = path.read_bytes() if path.exists() else b""
    whole = len(stored) - len(stored) % CALL.itemsize  # its process may have died while it wrote
    return np.frombuffer(stored[:whole], dtype=CALL)
