"""`python -m kvstore.run_child PID MODULE ...`: run a module that ends with its parent.

`subprocesses.child` starts its children in this way. Monitoring of the parent, whose process id is
PID, starts before the module is imported: imports of grpc and numpy take seconds on a busy machine,
and the parent may be killed meanwhile.
"""

import runpy
import sys

from kvstore.parent import end_with_parent


def main() -> None:
    """Monitor the parent; then run the module as `python -m MODULE ...` does."""
    pid, module, *arguments = sys.argv[1:]
    end_with_parent(int(pid))
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
