"""Run an etcd cluster on this machine until Ctrl-C: `python3 course.py class etcd`."""

import sys

from kvstore.server.etcd_nodes import main

if __name__ == "__main__":
    sys.exit(main())
