"""A line on the page that says which run of several is under way."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display

T = TypeVar("T")


def counted(things: Sequence[T], what: str = "run") -> Iterator[T]:
    """Hand out one thing after the other, and say on the page which one it is.

    Nothing is shown outside a notebook.
    """
    if get_ipython() is None:
        yield from things
        return
    handle: DisplayHandle | None = None
    for number, thing in enumerate(things, start=1):
        bundle = {"text/plain": f"{what} {number} of {len(things)}: {thing} ..."}
        if handle is None:
            handle = DisplayHandle()  # type: ignore[no-untyped-call]
            display(bundle, raw=True, display_id=handle.display_id)  # type: ignore[no-untyped-call]
        else:
            handle.update(bundle, raw=True)  # type: ignore[no-untyped-call]
        yield thing
    if handle is not None:
        done = {"text/plain": f"{what} 1 to {len(things)}: done"}
        handle.update(done, raw=True)  # type: ignore[no-untyped-call]
