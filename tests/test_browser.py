"""The core lessons in a real browser: run as a whole, and as a learner goes through them.

Predictions are typed, a wrong and a right answer are handed in, sliders are moved by mouse and by
keyboard, the button runs the client, the service of lesson 15 is measured and named, and the quiz
is answered. The suite has one lesson, the long tests have all of them.
COURSE_SCREENSHOTS names a folder for a picture of each output to look at:

    COURSE_SCREENSHOTS=/tmp/pictures python3 course.py test --long tests/test_browser.py
"""

import json
import os
import re
import shutil
import time
from pathlib import Path

import nbformat
import pytest
from labs import CELLS, CHROMIUM, CONNECTED, browser_open, checked_out, git, lab_open, open_lesson

from kvstore.course import lessons
from kvstore.course.questions import Curve, registered
from tools import edition

pytest.importorskip("playwright.sync_api")

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
ANSWERS = f"""import sys
sys.path.append({str(NOTEBOOKS.parent / "tests" / "course")!r})
import answers, verdicts
from kvstore.course.exercises import find
"""
FOLDER = os.environ.get("COURSE_SCREENSHOTS", "")
LESSONS = [f"{name}.ipynb" for name in lessons.LESSONS.values()]
SIZES = {"1280x800": (1280, 800), "1920x1080": (1920, 1080), "640x400": (640, 400)}
"""The last one is the first one at a zoom of 200 %."""
ONE = ("03", "1280x800")
"""The lesson and the size in the suite: it has exercises, predictions, sliders and a quiz."""
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
HEIGHT = "() => document.querySelector('.jp-WindowedPanel-outer').clientHeight"
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
    """Works through the open lesson with mouse and keyboard, and keeps pictures of what appears."""

    def __init__(self, page, folder):
        self.page, self.folder, self.pictures = page, folder, 0
        self.problems = []
        folder.mkdir(parents=True, exist_ok=True)

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
        self.picture(cell)

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
        self.picture(cell, "-drawn")

    def picture(self, cell, name=""):
        """Keep a picture of the outputs of a cell, for a person to look at."""
        if not FOLDER:
            return
        self.page.wait_for_timeout(400)  # for pictures and formulas to be drawn
        self.pictures += 1
        path = self.folder / f"{self.pictures:02d}-{cell['id']}{name}.png"
        outputs, size = self.node(cell, "outputs"), self.page.viewport_size
        height = outputs.bounding_box()["height"]
        if height > self.page.evaluate(HEIGHT):  # else the lower part is cut off
            self.page.set_viewport_size({**size, "height": round(height) + 300})
            outputs = self.node(cell, "outputs")
        outputs.screenshot(path=path)
        self.page.set_viewport_size(size)

    def whole_page(self, name):
        if not FOLDER:
            return
        self.pictures += 1
        self.page.screenshot(path=self.folder / f"{self.pictures:02d}-page-{name}.png")

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
            self.picture(check, f"-{what}")
            assert ("✔" in shown) == (what == "right"), f"{exercise}, {what}: {shown[:400]}"

    def move_the_law(self, cell):
        """Move each slider by keyboard, the first by mouse as well, and press the button."""
        outputs = self.node(cell, "outputs")
        handles = outputs.query_selector_all(".noUi-handle")
        assert handles, "no slider was drawn"
        sentence = outputs.query_selector("[aria-live]")
        assert sentence.bounding_box()["height"] < 100
        height = outputs.bounding_box()["height"]
        if height > self.page.evaluate(HEIGHT) and self.page.viewport_size["height"] >= 800:
            self.problems.append(f"{cell['id']}: sliders and figure need {height} pixels")
        tracks = [each.bounding_box()["width"] for each in outputs.query_selector_all(".noUi-base")]
        assert min(tracks) > 50, f"{cell['id']}: tracks of {tracks} pixels"

        def said():  # drawn anew for each of the values
            return outputs.query_selector("[aria-live]").inner_text()

        def agrees():
            shown = [each.inner_text() for each in outputs.query_selector_all(".widget-readout")]
            for choice in outputs.query_selector_all("select"):
                shown.append(choice.evaluate("each => each.selectedOptions[0].innerText"))
            return re.findall(r" = (\S+?)(?=, |: predicted)", said()) == shown

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
        self._until(agrees, "the sentence has the values of the sliders")
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


def asked_in(source):
    """The question that a cell asks first."""
    return registered(re.search(r'"([\w.]+)"', source)[1])


def go_through(learner):
    """Work through the open lesson from the top."""
    learner.whole_page("top")
    cells = learner.cells()
    for cell in cells:
        source = cell["source"]
        for before in IN_LESSON_12.get(cell["id"], ()):
            learner.run_new_cell(cell, before)
        curve = source.startswith("predict(") and isinstance(asked_in(source), Curve)
        if source.startswith("predict(") and not curve:
            learner.type_predictions(cell)
        outputs = learner.run(cell)
        if curve:
            learner.draw(cell)
        elif 'check("' in source:
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
def test_a_learner_goes_through_a_lesson(name, lab, request, tmp_path):
    size = request.node.callspec.params["lab"]
    with browser_open(*SIZES[size]) as page:
        complaints = []
        page.on("console", lambda said: said.type == "error" and complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        open_lesson(page, lab[1], name)

        learner = Learner(page, Path(FOLDER or tmp_path) / size / name[:2])
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


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_every_core_lesson_of_the_students_edition_runs(page, tmp_path, monkeypatch):
    students = edition.student(tmp_path / "student")
    monkeypatch.setenv("PYTHONPATH", str(students))
    with lab_open(students, "fast") as address:
        for name in LESSONS:
            outputs = run_all(page, address, name)
            assert "image/png" in {kind for output in outputs for kind in output.get("data", ())}


REPLAYS = '''
import asyncio
import json
import random
import numpy as np
from kvstore.client import load, strategies, workload
from kvstore.course import replay, run
from kvstore.course.lessons.lesson_11.exercises import hedged
from kvstore.measure.attempts import attempts_of
from kvstore.server import serving, serving_sharded

mix, reads = workload.crud(seed=3), workload.reads(seed=3)
disk = {"read_delay_s": 0.004, "write_delay_s": 0.008, "station_times": True}
runs, order = {}, {}
for name, lesson in (("global", "03"), ("per_key", "03, no lock"), ("per_key_held", "04")):
    with serving(locking=name, threads=8, **disk) as server:
        runs[lesson] = load.run(strategies.bounded, server, mix, in_flight=20, duration_s=1)
    held = ("pool_s", "lock_s", "disk_s", "rest_s")
    order[lesson] = ("pool_s", "disk_s", "lock_s", "rest_s") if name == "per_key" else held
with (
    serving(read_delay_s=0.05, locking="per_key", use_asyncio=True) as back,
    serving(threads=5, back_end=back.address, station_times=True) as front,
):
    runs["07"] = load.run(strategies.tasks, front, reads, in_flight=9, duration_s=1)
    order["07"] = ("pool_s", "disk_s", "rest_s")
slow = disk | {"read_delay_s": 0.05}
with serving(threads=4, locking="per_key", max_concurrent_rpcs=16, **slow) as server:
    late = {"deadline_s": 0.22, "duration_s": 1}
    runs["09"] = load.run(strategies.futures, server, reads, rate_per_s=200, **late)
    order["09"] = ("pool_s", "disk_s", "lock_s", "rest_s")
policy = {"maxAttempts": 4, "initialBackoff": "0.02s", "maxBackoff": "0.1s",
          "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}
with (
    serving(threads=2, read_delay_s=0.02, locking="per_key") as back,
    serving(use_asyncio=True, back_end=back.address, back_end_timeout_s=0.1,
            note_attempts=True) as front,
):
    again = {"methodConfig": [{"name": [{}], "retryPolicy": policy}]}
    runs["10, retries"] = load.run(
        strategies.futures, front, reads, rate_per_s=150, duration_s=1, service_config=again)
with serving_sharded(3, read_delay_s=0.005) as servers:
    runs["12"] = load.run(strategies.tasks, servers, mix, in_flight=20, duration_s=1)


async def hedging(stubs, requests):
    async with asyncio.TaskGroup() as group:
        async for request in requests:
            group.create_task(hedged(*random.sample(stubs, 2), request, 0.03))


pair = [{"locking": "per_key", "threads": 2, "read_delay_s": 0.02}] * 2
runs["11, hedged"] = run(hedging, pair, rate=150, seconds=None, calls=150)


def counted(lesson, t):
    """The calls at each station, from the records of the run alone."""
    run = runs[lesson]
    sent, done = (run.records[name].astype("f4") for name in ("sent_s", "done_s"))
    here = (sent <= t) & (t < done)
    if lesson in order:
        times = np.stack([run.records[name] for name in order[lesson]])
        known = ~np.isnan(times).any(axis=0)
        way = np.maximum(0, (run.records["done_s"] - run.records["sent_s"] - times.sum(axis=0)) / 2)
        since = run.records["sent_s"] + way + np.cumsum(times, axis=0)
        began = run.records["sent_s"] + way
        at = [here & known & (np.vstack([began, since])[n] <= t) & (t < since[n])
              for n in range(len(times))]
        found = [int(each.sum()) for each in at]
        network = int((here & known).sum()) - sum(found)
        return [network, *found, *([int((here & ~known).sum())] if not known.all() else [])]
    if run.server.get("attempts"):
        seen = attempts_of(run)
        calls = run.records[np.argsort(run.records["sent_s"], kind="stable")]
        arrived_s = np.maximum(seen.arrived_s, calls["sent_s"][:, None])  # the clocks differ
        open_now = (arrived_s <= t) & (t < np.minimum(seen.ended_s, calls["done_s"][:, None]))
        began = (arrived_s[:, 0] <= t) & (calls["done_s"] > t)
        later = [(a[~np.isnan(a)] > t).any() for a in arrived_s]
        between = began & ~open_now.any(axis=1) & np.array(later)
        in_server = int(open_now.any(axis=1).sum())
        return [int(here.sum()) - in_server - int(between.sum()), in_server, int(between.sum())]
    return [int((here & (run.records["connection"] == n)).sum())
            for n in range(1 + run.records["connection"].max())]


made = replay(runs)
edges = np.concatenate([scene.edges.ravel() for scene in made.scenes])
times = []
for about in (0.3, 0.55, 0.8):
    near = np.unique(edges[np.abs(edges - about) < 0.05])
    widest = np.diff(near).argmax()  # no call is at an edge there
    times.append(float(near[widest] + np.diff(near)[widest] / 2))
print("counted", json.dumps({t: [counted(name, t) for name in runs] for t in times}))
'''
"""Runs as in the lessons that have a replay, and what their records say of three moments."""


@pytest.mark.long  # tests/course/test_replay.py has the same counts on a page, without JupyterLab
@in_one_lab
def test_replays_show_the_counts_of_the_records_in_jupyterlab(lab):
    checkout, address = lab
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(REPLAYS, id="replays")])
    notebook.metadata = nbformat.read(NOTEBOOKS / LESSONS[0], as_version=4).metadata  # its kernel
    nbformat.write(notebook, checkout / "my_lessons" / "replays.ipynb")
    with browser_open(1920, 1080) as page:
        complaints = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        outputs = run_all(page, address, "replays.ipynb")
        (said,) = re.findall(r"counted (\{.*?\]\]\})", str(outputs))
        root = page.locator(".rpc-replay")
        for theme in ("Light", "Dark"):
            page.evaluate(
                "t => window.jupyterapp.commands.execute('apputils:change-theme', {theme: t})",
                f"JupyterLab {theme}",
            )
            for width in (1920, 800):
                page.set_viewport_size({"width": width, "height": 1080})
                for at_s, expected in json.loads(said).items():
                    found = root.evaluate("(e, t) => e.replay.counts(t)", float(at_s))
                    assert expected == [rooms[1:] for rooms in found], (theme, width, at_s)
                    root.evaluate("(e, t) => e.replay.goTo(t)", float(at_s))
                    words = root.locator("[data-replay=counts]").inner_text()
                    for rooms in expected:
                        assert all(f" {count}" in words for count in rooms)
                canvas = root.locator("canvas").first
                assert canvas.bounding_box()["width"] <= width
                if FOLDER:
                    page.wait_for_timeout(500)
                    for number, each in enumerate(root.locator("canvas").all()):
                        name = f"replay-{number}-{theme}-{width}.png"
                        each.screenshot(path=Path(FOLDER, name))
    assert complaints == []
