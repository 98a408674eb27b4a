"""The teacher's page in a real browser: a question from the code on the board to the result."""

import pytest
from rooms import class_open
from test_votes import sent

from kvstore.classroom.client import Student

pytestmark = pytest.mark.slow

QUESTION = "03.global_lock"
SCRIPT = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
SMALL = """() => [...document.querySelectorAll('h1, main *, .count *')]
  .filter((each) => each.childElementCount === 0 && each.textContent.trim())
  .map((each) => parseFloat(getComputedStyle(each).fontSize) * (each.getScreenCTM?.().a ?? 1))
  .filter((px) => px < 22)"""
CUT = """() => document.documentElement.scrollWidth > innerWidth
  || document.documentElement.scrollHeight > innerHeight"""


def test_a_vote_from_the_code_to_the_result_by_keyboard(browser, tmp_path):
    students = [Student(tmp_path / f"{n}") for n in range(9)]
    with class_open(tmp_path / "class.db") as room:
        room.do("go", QUESTION)
        pages = []
        errors: list[str] = []
        for (width, height), scheme in (((1280, 800), "light"), ((1920, 1080), "dark")):
            page = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme=scheme
            )
            page.on("console", lambda message: errors.append(message.text))
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(room.page)
            pages.append(page)
        page, _ = pages

        def shows(text):
            for each in pages:
                each.get_by_text(text).first.wait_for(timeout=60_000)
                assert each.evaluate(SMALL) == []
                assert not each.evaluate(CUT)

        shows(room.code)
        for n, student in enumerate(students):
            student.join(room.address, room.code, SCRIPT if n == 0 else "")
        shows("0 of 9")
        assert page.get_by_text("<img src=x").count() == 0  # names only when the teacher wants them
        for each in pages:
            each.keyboard.press("n")
        shows("<img src=x")
        page.keyboard.press(" ")
        shows("Put your number")
        for n, student in enumerate(students):
            student.vote(QUESTION, value=25.0 if n < 3 else 2500.0, unit="calls/s")
        sent(*students)
        shows("9 of 9")
        page.keyboard.press(" ")
        shows("Turn to your neighbour")
        page.keyboard.press(" ")
        shows("first vote, 9")
        page.keyboard.press("s")
        shows("voted again · open")
        for student in students[:8]:
            student.vote(QUESTION, value=25.0, unit="calls/s")
        sent(*students)
        shows("8 of 9")
        page.keyboard.press(" ")
        shows("closed")
        page.keyboard.press(" ")
        shows("second vote, 8")
        page.fill("#typed", "24.1")
        page.press("#typed", "Enter")
        shows("measured 24.1 calls/s")
        page.keyboard.press("x")
        page.get_by_text("L, counted").wait_for(timeout=60_000)
        page.keyboard.press("x")
        page.keyboard.press("ArrowRight")
        shows("How many seconds does one of these calls take?")

        assert ["The class votes"] * 2 == [each.title() for each in pages]
        assert errors == []
