import pytest

from kvstore.course import mode


def test_the_variable_chooses_one_of_three_values(monkeypatch):
    assert mode.name() == "class"
    for word, expected in (("fast", 1), ("class", 2), ("full", 3), ("", 2), (" FAST ", 1)):
        monkeypatch.setenv("COURSE_MODE", word)
        assert expected == mode.choose(fast=1, normal=2, full=3), word
        assert (expected == 1) == mode.fast(), word

    monkeypatch.setenv("COURSE_MODE", "quick")

    with pytest.raises(ValueError, match="fast, class, full, got 'quick'"):
        mode.choose(fast=1, normal=2, full=3)


def test_a_run_lasts_more_than_no_time_in_every_mode():
    with pytest.raises(ValueError, match="fast must be more than 0 seconds, got 0"):
        mode.seconds(fast=0, normal=1, full=60)
