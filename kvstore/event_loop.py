"""The asyncio event loop that client and server use."""

import asyncio
import sys
from collections.abc import Callable


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of uvloop's event loops; None on Windows, where uvloop does not exist.

    uvloop takes less CPU time in client and server, above all with many small messages, as on
    streams. Throughput grows only if the process is the bottleneck. `course.py bench settings`
    measures it.
    """
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop
