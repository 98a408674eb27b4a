"""`python -m kvstore.client FOLDER`: the process of a run that `run_in_process` has planned."""

import os
import sys
from pathlib import Path

from kvstore.client.separate_process import work_for_parent

if __name__ == "__main__":
    work_for_parent(Path(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of cancelled calls must not hold the process back
