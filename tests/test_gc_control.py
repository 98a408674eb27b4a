"""The collector is kept quiet while a run lasts, and only then."""

import gc

from kvstore import gc_control


def test_within_the_block_what_lives_is_permanent_and_collections_are_rare():
    before = gc.get_threshold()

    with gc_control.settled():
        assert gc.get_freeze_count() > 1000
        assert gc_control.YOUNG_OBJECTS == gc.get_threshold()[0]

    assert (before, 0) == (gc.get_threshold(), gc.get_freeze_count())
