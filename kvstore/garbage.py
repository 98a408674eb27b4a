"""Python's garbage collector, kept from walking through everything again and again.

A program that measures has a large heap that never changes (modules, tables, the notebook)
and makes thousands of short-lived objects a second. By default each few hundred of those
start a collection, and every so often one that looks at the whole heap: pauses that no model
predicts. With few calls in flight they are nothing; with thousands, each of which is a heap of
objects that live until its answer comes, they are a share of the time that is well seen, and
without the setting several times as large (`course.py bench settings`).
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_OBJECTS = 50_000
"""Objects that are made before a collection starts; Python's own setting is 700 to 2,000."""


def settle() -> None:
    """Take what lives now for permanent, and collect the rest less often, from here on."""
    gc.freeze()  # without a collection before: in a notebook that takes a tenth of a second
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


@contextmanager
def settled() -> Iterator[None]:
    """`settle` for as long as the block lasts; afterwards all is as it was."""
    before = gc.get_threshold()
    settle()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
