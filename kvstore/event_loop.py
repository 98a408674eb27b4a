"""Which asyncio event loop is used, on both sides of the wire."""

import asyncio
import sys
from collections.abc import Callable


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Make uvloop's loops where it exists (not on Windows).

    It takes processor time off both sides, most where messages are small and many, as on streams;
    where the other side binds, none of it is seen. `course.py bench settings` measures it.
    """
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop
