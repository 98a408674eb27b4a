"""The collector is kept quiet while a run lasts, and only then."""

import gc

import pytest

from kvstore import garbage


def test_within_the_block_what_lives_is_permanent_and_collections_are_rare():
    before = gc.get_threshold()

    with garbage.settled():
        assert gc.get_freeze_count() > 1000
        assert garbage.YOUNG_OBJECTS == gc.get_threshold()[0]

    assert (before, 0) == (gc.get_threshold(), gc.get_freeze_count())


def test_the_collector_is_put_back_after_an_error():
    before = gc.get_threshold()

    with pytest.raises(KeyError), garbage.settled():
        raise KeyError

    assert before == gc.get_threshold()
