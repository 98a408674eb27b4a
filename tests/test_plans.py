"""The plans for teachers: they fit their time, their order holds, and the pages have them."""

import tomllib

import nbformat
import pytest

from kvstore.course import comparisons
from tools import plans

SOURCE = plans.SOURCE.read_text("utf-8")


def changed(**parts):
    source = tomllib.loads(SOURCE)
    for name, values in parts.items():
        source[name] |= values
    return plans.Plans(source)


def test_the_pages_have_the_plans_of_the_table():
    assert plans.main([]) == 0, "python -m tools.plans --fix writes them"


def test_a_plan_that_is_too_long_or_out_of_order_is_refused():
    with pytest.raises(ValueError, match="two_hours ends at"):
        changed(two_hours={"minutes": 60}).sheet("two_hours")
    with pytest.raises(ValueError, match="lesson 03 needs"):
        changed(two_hours={"told": []}).sheet("two_hours")
    with pytest.raises(ValueError, match="week 1 takes"):
        changed(term={"minutes": 30}).term()
    with pytest.raises(ValueError, match="no 'the sliders' to leave out"):
        changed().minutes("03", ["the sliders"])


def test_a_term_has_every_lesson_before_those_that_need_it():
    names = [each for week in tomllib.loads(SOURCE)["term"]["weeks"] for each in week["lessons"]]

    assert sorted(names) == sorted(plans.LESSONS)
    assert changed().term()


def test_figures_of_a_run_take_the_place_of_earlier_ones(monkeypatch):
    def executed(measured):
        each = {"question_id": "03.per_key", "unit": "calls/s", "model": 2500.0}
        output = {"data": {comparisons.MIME_TYPE: {**each, "measured": measured}}}
        made = {"made_at": "2026-11-28T10:00", "mode": "class", "machine": "two cores"}
        cells = [{"outputs": [output]}]
        return lambda _: nbformat.from_dict({"cells": cells, "metadata": {"course": made}})

    page = "# Notes\n\n## Reference figures\n\nof a busy machine\n\n## Exam\n"
    for measured in (1324.0, 2410.0):
        monkeypatch.setattr(plans.pages, "executed", executed(measured))
        page = plans.with_figures(page, None)

    assert "| `03.per_key`, calls/s | 2,500 | 2,410 |" in page
    assert "Outputs of 2026-11-28, mode class, on two cores." in page
    assert "1,320" not in page
    assert page.endswith("of a busy machine\n\n## Exam\n")
