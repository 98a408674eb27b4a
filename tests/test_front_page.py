"""The front page of the site, in Chromium and without a network: guess, then see."""

import math
import re

import pytest

from kvstore.course.lessons.lesson_01 import questions as lesson_01
from kvstore.course.lessons.lesson_07 import questions as lesson_07
from tools import front_page, run_notebooks

pytestmark = pytest.mark.slow
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("front")
    return front_page.write(folder, {"01_blocking"}, front_page.shown_run(folder))


@pytest.fixture
def page(file, browser):
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 800})
    made, asked = context.new_page(), []
    made.on("request", lambda sent: asked.append(sent.url))
    made.on("pageerror", lambda error: asked.append(f"error: {error}"))
    made.goto(file.as_uri())
    yield made
    assert [each for each in asked if not each.startswith(("file:", "data:"))] == []
    context.close()


def finds(page, number):
    return page.locator(".card").nth(number).locator(".finds")


def guess(page, number, text):
    card = page.locator(".card").nth(number)
    card.locator("input").fill(text)
    card.locator("button").click()
    return card.locator(".verdict").inner_text()


def test_each_card_opens_when_its_reader_has_guessed_and_a_wrong_guess_gets_a_sentence(page):
    for number, card in enumerate(front_page.cards()):
        assert not finds(page, number).is_visible()
        far, camp = guess(page, number, f"{60 * card['answer']}"), card["camps"][0]
        assert card["high"] in far
        assert "60 times too high" in far
        assert finds(page, number).is_visible()
        assert card["low"] in guess(page, number, f"{card['answer'] / 60:.6f}")
        assert camp["says"] in guess(page, number, f"{camp['at']}")
        right = guess(page, number, f"{card['answer']:,}")
        assert right.startswith("✔")
        assert card["right"] in right


def test_no_number_opens_nothing(page):
    for text in ("", "fast", "0", "-3"):
        assert "number above 0" in guess(page, 0, text)
        assert not finds(page, 0).is_visible()


def test_the_keyboard_alone_plays_the_run_and_opens_all_cards(page):
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        what = page.evaluate(
            "[document.activeElement.tagName, document.activeElement.getAttribute('aria-label')"
            " || document.activeElement.id]"
        )
        seen.add(tuple(what))
        if what == ["BUTTON", "play"]:
            page.keyboard.press("Enter")
            page.wait_for_function("document.getElementById('replay').replay.time() > 0.31")
            page.keyboard.press("Enter")
        if what[0] == "INPUT" and what[1].startswith("guess-"):
            page.keyboard.type("5")
            page.keyboard.press("Enter")
            assert page.evaluate("document.activeElement.className") == "finds"
    assert ("BUTTON", "play") in seen
    assert page.locator(".card.open").count() == 5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_each_screen_with_all_cards_open(file, browser, scheme):
    for width in (390, 1280):
        context = browser.new_context(
            offline=True, viewport={"width": width, "height": 800}, color_scheme=scheme
        )
        page = context.new_page()
        page.goto(file.as_uri())
        for number in range(5):
            guess(page, number, "7")
        assert page.evaluate(OVERFLOW) <= 0, width
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        dark = sum(map(int, re.findall(r"\d+", ground)[:3])) < 3 * 60
        assert dark == (scheme == "dark")
        context.close()


def test_the_third_box_follows_from_the_two_typed_last(page):
    boxes = {name: page.locator(f".boxes input[name={name}]") for name in "LXR"}
    boxes["L"].fill("125")
    boxes["X"].fill("1,259")
    assert boxes["R"].input_value() == "99.3"
    boxes["R"].fill("174")
    assert float(boxes["L"].input_value()) == pytest.approx(1259 * 0.174, rel=0.01)


def test_it_is_small_and_complete_without_scripts(file, browser):
    assert file.stat().st_size < 200_000
    context = browser.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())

    assert all(finds(page, number).is_visible() for number in range(5))
    assert "a replay of" in page.locator("#replay").inner_text()
    assert "JavaScript is off" in page.locator("body").inner_text()
    context.close()


def test_what_the_cards_say_follows_from_the_published_numbers():
    java, cpp, threads, go, bursts = front_page.cards()
    counted = lesson_01.expected_share_counted(16.55 * 60)
    assert java["answer"] == pytest.approx(16.55 / counted, rel=0.005)
    share = math.log(1 / counted) / math.log(24.28 / 16.55)
    assert share == pytest.approx(0.8, abs=0.02)
    assert [row["in_flight"] for row in cpp["rows"]] == [91, 93, 92, 92, 740, 78, 912]
    assert [round(line["R"]) for line in threads["law"]] == [174, 99]
    assert lesson_07.lost_to_limit() == pytest.approx(0.04, abs=0.005)
    assert go["answer"] == pytest.approx(64.8 / 22.4, rel=0.01)
    assert go["law"][0]["R"] == pytest.approx(64.8 / 524_288 * 1e3, rel=0.001)
    assert go["law"][1]["L"] == pytest.approx(go["answer"], rel=0.01)
    assert bursts["answer"] == 1389
    stems = {each.stem for each in run_notebooks.lessons_in()}
    assert {card["lesson"] for card in front_page.cards()} <= stems
    assert all(
        link["url"].startswith("https://") for card in front_page.cards() for link in card["links"]
    )
