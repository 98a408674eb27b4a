"""Work that Ctrl-C must not tear apart."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

Result = TypeVar("Result")


def apart(work: Callable[[], Result]) -> Result:
    """Do the work in a thread of its own and wait for it; Ctrl-C ends the waiting, not the work.

    Python raises KeyboardInterrupt in the main thread between any two steps. gRPC's own code is
    not made for that: a call that was begun and not yet handed to the thread that ends it is
    waited for without end when its channel is closed. Raises whatever the work raises.
    """
    done: Future[Result] = Future()

    def worked() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # raised again where it is waited for
            done.set_exception(error)

    threading.Thread(target=worked, name="apart", daemon=True).start()
    while not done.done():
        wait([done], 1.0)  # without end it could not be interrupted on Windows
    return done.result()
