"""The core lessons in a real browser, from the top, as a learner goes through them.

Predictions are typed, a wrong and a right answer are handed in, sliders are moved by mouse and by
keyboard, the button runs the client, and the quiz is answered. It takes minutes, so it is left out
unless COURSE_SCREENSHOTS names a folder, which gets a picture of each output to look at:

    COURSE_SCREENSHOTS=/tmp/pictures python3 course.py test tests/test_browser_learner.py -n 0
"""

import os
import re
import shutil
import time
from pathlib import Path

import pytest
from labs import CELLS, CHROMIUM, CONNECTED, browser_open, checked_out, lab_open, open_lesson

pytest.importorskip("playwright.sync_api")

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
FOLDER = os.environ.get("COURSE_SCREENSHOTS", "")
LESSONS = [path.name for path in sorted(NOTEBOOKS.glob("0[0-7]_*.ipynb"))]
SIZES = {"1280x800": (1280, 800), "1920x1080": (1920, 1080)}
LASTING_S = 300
"""How long one cell may take, on a busy machine."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium"),
    pytest.mark.skipif(shutil.which("git") is None, reason="no git"),
    pytest.mark.skipif(not FOLDER, reason="takes minutes: set COURSE_SCREENSHOTS to a folder"),
]


class Learner:
    """Works through the open lesson with mouse and keyboard, and keeps pictures of what appears."""

    def __init__(self, page, folder):
        self.page, self.folder, self.pictures = page, folder, 0
        folder.mkdir(parents=True, exist_ok=True)

    def cells(self):
        return [cell for cell in self.page.evaluate(CELLS) if cell["source"].strip()]

    def node(self, cell, part="node"):
        """The cell in the page, or its outputs, in view."""
        return self.page.evaluate_handle(
            """async ([place, part]) => {
              const notebook = window.jupyterapp.shell.currentWidget.content;
              notebook.activeCellIndex = place;
              await notebook.scrollToItem(place);
              const cell = notebook.widgets[place];
              return part === 'outputs' ? cell.outputArea.node : cell.node;
            }""",
            [cell["place"], part],
        ).as_element()

    def run(self, cell):
        """Press Shift+Enter in the cell; its outputs once the kernel is idle again."""
        self.node(cell)
        self.page.evaluate(
            """() => {
              const notebook = window.jupyterapp.shell.currentWidget.content;
              notebook.mode = 'command'; notebook.node.focus();
            }"""
        )
        before = cell["count"]
        self.page.keyboard.press("Shift+Enter")
        ends_s = time.monotonic() + LASTING_S
        while time.monotonic() < ends_s:
            now = next(each for each in self.cells() if each["id"] == cell["id"])
            errors = [o["evalue"] for o in now["outputs"] if o["output_type"] == "error"]
            assert errors == [], f"{cell['id']}: {errors}"
            if now["count"] not in (None, before) and self.page.evaluate(CONNECTED):
                cell.update(now)
                return now["outputs"]
            time.sleep(0.1)
        pytest.fail(f"cell {cell['id']} did not end within {LASTING_S} s")

    def rewrite(self, cell, source):
        """Put an answer in place of what the cell holds, as by pasting."""
        self.page.evaluate(
            """([place, source]) => window.jupyterapp.shell.currentWidget.content.model
              .cells.get(place).sharedModel.setSource(source)""",
            [cell["place"], source],
        )

    def type_predictions(self, cell, number="20"):
        """Type a number into each `predict(...)` of the cell, key by key."""
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

    def picture(self, cell, name=""):
        """Keep a picture of the outputs of a cell."""
        self.page.wait_for_timeout(400)  # for pictures and formulas to be drawn
        self.pictures += 1
        path = self.folder / f"{self.pictures:02d}-{cell['id']}{name}.png"
        self.node(cell, "outputs").screenshot(path=path)

    def whole_page(self, name):
        self.pictures += 1
        self.page.screenshot(path=self.folder / f"{self.pictures:02d}-page-{name}.png")

    def hand_in(self, check, cells):
        """Run a check on the stub, on a known-wrong answer and on the reference."""
        exercise, name = re.search(r'check\("([\w.]+)", (\w+)\)', check["source"]).groups()
        defined = next(cell for cell in cells if re.search(rf"def {name}\(", cell["source"]))
        found = f'from kvstore.course.exercises import find\n{name} = find("{exercise}")'
        for what, answer in (("wrong", ".wrong[0].answer"), ("right", ".reference")):
            if defined["id"] == check["id"]:
                self.rewrite(check, f'{found}{answer}\ncheck("{exercise}", {name});')
            else:
                self.rewrite(defined, found + answer)
                self.run(defined)
            shown = str(self.run(check))
            self.picture(check, f"-{what}")
            assert ("✔" in shown) == (what == "right"), f"{exercise}, {what}: {shown[:400]}"

    def move_the_law(self, cell):
        """Move each slider by keyboard, the first by mouse as well, and press the button."""
        outputs = self.node(cell, "outputs")
        handles = outputs.query_selector_all(".noUi-handle")
        assert handles, "no slider was drawn"
        said = outputs.inner_text  # the sentence below the sliders has all values
        for number, handle in enumerate(handles):
            before = said()
            handle.focus()
            lowest = handle.get_attribute("aria-valuenow") == handle.get_attribute("aria-valuemin")
            self.page.keyboard.press("ArrowRight" if lowest else "ArrowLeft")
            self._until(lambda before=before: said() != before, f"slider {number} redraws")
        for choice in outputs.query_selector_all("select"):
            for index in (1, 0):
                before = said()
                choice.select_option(index=index)
                self._until(lambda before=before: said() != before, "the choice redraws")
        before = said()
        handles[0].scroll_into_view_if_needed()
        box, track = handles[0].bounding_box(), outputs.query_selector(".noUi-base").bounding_box()
        middle = track["x"] + track["width"] / 2
        self.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        self.page.mouse.down()
        self.page.mouse.move(middle + (60 if box["x"] < middle else -60), box["y"] + 5, steps=5)
        self.page.mouse.up()
        self._until(lambda: said() != before, "a slider follows the mouse")
        self.page.wait_for_timeout(500)  # until the picture follows, too
        self.page.wait_for_function(CONNECTED)
        button = outputs.query_selector("button")
        if button:
            button.click()
            self._until(lambda: "measured" in said(), "the button measures", LASTING_S)
        self.picture(cell, "-moved")

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
        self.picture(cell, "-answered")

    def _until(self, true, what, lasting_s=20):
        ends_s = time.monotonic() + lasting_s
        while not true():
            assert time.monotonic() < ends_s, f"never: {what}"
            self.page.wait_for_timeout(100)


def go_through(learner):
    """Work through the open lesson from the top."""
    learner.whole_page("top")
    cells = learner.cells()
    for cell in cells:
        source = cell["source"]
        if source.startswith("predict("):
            learner.type_predictions(cell)
        outputs = learner.run(cell)
        if 'check("' in source:
            learner.hand_in(cell, cells)
        elif "explore(" in source and "import" not in source:
            learner.picture(cell)
            learner.move_the_law(cell)
        elif source.startswith("quiz("):
            learner.answer_the_quiz(cell)
        elif outputs:
            learner.picture(cell)
    learner.whole_page("end")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    checkout = checked_out(tmp_path_factory.mktemp("lab") / "my courses")
    with lab_open(checkout, os.environ.get("COURSE_MODE", "fast")) as address:
        yield address


@pytest.mark.parametrize("name", LESSONS, ids=lambda name: f"lesson_{name[:2]}")
@pytest.mark.parametrize("size", SIZES)
def test_a_learner_goes_through_a_lesson(name, size, lab):
    with browser_open(*SIZES[size]) as page:
        complaints = []
        page.on("console", lambda said: said.type == "error" and complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        open_lesson(page, lab, name)

        go_through(Learner(page, Path(FOLDER) / size / name[:2]))

    assert complaints == []
