import pytest

from kvstore.client.strategies import bounded
from kvstore.course import rendering, show_source


def test_a_strategy_is_shown_as_it_runs(page):
    show_source(bounded)

    assert "def bounded(" in page[-1]["text/markdown"]
    assert "```python\n" in page[-1]["text/markdown"]
    assert "kvstore/client/strategies.py, line" in page[-1]["text/plain"]


def test_backticks_in_the_source_do_not_end_the_block():
    assert rendering.fenced("'''```'''").startswith("````python")


def test_a_value_without_source_is_refused(page):
    for thing in (3, len):
        with pytest.raises(TypeError, match="by its name, without calling it"):
            show_source(thing)
