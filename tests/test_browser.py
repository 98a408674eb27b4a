"""The core lessons in a real browser: run as a whole, and as a learner goes through them.

Predictions are typed, curves are drawn, a wrong and a right answer are handed in, the service of
lesson 15 is measured and named, and the quiz is answered. The suite has one lesson, the long tests
have all of them.
"""

import json
import os
import re
import shutil
import time
from pathlib import Path

import pytest
from labs import CELLS, CHROMIUM, CONNECTED, browser_open, checked_out, git, lab_open, open_lesson

from kvstore.course import lessons
from kvstore.course.questions import Curve, registered

pytest.importorskip("playwright.sync_api")

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
ANSWERS = f"""import sys
sys.path.append({str(NOTEBOOKS.parent / "tests" / "course")!r})
import answers, verdicts
from kvstore.course.exercises import find
"""
LESSONS = [f"{name}.ipynb" for name in lessons.LESSONS.values()]
SIZES = {"1280x800": (1280, 800), "640x400": (640, 400)}
"""The second one is the first one at a zoom of 200 %."""
ONE = ("03", "1280x800")
"""The lesson and the size in the suite: it has exercises, predictions and a quiz."""
CASES = [
    pytest.param(
        *(name, size),
        id=f"lesson_{name[:2]}-{size}",
        marks=() if (name[:2], size) == ONE else pytest.mark.long,
    )
    for size in SIZES
    for name in LESSONS
    if size != "640x400" or name[:2] == "03"
]
LASTING_S = 300
"""How long one cell may take, on a busy machine."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("browser"),  # it takes longest, so it begins first
    pytest.mark.timeout(1500),
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium"),
    pytest.mark.skipif(shutil.which("git") is None, reason="no git"),
]

COLUMNS = 105
"""JupyterLab breaks a longer line of plain text within a word, in a window of 1280 pixels."""
TOO_WIDE = """outputs => [...outputs.querySelectorAll('.jp-OutputArea-output')]
  .filter(each => each.scrollWidth > each.clientWidth + 1)
  .map(each => each.innerText)"""
PROSE = """outputs => {
  const copy = outputs.cloneNode(true), texts = [];
  for (const code of copy.querySelectorAll('pre, code, style, script')) code.remove();
  const walker = document.createTreeWalker(copy, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) texts.push(walker.currentNode.data);
  return texts.join('\\n');
}"""
"""The text of outputs without code and without what was printed."""
IN_LESSON_12 = {
    "yours-start": [
        "service.measure(in_flight=1)",
        'service.name("pool", "disk")',
        "service.predict(start=60)",
    ],
    "yours-run": ['service.buy("more threads")', "service.predict(result=150)"],
}
"""The cells that a learner adds to lesson 15 before one of its cells."""


def unreadable(text):
    """What a reader should not find in a text, each with the text around it."""
    signs = re.finditer(r"\bNaN\b|\bnan\b|\*\*|\$\$", text)
    found = [text[max(0, at.start() - 40) : at.end() + 40] for at in signs]
    for number in re.findall(r"(?<![\w.,:])\d[\d,]*(?:\.\d+)?(?![\d.:])", text):
        digits = re.sub(r"[,.]", "", number).lstrip("0")
        if len(digits if "." in number else digits.rstrip("0")) > 5:
            found.append(f"the digits of {number}")
    return found


class Learner:
    """Works through the open lesson with mouse and keyboard."""

    def __init__(self, page):
        self.page, self.problems = page, []

    def cells(self):
        return [cell for cell in self.page.evaluate(CELLS) if cell["source"].strip()]

    def node(self, cell, part="node"):
        """The cell in the page, or its outputs, in view."""
        return self.page.evaluate_handle(
            """async ([id, part]) => {
              const notebook = window.jupyterapp.shell.currentWidget.content;
              const place = notebook.widgets.findIndex(each => each.model.id === id);
              notebook.activeCellIndex = place;
              await notebook.scrollToItem(place);
              const cell = notebook.widgets[place];
              return part === 'outputs' ? cell.outputArea.node : cell.node;
            }""",
            [cell["id"], part],
        ).as_element()

    def command_mode(self, cell):
        self.node(cell)
        self.page.evaluate(
            """() => {
              const notebook = window.jupyterapp.shell.currentWidget.content;
              notebook.mode = 'command'; notebook.node.focus();
            }"""
        )

    def run_new_cell(self, below, source):
        """Add a cell above another one, with the keyboard, and run it."""
        known = {each["id"] for each in self.cells()}
        self.command_mode(below)
        self.page.keyboard.press("a")
        self.page.keyboard.press("Enter")
        self.page.keyboard.insert_text(source)
        self._until(lambda: len(self.cells()) > len(known), "a cell is added")
        (cell,) = (each for each in self.cells() if each["id"] not in known)
        assert cell["source"] == source
        self.run(cell)

    def run(self, cell):
        """Press Shift+Enter in the cell; its outputs once the kernel is idle again."""
        self.command_mode(cell)
        before = cell["count"]
        self.page.keyboard.press("Shift+Enter")
        ends_s = time.monotonic() + LASTING_S
        while time.monotonic() < ends_s:
            now = next(each for each in self.cells() if each["id"] == cell["id"])
            errors = [o["evalue"] for o in now["outputs"] if o["output_type"] == "error"]
            assert errors == [], f"{cell['id']}: {errors}"
            if now["count"] not in (None, before) and self.page.evaluate(CONNECTED):
                cell.update(now)
                self.look_at(cell)
                return now["outputs"]
            time.sleep(0.1)
        pytest.fail(f"cell {cell['id']} did not end within {LASTING_S} s")

    def look_at(self, cell):
        """Note what cannot be read in the outputs of a cell."""
        outputs = self.node(cell, "outputs")
        plain = "".join(
            "".join(each["text"]) for each in cell["outputs"] if each["output_type"] == "stream"
        )
        said = outputs.evaluate(PROSE)
        found = [f"too wide: {text[:80]}" for text in outputs.evaluate(TOO_WIDE)]
        found += [f"long line: {line}" for line in plain.splitlines() if len(line) > COLUMNS]
        found += unreadable(f"{said}\n{plain}")
        self.problems += [f"{cell['id']}: {each}" for each in found]

    def rewrite(self, cell, source):
        """Put an answer in place of what the cell holds, as by pasting."""
        self.page.evaluate(
            """([id, source]) => window.jupyterapp.shell.currentWidget.content.widgets
              .find(each => each.model.id === id).model.sharedModel.setSource(source)""",
            [cell["id"], source],
        )

    def type_predictions(self, cell):
        """Type a number into each `predict(...)` of the cell, key by key."""
        share = asked_in(cell["source"]).unit.startswith("of the ")
        number = "0.2" if share else "20"
        self.node(cell).query_selector(".cm-content").click()
        keyboard = self.page.keyboard
        keyboard.press("Control+Home")
        for line in cell["source"].splitlines():
            keyboard.press("End")
            for _ in range(len(line) - line.rindex(")")):
                keyboard.press("ArrowLeft")
            if "None" in line:
                for _ in "None":
                    keyboard.press("Backspace")
                keyboard.type(number)
            else:
                keyboard.type(f", {number}")
            keyboard.press("ArrowDown")
        now = next(each for each in self.cells() if each["id"] == cell["id"])["source"]
        wanted = re.sub(r"(, None)?\)", f", {number})", cell["source"])
        assert now == wanted, f"typing went wrong: {now!r}"

    def draw(self, cell):
        """Move each point of a curve up by a key, and see that each has a value then."""
        outputs = self.node(cell, "outputs")
        self._until(lambda: outputs.query_selector_all("[role=slider]"), "a curve has points")
        for point in outputs.query_selector_all("[role=slider]"):
            point.focus()
            self.page.keyboard.press("ArrowUp")
            self._until(
                lambda point=point: "not drawn" not in point.get_attribute("aria-valuetext"),
                "a point moves by a key",
            )

    def hand_in(self, check, cells):
        """Run a check on the stub, on a known-wrong answer and on the reference."""
        exercise, name = re.search(r'check\("([\w.]+)", (\w+)\)', check["source"]).groups()
        begins = re.compile(rf"(def|class) {name}\(")
        defined = next(cell for cell in cells if begins.search(cell["source"]))
        for what, answer in (
            ("wrong", f"verdicts.known_wrong_in_a_notebook({exercise!r})"),
            ("right", f"find({exercise!r}).reference"),
        ):
            found = f"{ANSWERS}{name} = {answer}"
            if defined["id"] == check["id"]:
                self.rewrite(check, f'{found}\ncheck("{exercise}", {name});')
            else:
                self.rewrite(defined, found)
                self.run(defined)
            shown = str(self.run(check))
            assert ("✔" in shown) == (what == "right"), f"{exercise}, {what}: {shown[:400]}"

    def answer_the_quiz(self, cell):
        """Choose the first option of each question, then a second one of the first question."""
        outputs = self.node(cell, "outputs")
        groups = outputs.query_selector_all(".widget-radio")
        assert groups, "no radio buttons were drawn"
        said = lambda: len(re.findall(r"[✔✘]", outputs.inner_text()))  # noqa: E731
        for number, group in enumerate(groups, start=1):
            group.query_selector("input").click()
            self._until(lambda number=number: said() == number, "a choice is explained")
        groups[0].query_selector_all("input")[1].click()
        self._until(
            lambda: "first choice" in outputs.inner_text(), "a second choice is not the first"
        )

    def _until(self, true, what, lasting_s=20):
        ends_s = time.monotonic() + lasting_s
        while not true():
            assert time.monotonic() < ends_s, f"never: {what}"
            self.page.wait_for_timeout(100)


def asked_in(source):
    """The question that a cell asks first."""
    return registered(re.search(r'"([\w.]+)"', source)[1])


def go_through(learner):
    """Work through the open lesson from the top."""
    cells = learner.cells()
    for cell in cells:
        source = cell["source"]
        for before in IN_LESSON_12.get(cell["id"], ()):
            learner.run_new_cell(cell, before)
        curve = source.startswith("predict(") and isinstance(asked_in(source), Curve)
        if source.startswith("predict(") and not curve:
            learner.type_predictions(cell)
        learner.run(cell)
        if curve:
            learner.draw(cell)
        elif 'check("' in source:
            learner.hand_in(cell, cells)
        elif source.startswith("quiz("):
            learner.answer_the_quiz(cell)


@pytest.fixture(scope="module")
def lab(request, tmp_path_factory):
    """A lab and its checkout, for each size: its progress keeps predictions and first choices."""
    checkout = checked_out(tmp_path_factory.mktemp("lab") / "my courses")
    with lab_open(checkout, os.environ.get("COURSE_MODE", "fast")) as address:
        yield checkout, address


@pytest.fixture
def page():
    with browser_open() as page:
        yield page


in_one_lab = pytest.mark.parametrize("lab", [ONE[1]], indirect=True)


@pytest.mark.parametrize(("name", "lab"), CASES, indirect=["lab"])
def test_a_learner_goes_through_a_lesson(name, lab, request):
    size = request.node.callspec.params["lab"]
    with browser_open(*SIZES[size]) as page:
        complaints = []
        page.on("console", lambda said: said.type == "error" and complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        open_lesson(page, lab[1], name)

        learner = Learner(page)
        go_through(learner)

    assert complaints == []
    assert learner.problems == []


def run_all(page, lab, name, timeout_s=180):
    """Open a lesson, run all its cells, return the outputs once the kernel has become idle."""
    open_lesson(page, lab, name)
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    ends_s = time.monotonic() + timeout_s
    while time.monotonic() < ends_s:
        cells = [cell for cell in page.evaluate(CELLS) if cell["source"].strip()]
        outputs = [output for cell in cells for output in cell["outputs"]]
        errors = [output["evalue"] for output in outputs if output["output_type"] == "error"]
        assert [] == errors  # JupyterLab runs no further cell after one
        if all(cell["count"] for cell in cells) and page.evaluate(CONNECTED):
            return outputs
        time.sleep(0.25)
    left = [cell["id"] for cell in cells if not cell["count"]]
    pytest.fail(f"{name} was not done after {timeout_s} s: {left} have not run")


SAVED = """async () => {
  await window.jupyterapp.commands.execute('docmanager:save');
  return !window.jupyterapp.shell.currentWidget.context.model.dirty;
}"""


@pytest.mark.long
@in_one_lab
def test_a_lesson_runs_in_the_browser_and_is_saved_beside_the_course(lab, page):
    """After it, `course.py test` tests the same lessons, and an update meets no local change.

    It is the first page: its widgets work, and its map leads to another lesson.
    """
    (path,) = NOTEBOOKS.glob("00_*.ipynb")
    checkout, address = lab

    outputs = run_all(page, address, path.name)

    assert any("image/png" in output.get("data", {}) for output in outputs)
    pictures = page.locator(".jp-OutputArea-output img")
    assert pictures.count() > 0  # the front end draws them, too

    assert page.evaluate(SAVED)
    assert git(checkout, "status", "--porcelain") == ""
    for original in sorted(NOTEBOOKS.rglob("*.ipynb")):
        used = checkout / "notebooks" / original.relative_to(NOTEBOOKS)
        assert used.read_bytes() == original.read_bytes(), original.name
    mine = json.loads((checkout / "my_lessons" / path.name).read_text("utf-8"))
    assert len(outputs) == sum(len(cell.get("outputs", ())) for cell in mine["cells"])

    page.locator("a[href*='01_blocking']").first.click()

    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget?.context?.path === '01_blocking.ipynb'",
        timeout=30_000,
    )
    page.wait_for_function(CONNECTED, timeout=180_000)  # its kernel is not starting any more
