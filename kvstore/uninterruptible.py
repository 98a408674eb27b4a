"""Work that Ctrl-C must not interrupt."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

Result = TypeVar("Result")


def uninterrupted(work: Callable[[], Result]) -> Result:
    """Do the work in a thread of its own and return its result; Ctrl-C ends the wait, not the work.

    Python raises `KeyboardInterrupt` in the main thread between any two instructions. gRPC's code
    does not support this: closing the channel waits for ever for a call that was started but not
    yet given to the thread that ends it. Raises what the work raises.
    """
    done: Future[Result] = Future()

    def worked() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # raised again by the waiting thread
            done.set_exception(error)

    threading.Thread(target=worked, name="uninterruptible", daemon=True).start()
    while not done.done():
        wait([done], 1.0)  # without end it could not be interrupted on Windows
    return done.result()
