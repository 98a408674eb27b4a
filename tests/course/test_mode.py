import pytest

from kvstore.course import mode


def test_the_variable_chooses_one_of_the_values(monkeypatch):
    assert mode.name() == "class"
    values = {"fast": 1, " FAST ": 1, "short": 2, "class": 2, "": 2, "full": 3}
    for word, expected in values.items():
        monkeypatch.setenv("COURSE_MODE", word)
        assert expected == mode.choose(fast=1, normal=2, full=3), word
        assert (expected == 1) == mode.fast(), word

    monkeypatch.setenv("COURSE_MODE", "quick")

    with pytest.raises(ValueError, match="fast, short, class, full, got 'quick'"):
        mode.choose(fast=1, normal=2, full=3)
