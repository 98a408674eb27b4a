"""The café of lesson 00 in Chromium: the line counts the bars that it crosses."""

import re

import pytest

from kvstore.course.lessons.lesson_00.cafe import cafe


@pytest.mark.slow
def test_the_line_counts_the_bars_that_it_crosses(page, browser, tmp_path):
    cafe()
    file = tmp_path / "page.html"
    file.write_text(f"<!doctype html><meta charset=utf-8>{page[-1]['text/html']}", "utf-8")
    shown = browser.new_page(viewport={"width": 800, "height": 600})
    shown.goto(file.as_uri())
    said = shown.locator("[data-cafe=said]")
    box = shown.locator(".rpc-cafe svg").bounding_box()
    shown.mouse.move(box["x"] + 100, box["y"] + 100)
    shown.mouse.down()
    shown.mouse.move(box["x"] + 420, box["y"] + 100, steps=3)
    shown.mouse.up()
    dragged = said.inner_text()
    minute = float(shown.get_by_label("look at minute").input_value())
    guests = shown.evaluate("document.querySelector('.rpc-cafe').cafe.guests()")
    shown.get_by_label("minutes between guests").focus()
    for _ in range(6):
        shown.keyboard.press("ArrowRight")
    fewer = said.inner_text()

    inside = sum(comes <= minute < leaves for comes, leaves in guests)
    assert 60 < minute < 80
    assert f"crosses {inside} bars" in dragged
    for text, law in ((dragged, 20 / 4), (fewer, 20 / 10)):
        mean = float(re.search(r"it crosses ([\d.]+)", text)[1])
        assert law == pytest.approx(mean, rel=0.08)
        assert text.endswith(f"= {law:g}.")
