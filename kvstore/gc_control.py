"""Python's garbage collector: keep it from scanning long-lived objects.

A program that measures has a large heap that hardly changes (modules, tables, the notebook), and a
full collection scans all of it.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_OBJECTS = 50_000
"""New objects that start a collection; Python's own setting is 700 to 2,000."""


def settle() -> None:
    """Exclude all current objects from collections, and collect less often, from now on."""
    gc.freeze()  # without a collection before, which takes 0.1 s in a notebook
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


@contextmanager
def settled() -> Iterator[None]:
    """`settle` while the block lasts; restore the collector afterwards."""
    before = gc.get_threshold()
    settle()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
