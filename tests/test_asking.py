"""Pages that ask first: what follows a vote is held back, and what a reader says is kept."""

import html
import itertools
import json
import re

import nbformat
import pytest

from kvstore.course import comparisons, questions
from tools import asking, build, collect, pages, run_notebooks, website

LESSON = run_notebooks.chosen(["03_bounded"])[0]
NOTEBOOK = (
    ("markdown", "# 03 · A page\n\nRead [lesson 04](04_server.ipynb)."),
    ("code", 'predict("03.global_lock")\npredict("03.global_wait");'),
    ("markdown", "## Why\n\nThe lock is the reason. [Glossary](../docs/glossary.md)."),
    ("code", 'compare("03.global_lock", run)', {"03.global_lock": (25.0, 20.0)}),
    ("code", 'check("03.bounded", bounded)'),
    ("code", 'predict("03.curve");'),
    ("markdown", "## The end\n\nAll is said."),
    ("code", 'quiz("03")'),
)


def notebook():
    """A small lesson with outputs of a run, as `course.py run` leaves it."""
    cells = []
    for number, (kind, source, *compared) in enumerate(NOTEBOOK):
        if kind == "markdown":
            cells.append(nbformat.v4.new_markdown_cell(source, id=f"cell-{number}"))
            continue
        outputs = [
            nbformat.v4.new_output(
                "display_data",
                comparisons.Comparison(questions.registered(name), run, None, model)._forms(),
            )
            for each in compared
            for name, (model, run) in each.items()
        ]
        cells.append(nbformat.v4.new_code_cell(source, id=f"cell-{number}", outputs=outputs))
    made = {"mode": "fast", "machine": "a machine", "made_at": "2026-01-01"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"course": made})


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The small lesson as one HTML file."""
    pytest.importorskip("sphinx", reason="no Sphinx: .[site]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "executed", lambda _lesson: notebook())
        return build.as_html(LESSON, tmp_path_factory.mktemp("html"), solutions=False)


@pytest.fixture
def page(file, browser):
    context = browser.new_context(offline=True, viewport={"width": 820, "height": 900})
    made, errors = context.new_page(), []
    made.on("pageerror", lambda error: errors.append(str(error)))
    made.goto(file.as_uri())
    made.wait_for_selector(".rpc-bar")
    yield made
    assert errors == []
    context.close()


def commit(page, question_id, number):
    field = page.locator(f'[id="vote-{question_id}"]')
    field.fill(number)
    field.press("Enter")


def draw(page):
    """Draw the curve over its whole width, with the mouse."""
    drawing = page.locator(".rpc-ask svg").first
    drawing.scroll_into_view_if_needed()
    box = drawing.bounding_box()
    low, high = box["y"] + 0.7 * box["height"], box["y"] + 0.2 * box["height"]
    page.mouse.move(box["x"] + 0.11 * box["width"], low)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.985 * box["width"], high, steps=30)
    page.mouse.up()


def seen(page, text):
    return page.get_by_text(text).first.is_visible()


class TestPage:
    pytestmark = pytest.mark.slow

    def test_a_run_is_shown_when_all_its_numbers_are_committed(self, page):
        assert not seen(page, "The lock is the reason.")
        commit(page, "03.global_lock", "40")
        assert not seen(page, "The lock is the reason.")
        commit(page, "03.global_wait", "4")
        assert seen(page, "The lock is the reason.")
        assert seen(page, "within a factor of 2")
        words = page.locator(".rpc-compared svg").get_attribute("aria-label")
        assert words == "you 40 calls/s, the model 25 calls/s, measured 20 calls/s"
        assert not seen(page, "All is said.")

    def test_an_interval_is_a_prediction_too(self, page, tmp_path):
        commit(page, "03.global_lock", "15 to 1,500")
        commit(page, "03.global_wait", "4")
        assert seen(page, "Your interval, 15 to 1,500, holds 20.")
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save my numbers").click()
        saved.value.save_as(tmp_path / "ada.json")
        tables, problems = collect.merged([tmp_path / "ada.json"])
        assert problems == []
        assert tables["intervals"][["low", "high"]].values.tolist() == [[15, 1500]]

    def test_no_number_opens_nothing(self, page):
        for text in ("", "many", "-1", "0", "20 to 10", "a to b"):
            commit(page, "03.global_lock", text)
            assert seen(page, "number above 0")
        assert not seen(page, "The lock is the reason.")

    def test_a_known_mistake_is_named(self, page):
        wrong, why = questions.registered("03.global_lock").mistakes[0]
        commit(page, "03.global_lock", f"{wrong}")
        commit(page, "03.global_wait", "4")
        words = page.locator(".rpc-compared").first.inner_text()
        assert re.sub("[*`]", "", why)[1:] in words

    def test_a_curve_is_drawn_and_the_numbers_are_saved_for_the_teacher(self, page, tmp_path):
        commit(page, "03.global_lock", "2,450")
        commit(page, "03.global_wait", "0.5")
        draw(page)
        page.get_by_role("button", name="Commit this line").click()
        assert seen(page, "All is said.")
        page.locator("input[type=radio][value=a]").first.check()
        page.locator("input[type=radio][value=b]").first.check()
        page.reload()
        assert seen(page, "All is said."), "what was committed is there after a reload"
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save my numbers").click()
        file = tmp_path / "ada.json"
        saved.value.save_as(file)

        tables, problems = collect.merged([file])
        assert problems == []
        of_all = tables["predictions"].set_index("question")
        assert of_all.loc["03.global_lock", "predicted"] == 2450
        assert of_all.loc["03.global_lock", "measured"] == 20
        assert of_all.loc["03.global_wait", "predicted"] == 0.5
        curve = tables["curves"]
        assert list(curve.x) == list(questions.registered("03.curve").xs)
        assert list(curve.predicted) == sorted(curve.predicted)
        assert tables["quizzes"].choice.tolist() == ["a"], "the first choice counts"

    def test_a_reader_can_go_on_without_a_number(self, page):
        for _ in range(2):
            page.get_by_role("button", name="Show without a number").first.click()
            page.locator(".rpc-ask").first.evaluate("each => each.remove()")
        assert seen(page, "The lock is the reason.")

    def test_forgetting_the_page_holds_its_run_back_again(self, page):
        commit(page, "03.global_lock", "40")
        commit(page, "03.global_wait", "4")
        forget = page.get_by_role("button", name="Forget this page")
        page.once("dialog", lambda asked: asked.dismiss())
        forget.click()
        assert seen(page, "The lock is the reason."), "it asks before it deletes"
        page.once("dialog", lambda asked: asked.accept())
        with page.expect_navigation():
            forget.click()
        page.wait_for_selector(".rpc-bar")
        assert not seen(page, "The lock is the reason.")

    def test_a_link_to_what_is_held_back_leads_to_the_vote(self, page):
        page.evaluate("location.hash = 'The-end'")
        page.wait_for_function("document.activeElement.id === 'vote-03.global_lock'")

    def test_the_keyboard_alone_commits_all(self, page):
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id").startswith("vote-"):
                page.keyboard.type("7")
                page.keyboard.press("Enter")
                assert page.evaluate("document.activeElement.closest('.rpc-ask') !== null")
            if page.evaluate("document.activeElement.getAttribute('role')") == "slider":
                page.keyboard.press("ArrowUp")
            if page.evaluate("document.activeElement.textContent") == "Commit this line":
                page.keyboard.press("Enter")
        assert seen(page, "All is said.")

    def test_without_javascript_all_is_shown_with_a_note(self, file, browser):
        context = browser.new_context(offline=True, java_script_enabled=False)
        page = context.new_page()
        page.goto(file.as_uri())
        page.wait_for_timeout(1700)  # the page is hidden for a moment, in case the script comes
        for text in ("JavaScript is off", "The lock is the reason.", "measured 20", "All is said."):
            assert seen(page, text), text
        context.close()


@pytest.mark.slow
def test_the_file_leads_nowhere_else_and_has_for_students_no_solution(file):
    text = file.read_text("utf-8")
    assert list(website.broken_links(file.parent)) == []
    assert "Read lesson 04." in re.sub("<[^>]*>", "", text)
    assert "One way to solve" not in text
    assert "You write this function in JupyterLab" in text


def test_sentences_that_need_a_kernel_are_left_out():
    text = (
        "## Move it\n\nMove the sliders. X is 1/D.\n\n"
        "Stuck? Call it in a new cell.\n\n"
        "- one\n- two, with two.\n  Add cells of your own.\n\n```python\nrun it\n```"
    )
    read = asking.readable(text)

    assert read == "## Move it\n\nX is 1/D.\n\n- one\n- two, with two.\n\n```python\nrun it\n```"


def test_no_lesson_asks_on_its_page_for_what_a_page_cannot_do():
    kernel = re.compile(
        r"new cell|cells? of your own|Shift|`(?:hint|predict|quiz|again|solution)\("
        r"|[Rr]un (?:it|this|the next cell|the cell)\b|Move the sliders|The button"
    )
    for lesson in run_notebooks.lessons_in():
        for cell in nbformat.read(lesson, as_version=4).cells:
            if cell.cell_type == "markdown":
                found = kernel.search(asking.readable(cell.source))
                assert found is None, (lesson.stem, cell.id, found)


def test_a_text_that_asks_for_nothing_stays_as_it_is():
    for lesson in run_notebooks.lessons_in():
        for cell in nbformat.read(lesson, as_version=4).cells:
            if cell.cell_type == "markdown" and not asking._NEEDS_A_KERNEL.search(cell.source):
                assert asking.readable(cell.source) == cell.source.strip("\n")


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        json.dumps({**collect.PAGE_FORM, "answers": 2, "predictions": {}, "choices": {}}),
        json.dumps(
            {**collect.PAGE_FORM, "predictions": {"x": {"value": -1, "unit": "s"}}, "choices": {}}
        ),
    ],
)
def test_what_no_page_saved_is_named_and_left_out(tmp_path, text):
    file = tmp_path / "bob.json"
    file.write_text(text)
    tables, problems = collect.merged([file])
    assert len(problems) == 1
    assert str(file) in problems[0]
    assert not len(tables["predictions"])


def test_answers_to_questions_that_the_course_no_longer_has_are_kept(tmp_path):
    file = tmp_path / "cleo.json"
    made = {"value": 3, "unit": "ms", "measured": 6}
    given = {"predictions": {"03.gone": made}, "choices": {"03.gone": {"choice": "b"}}}
    file.write_text(json.dumps({**collect.PAGE_FORM, **given}))
    tables, problems = collect.merged([file])
    assert problems == []
    assert tables["predictions"].measured.tolist() == [6]
    assert tables["quizzes"].choice.tolist() == ["b"]


def test_every_lesson_becomes_a_page_that_asks_all_its_votes():
    for lesson in run_notebooks.lessons_in():
        made = nbformat.read(lesson, as_version=4)
        votes = [
            question_id
            for cell in made.cells
            if cell.cell_type == "code"
            for question_id in re.findall(r'^\s*predict\(\s*"([^"]+)"', cell.source, re.M)
        ]
        asking.asks_first(made)
        asked = [
            json.loads(html.unescape(each))["id"]
            for output in pages.outputs(made)
            for each in re.findall(r'data-ask="([^"]*)"', output["data"]["text/html"])
        ]
        assert asked == votes, lesson.stem


def test_no_lesson_skips_a_level_of_its_headings():
    """The site is not built with a heading that does: one lesson would stop all."""
    for lesson in run_notebooks.lessons_in():
        cells = nbformat.read(lesson, as_version=4).cells
        text = "\n\n".join(each.source for each in cells if each.cell_type == "markdown")
        text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        levels = [len(each) for each in re.findall(r"^(#+) ", text, re.MULTILINE)]
        assert levels[0] == 1, lesson.stem
        steps = itertools.pairwise(levels)
        assert all(after <= before + 1 for before, after in steps), lesson.stem
