"""`python -m kvstore.run_folder PID FOLDER`: delete a folder when the parent has ended.

`subprocesses.private_folder` starts this module. It is no `child`: monitoring begins after the
imports, so that a parent which is killed meanwhile does not leave its folder.
"""

import shutil
import sys
import threading
import time
from pathlib import Path

from kvstore.parent import at_orphaned, end_with_parent

TRY_S = 10.0
"""Seconds to try: programs that write to the folder end with the same parent, a little later."""


def main() -> None:
    """Wait. The threads that monitor the parent end this process."""
    pid, folder = sys.argv[1:]
    at_orphaned(lambda: _delete(Path(folder)))
    end_with_parent(int(pid))
    threading.Event().wait()


def _delete(folder: Path) -> None:
    end_s = time.monotonic() + TRY_S
    while folder.exists() and time.monotonic() < end_s:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.1)


if __name__ == "__main__":
    main()
