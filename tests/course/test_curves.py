"""A prediction that is a curve: kept as it is drawn or typed, locked by its runs, and scored."""

import dataclasses
import json
import math

import pytest
from kernels import Kernel
from made_runs import run_of

from kvstore.course import again, compare, comparisons, curves, live, predict, progress
from kvstore.course.predictions import PredictionError
from kvstore.course.questions import registered

pytestmark = pytest.mark.usefixtures("lesson_97")


def run(rate, started_at="2100-01-01T00:00:00+00:00"):
    calls = [((n + 0.5) / rate, (n + 0.6) / rate, "create") for n in range(rate)]
    return dataclasses.replace(run_of(calls, window_s=1.0), started_at=started_at)


def test_a_typed_curve_is_kept_and_found_again():
    predict("97.curve", [2, 20, 30])

    assert {1: 2.0, 10: 20.0, 20: 30.0} == predict("97.curve").curve
    assert 30.0 == progress.ask("97.curve").value


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([1, 2], "3 points, got 2 numbers"),
        (5, "a list of numbers, got 5"),
        ("1, 2, 3", "a list of numbers"),
        ([1, 2, 0], "more than 0"),
        ([1, 2, math.nan], "finite"),
    ],
)
def test_what_is_no_curve_is_refused(given, said):
    with pytest.raises(PredictionError, match=said):
        predict("97.curve", given)

    assert () == progress.ask("97.curve").points


def test_the_runs_lock_it():
    predict("97.curve", [2, 20, 30])
    for _ in live.each([1, 2], "rate", closes="97.curve"):
        late = predict("97.curve", [1, 1, 1])
        assert ("refused", 30.0) == (late.status, late.curve[20])

    again("97.curve")
    assert "not predicted" == predict("97.curve").status


def test_it_is_scored_over_all_points_that_were_measured(page):
    predict("97.curve", [2, 20, 40])

    made = compare("97.curve", {1: run(2), 15: run(60), 20: run(10)})

    # equal; 30 on the line for 60; 40 for 10
    assert (math.log10(2) + math.log10(4)) / 3 == pytest.approx(made.log_error)
    assert made.log_error == progress.ask("97.curve").log_error
    published = page[-1][comparisons.MIME_TYPE]
    assert (40.0, 10.0) == (published["yours"], published["measured"])
    points = progress.ask("97.curve").points
    assert [(1, 2, 2), (10, 20, None), (15, None, 60), (20, 40, 10)] == [tuple(p) for p in points]


def test_a_line_that_was_drawn_after_the_runs_began_does_not_count():
    predict("97.curve", [2, 20, 40])

    made = compare("97.curve", {1: run(2, started_at="2020-01-01T00:00:00+00:00")})

    assert made.late
    assert made.log_error is None
    assert {None} == {point.drawn for point in progress.ask("97.curve").points}


def test_low_values_count_as_a_part_of_the_highest():
    """On the picture they are all at the bottom."""
    drawn = {1: 100.0, 2: 0.1}

    assert 0.0 == pytest.approx(curves.log_error(drawn, {1: 100.0, 2: 0.001}))
    assert 1.0 == pytest.approx(curves.log_error({1: 1.0, 100: 100.0}, {10: 100.0}, log=True))
    assert curves.log_error(drawn, {3: 5.0}) is None


HARNESS = """<!doctype html><meta charset=utf-8><div id=here></div><script>%s
let given = null;
const made = showCurve(document.getElementById('here'), %s, (ys) => { given = ys; });
</script>"""


@pytest.fixture
def browser_page(browser):
    return browser.new_page(viewport={"width": 800, "height": 600})


@pytest.mark.slow
def test_it_is_drawn_with_the_mouse_and_the_arrow_keys(browser_page, tmp_path):
    known = registered("97.curve")
    shown = curves.facts(known, {}, locked=False, message="")
    file = tmp_path / "page.html"
    file.write_text(HARNESS % (curves._script(), json.dumps(shown)), "utf-8")
    page = browser_page
    page.goto(file.as_uri())
    boxes = [page.get_by_role("slider").nth(n).bounding_box() for n in range(3)]
    middles = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes]

    page.mouse.move(*middles[0])
    page.mouse.down()
    page.mouse.move(*middles[1], steps=5)
    assert page.evaluate("given") is None  # the third point is left
    page.mouse.move(middles[2][0], middles[2][1] - 60, steps=5)
    page.mouse.up()
    drawn = page.evaluate("given")
    assert [50, 50] == pytest.approx(drawn[:2], abs=1)
    assert 60 < drawn[2] < 90

    page.get_by_role("slider").nth(1).focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Home")
    by_key = page.evaluate("given")
    assert [drawn[1] + 2, 0.1] == pytest.approx(by_key[1:], abs=0.2)
    assert f"{by_key[1]:g} calls/s" == page.get_by_role("slider").nth(1).get_attribute(
        "aria-valuetext"
    )

    page.evaluate("now => made.answered(now)", {**shown, "ys": [1, 2, 3], "locked": True})
    page.get_by_role("slider").nth(1).focus()
    page.keyboard.press("ArrowUp")
    assert by_key == page.evaluate("given")  # locked
    assert "2 calls/s" == page.get_by_role("slider").nth(1).get_attribute("aria-valuetext")


@pytest.mark.slow
def test_a_line_that_ends_early_is_extended_and_kept(browser_page, tmp_path):
    """One point is no line: the page says that it is not kept. Two are, and the third is level."""
    known = registered("97.curve")
    shown = curves.facts(known, {}, locked=False, message="")
    file = tmp_path / "page.html"
    file.write_text(HARNESS % (curves._script(), json.dumps(shown)), "utf-8")
    browser_page.goto(file.as_uri())
    points = [browser_page.get_by_role("slider").nth(n) for n in range(3)]

    points[0].focus()
    browser_page.keyboard.press("PageUp")
    assert browser_page.evaluate("given") is None
    assert "Not kept yet" in browser_page.locator("[data-curve=said]").inner_text()
    points[1].focus()
    browser_page.keyboard.press("PageDown")

    first, second, third = browser_page.evaluate("given")
    assert first > second == third
    now = {**shown, "ys": [first, second, third], "said": "Kept."}
    browser_page.evaluate("now => made.answered(now)", now)
    assert "extended" in browser_page.locator("[data-curve=said]").inner_text()
    assert points[2].get_attribute("aria-valuetext") == f"{third:g} calls/s"


@pytest.mark.slow
def test_the_measured_dots_are_on_the_page(browser_page, page, tmp_path):
    predict("97.curve", [2, 20, 40])
    compare("97.curve", {1: run(2), 20: run(60)})
    file = tmp_path / "page.html"
    file.write_text(f"<!doctype html><meta charset=utf-8>{page[-1]['text/html']}", "utf-8")
    browser_page.goto(file.as_uri())

    dots = browser_page.locator("circle[data-x]").evaluate_all(
        "dots => dots.map(dot => [+dot.dataset.x, +dot.dataset.y, +dot.getAttribute('cy')])"
    )
    line = browser_page.get_by_role("slider").evaluate_all(
        "points => points.map(point => +point.getAttribute('cy'))"
    )

    assert [[1, 2], [20, 60]] == [dot[:2] for dot in dots]
    assert dots[0][2] == pytest.approx(line[0])  # on the line
    assert dots[1][2] < line[2]  # above it


@pytest.mark.slow
def test_a_drawn_curve_survives_a_restart_of_the_kernel():
    drawn = [25.0, 250.0, 500.0, 1000.0, 1500.0, 2000.0, 2500.0]
    kernel = Kernel()
    try:
        kernel.run("from kvstore.course import predict, predictions")
        kernel.run(f'predict("03.curve")._keep({drawn})')  # what the widget calls
        kernel.manager.restart_kernel(now=True)
        kernel.client.wait_for_ready(timeout=60)
        said, errors = kernel.run(
            'from kvstore.course import predict\nprint(list(predict("03.curve").curve.values()))'
        )
    finally:
        kernel.close()

    assert [] == errors
    assert str(drawn) in said
