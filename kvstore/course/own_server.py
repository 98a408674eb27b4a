"""`python -m kvstore.course.own_server FILE`: a server of the learner, in a process of its own.

FILE has a function and its arguments, as `own_code.serving_own` wrote them. The function returns
the running server and its port. The process prints the address, and ends with its parent.
"""

import pickle
import sys
import threading
from pathlib import Path

from kvstore.subprocesses import listen


def main() -> None:
    """Serve until the parent stops this process."""
    start, arguments = pickle.loads(Path(sys.argv[1]).read_bytes())
    server, port = start(*arguments)
    stopped = threading.Event()
    listen(stopped.set)
    print(f"127.0.0.1:{port}", flush=True)
    stopped.wait()
    server.stop(0)


if __name__ == "__main__":
    main()
