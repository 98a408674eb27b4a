"""The site and the exported lesson: complete, without the internet, on a phone, on paper."""

import importlib.util
import re
from pathlib import Path

import nbformat
import pytest

from kvstore.course import mode
from kvstore.course.views import style
from tools import asking, build, front_page, pages, run_notebooks, website

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(500),
    pytest.mark.skipif(importlib.util.find_spec("myst_nb") is None, reason="no Sphinx: .[site]"),
]
LESSONS = run_notebooks.chosen(["03_bounded"])


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Lesson 03 executed in the fast mode, in place of what `executed/` happens to have."""
    folder = tmp_path_factory.mktemp("executed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_MODE", "fast")
        done = run_notebooks.execute(LESSONS[0])
        assert done.error is None
        run_notebooks.keep(done, folder)
        patch.setattr(run_notebooks, "COPIES", folder)
        for function in (pages.executed, pages.current, front_page.shown_run):
            patch.setattr(function, "__defaults__", (folder,))
        yield folder


@pytest.fixture(scope="module")
def site(executed, tmp_path_factory):
    out = tmp_path_factory.mktemp("site") / "html"
    assert website.build(out, LESSONS) == 0, (
        "built without warnings, and every link leads somewhere"
    )
    return out


def look(browser, address, width=1300, height=900, **settings):
    """Open a file without any network; return the page and its requests to elsewhere."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, offline=True, **settings
    )
    page, requests = context.new_page(), []
    page.on("request", lambda sent: requests.append(sent.url) if "://" in sent.url else None)
    page.on("pageerror", lambda error: requests.append(f"error: {error}"))
    page.goto(address.as_uri())
    if page.get_by_role("button", name="Show all").count():
        page.get_by_role("button", name="Show all").click()
    return page, [each for each in requests if not each.startswith("file://")]


OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_pages_are_complete_offline_and_fit_every_screen(site, browser):
    """A wide screen, a phone, and 200 % zoom, which is a screen of half the width."""
    for name in ("course", "lessons/03_bounded", "symbols", "glossary", "cheat_sheet"):
        page, requests = look(browser, site / f"{name}.html")
        page.wait_for_load_state("networkidle")
        assert requests == [], name
        for width in (1300, 650, 390):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(OVERFLOW) <= 0, f"{name} scrolls sideways at {width}"
        page.context.close()
    page, _ = look(browser, site / "lessons" / "03_bounded.html")
    page.wait_for_selector("mjx-container svg")
    assert page.locator("text=$$").count() == 0
    assert page.locator("mjx-assistive-mml math").count() >= 1, "formulas for screen readers"
    assert page.locator("img.figure").count() >= 2
    shown = page.evaluate("[...document.images].every((each) => each.naturalWidth > 0)")
    assert shown, "every picture is there"
    page.context.close()


def test_a_lesson_names_its_machine_folds_solutions_and_links_the_sheets(site):
    text = (site / "lessons" / "03_bounded.html").read_text("utf-8")

    assert "mode fast" in text
    assert re.search(r"\d+ cores", text)
    assert re.search(r"<details>\s*<summary>One way to solve 03\.bounded</summary>", text)
    assert re.search(r"<summary>Symbols</summary>", text)
    for page in ("symbols", "glossary", "cheat_sheet"):
        assert f'href="../{page}.html"' in text
    for page in site.rglob("*.html"):
        if page.name not in ("search.html", "index.html"):
            assert 'class="course-machine"' in page.read_text("utf-8")


def test_search_finds_a_word_of_a_lesson(site, browser):
    page, _ = look(browser, site / "search.html")
    page.goto(f"{(site / 'search.html').as_uri()}?q=semaphore")

    page.wait_for_selector("ul.search li a[href*='03_bounded']", timeout=20_000)
    page.context.close()


def test_the_keyboard_reaches_the_content_and_the_sheet_prints_on_one_page(site, browser, tmp_path):
    page, _ = look(browser, site / "cheat_sheet.html")
    page.keyboard.press("Tab")
    focused = page.evaluate("document.activeElement.textContent.trim()")
    assert focused == "Skip to content"

    for name in ("A4", "Letter"):
        paper = page.pdf(format=name)
        assert len(re.findall(rb"/Type\s*/Page\b", paper)) == 1, name
    page.context.close()


def test_text_in_outputs_can_be_read_in_the_dark_theme(site, browser):
    """It has the colours of the page: light on dark."""
    page, _ = look(browser, site / "lessons" / "03_bounded.html", color_scheme="dark")
    body = page.evaluate("getComputedStyle(document.body).backgroundColor")
    inks = page.evaluate(
        "[...document.querySelectorAll('.cell_output .output.text_html')]"
        ".map((each) => getComputedStyle(each).color)"
    )

    assert sum(map(int, re.findall(r"\d+", body)[:3])) < 3 * 60, "the page is dark"
    assert inks
    for ink in inks:
        assert sum(map(int, re.findall(r"\d+", ink)[:3])) > 3 * 160
    page.context.close()


FIGURE_PX = style.TEXT_PT * style.DPI / 72
SMALL = (
    """() => {
  const FIGURE_PX = """
    + str(FIGURE_PX)
    + """;
  const shown = document.querySelector('.slide.shown'), found = [];
  const texts = document.createTreeWalker(shown, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const around = texts.currentNode.parentElement, range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    const box = range.getBoundingClientRect(), drawing = around.closest('svg');
    if (!texts.currentNode.textContent.trim() || !box.width || !box.height) continue;
    if (around.closest('mjx-container, script, style, .rpc-replay')) continue;
    let size = parseFloat(getComputedStyle(around).fontSize);
    if (drawing?.viewBox.baseVal?.width)
      size *= drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width;
    if (size < 0.85 * 28) found.push([size, texts.currentNode.textContent.trim()]);
  }
  for (const figure of shown.querySelectorAll('img.figure')) {
    const { width, height, naturalWidth, naturalHeight } = figure;
    const scale = Math.min(width / naturalWidth, height / naturalHeight);
    if (scale * FIGURE_PX < 0.85 * 28) found.push([scale * FIGURE_PX, figure.alt]);
  }
  return found;
}"""
)
"""The texts on the slide, and in its figures, that are too small for the back row."""


IN_REPLAY = """each => {
  const size = parseFloat(getComputedStyle(each).fontSize);
  return 12 / 13 * size; // the smallest text of the picture has 12 where the words below it have 13
}"""


@pytest.fixture(scope="module")
def slides(executed, tmp_path_factory):
    return build.as_html(LESSONS[0], tmp_path_factory.mktemp("slides"), slides=True)


@pytest.fixture
def presented(slides, browser):
    """The slides at 1280 x 800, as many projectors have it."""
    page, requests = look(browser, slides, 1280, 800)
    page.wait_for_selector("#place")
    assert requests == []
    yield page
    page.context.close()


def each_slide(page):
    """Yield the slide that is shown, one after the other, to the last one."""
    count = page.locator(".slide").count()
    for number in range(1, count + 1):
        assert page.locator("#place").inner_text() == f"{number} / {count}"
        yield page.locator(".slide.shown")
        page.keyboard.press("ArrowRight")
    assert page.locator("#place").inner_text() == f"{count} / {count}"


def test_slides_split_and_do_not_shrink(presented):
    """Each fits, no text is small, a replay is alone, and no answer stands beside its vote."""
    replays = votes = 0
    for number, slide in enumerate(each_slide(presented), 1):
        hidden = slide.evaluate("each => each.scrollHeight - each.clientHeight")
        assert hidden <= 0, f"slide {number} is cut off"
        assert presented.evaluate(SMALL) == [], number
        text = slide.inner_text()
        assert "Not attempted" not in text
        assert "One way to solve" not in slide.inner_html()
        if number == 1:
            assert slide.locator("pre").count() == 0, "no set-up"
        if slide.locator(".rpc-replay").count():
            replays += 1
            assert slide.locator("p:not(.goes-on), pre, img").count() == 0
            assert slide.locator(".rpc-replay").evaluate(IN_REPLAY) >= 0.85 * 28
        if slide.locator(".rpc-ask").count():
            votes += 1
            assert "measured" not in text
            assert slide.locator(".class input, .line svg").count() == 1, "of the class"
    assert replays == presented.locator(".rpc-replay").count() >= 2
    cells = nbformat.read(LESSONS[0], as_version=4).cells
    assert votes == sum(len(asking.called(cell, "predict")) for cell in cells)


def test_the_presenter_has_notes_with_camps_and_a_clock(presented):
    with presented.expect_popup() as opened:
        presented.keyboard.press("n")
    notes = opened.value
    assert "camp" in notes.locator("th").all_inner_texts()
    assert "clock" in notes.locator("th").all_inner_texts()
    assert "slide 1 of" in notes.locator("#now").inner_text()
    presented.keyboard.press("ArrowRight")
    assert "slide 2 of" in notes.locator("#now").inner_text()


def test_what_the_class_says_stands_beside_the_run(presented):
    """Its numbers are typed and its line is drawn, without a mouse."""

    def go_on(to):
        for _ in range(40):
            if presented.locator(f".slide.shown {to}").count():
                return presented.locator(f".slide.shown {to}").first
            presented.keyboard.press("ArrowRight")
        pytest.fail(f"no slide has {to}")

    go_on(".class input").focus()
    presented.keyboard.type("25 40 2,500")
    presented.keyboard.press("Enter")
    wall = go_on(".rpc-compared .wall svg")
    assert wall.get_attribute("aria-label") == "3 numbers from 25 to 2,500"
    assert "measured" in wall.text_content()
    presented.keyboard.press("ArrowRight")
    for point in go_on(".line").locator("[role=slider]").all():
        point.focus()
        presented.keyboard.press("ArrowUp")
    presented.keyboard.press("Escape")
    presented.keyboard.press("ArrowRight")
    assert "your line" in go_on(".rpc-compared .line").inner_text()


REPLAYED = """each => {
  const seen = [each.replay.time()];
  each.querySelector('canvas').dispatchEvent(
    new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));
  seen.push(each.replay.time());
  const [rooms] = each.replay.counts(seen[1]);
  return [seen[0] < seen[1], rooms.slice(1).reduce((a, b) => a + b, 0),
          each.querySelector('canvas').getAttribute('aria-label').includes('a replay of')];
}"""


def test_one_lesson_as_a_file_has_formulas_solutions_and_replays_without_a_network(
    executed, browser, tmp_path
):
    page, requests = look(browser, build.as_html(LESSONS[0], tmp_path), 800)
    page.wait_for_selector("mjx-container svg")
    assert "quiz" in page.content()
    assert page.locator("summary", has_text="One way to solve").count() == 2
    page.wait_for_selector(".rpc-replay canvas", state="attached")
    replays = page.locator(".rpc-replay")

    assert replays.count() == 2  # one for each round
    for number in range(2):
        said = replays.nth(number).evaluate("""each => {
          each.replay.say({"03.global_lock": {value: 1234}, "03.per_key": {value: 1234}});
          return each.replay.predicted();
        }""")
        assert all(each == ["you said", 1234] for each in said)
        moved, in_flight, words = replays.nth(number).evaluate(REPLAYED)
        assert moved
        assert words
        assert 0 < in_flight <= 100  # the limit of the lesson
    replays.first.scroll_into_view_if_needed()
    box = replays.first.bounding_box()
    assert 0 <= box["x"] < box["x"] + box["width"] <= 801
    replays.first.get_by_role("button", name="play", exact=True).click()
    before = replays.first.evaluate("each => each.replay.time()")
    page.wait_for_timeout(300)
    assert replays.first.evaluate("each => each.replay.time()") > before
    assert requests == []
    page.context.close()


def test_a_broken_link_a_load_from_elsewhere_and_a_nameless_picture_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"></p><a href="b.html">x</a><a href="#here">y</a><a href="#gone">z</a>'
        '<script src="https://example.org/x.js"></script><img src="a.html" alt="">'
    )

    wrong = "\n".join(website.broken_links(tmp_path))

    assert len(wrong.splitlines()) == 4
    for part in ("b.html, which does not exist", "#gone", "needs the internet", "no alt text"):
        assert part in wrong


def test_an_old_copy_is_not_taken_for_a_page(tmp_path, monkeypatch):
    """It is old if its cells, the package or the mode have changed."""
    monkeypatch.setenv("COURSE_MODE", "fast")
    notebook = nbformat.read(LESSONS[0], as_version=4)
    made = {"mode": "fast", "machine": "m", "made_at": "2026-01-01"}
    notebook.metadata["course"] = {**made, "code": run_notebooks.code_version()}
    path = Path(tmp_path, LESSONS[0].name)
    failed = run_notebooks.Executed("03_bounded", notebook, 1.0, "cell 1 of 1: no")
    monkeypatch.setattr(run_notebooks, "execute", lambda _lesson: failed)

    nbformat.write(notebook, path)
    assert pages.executed(LESSONS[0], tmp_path).metadata["course"]["machine"] == "m"
    notebook.metadata["course"]["mode"] = "class"  # longer runs do as well
    nbformat.write(notebook, path)
    assert pages.executed(LESSONS[0], tmp_path).metadata["course"]["mode"] == "class"
    notebook.metadata["course"]["mode"] = "fast"
    for change in (
        lambda: monkeypatch.setenv("COURSE_MODE", "class"),
        lambda: monkeypatch.setattr(run_notebooks, "code_version", lambda: "another"),
        lambda: notebook.cells[1].update(source="1"),
    ):
        with monkeypatch.context():
            change()
            nbformat.write(notebook, path)
            with pytest.raises(pages.NotExecuted, match=r"03_bounded: cell 1 of 1: no"):
                pages.executed(LESSONS[0], tmp_path)
        monkeypatch.undo()
        monkeypatch.setenv("COURSE_MODE", "fast")
        monkeypatch.setattr(run_notebooks, "execute", lambda _lesson: failed)


def test_a_build_says_what_it_will_execute_and_executes_only_that(tmp_path, monkeypatch, capsys):
    lessons = run_notebooks.chosen(["00_start", "03_bounded", "further/03_hot"])
    done = []

    def execute(lesson):
        done.append(lesson.stem)
        if len(done) == 2:
            raise KeyboardInterrupt
        notebook = nbformat.read(lesson, as_version=4)
        made = {"mode": mode.name(), "machine": "m", "made_at": "2026-01-01"}
        notebook.metadata["course"] = {**made, "code": run_notebooks.code_version()}
        return run_notebooks.Executed(lesson.stem, notebook, 1.0)

    monkeypatch.setenv("COURSE_MODE", "class")  # restored afterwards, whatever main sets
    monkeypatch.delenv("COURSE_MODE")
    monkeypatch.setattr(run_notebooks, "execute", execute)
    monkeypatch.setattr(pages.executed, "__defaults__", (tmp_path,))
    monkeypatch.setattr(pages.current, "__defaults__", (tmp_path,))
    build_it = ["teacher", "00_start", "03_bounded", "further/03_hot", "--out", f"{tmp_path}/out"]

    assert build.main(build_it) == 130
    said = capsys.readouterr()
    assert "3 of 3 lessons to execute: about 1 minute" in said.out
    assert "the next build goes on" in said.err
    assert build.main(build_it) == 0
    assert "2 of 3 lessons to execute" in capsys.readouterr().out
    assert done == [lessons[0].stem, lessons[1].stem, lessons[1].stem, lessons[2].stem]
    assert mode.name() == "short"
    assert build.main(build_it) == 0
    assert "to execute" not in capsys.readouterr().out


def test_a_second_build_writes_only_what_has_changed(site):
    lesson, gone = (site / "lessons" / f"{name}.html" for name in ("03_bounded", "99_gone"))
    written_ns = lesson.stat().st_mtime_ns
    gone.write_text("an old page")
    assert website.build(site, LESSONS) == 0

    assert lesson.stat().st_mtime_ns == written_ns
    assert not gone.exists()
    assert (site / "index.html").exists()
