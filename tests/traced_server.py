"""`python -m kvstore.server`, which at its end prints how often each function of ours was called.

The last line on standard output is a JSON object: the number of calls by `module:function`.
"""

import json
import sys
import threading
from collections import Counter
from types import FrameType
from typing import Any

from kvstore.server.__main__ import main

CALLS: Counter[str] = Counter()


def count(frame: FrameType, event: str, _argument: Any) -> None:
    """Count a call of one of our functions, as a profile function of every thread."""
    module = frame.f_globals.get("__name__", "")
    if event == "call" and module.startswith("kvstore."):
        CALLS[f"{module.replace('.', '/')}:{frame.f_code.co_qualname}"] += 1


if __name__ == "__main__":
    threading.setprofile(count)
    status = main(sys.argv[1:])
    threading.setprofile(None)
    print(json.dumps(CALLS), flush=True)
    sys.exit(status)
