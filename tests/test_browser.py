"""Lessons in a real browser: JupyterLab opens one, runs every cell, and shows no error."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest
from labs import LAB

playwright = pytest.importorskip("playwright.sync_api")

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
TOKEN = "a-token-for-tests"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(500),  # a lab, a browser and two lessons, beside other tests
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium"),
    pytest.mark.skipif(shutil.which("git") is None, reason="no git"),
]


SETTINGS = {
    "IdentityProvider": {"token": TOKEN},
    "LabApp": {"expose_app_in_browser": True},  # window.jupyterapp, to give it commands
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A committed copy of what `course.py lab` needs, as a learner has it after `git clone`."""
    place = tmp_path_factory.mktemp("lab") / "my courses"
    place.mkdir()
    for name in ("course.py", ".gitignore", ".gitattributes"):
        shutil.copy(ROOT / name, place)
    for name in ("notebooks", "tools"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns(".ipynb_*"))
    _git(place, "init", "--quiet")
    _git(place, "add", "--all")
    who = ("-c", "user.name=tests", "-c", "user.email=tests@example.org")
    _git(place, *who, "commit", "--quiet", "--message", "the course")
    return place


def _git(place, *arguments):
    command = ["git", *arguments]
    return subprocess.run(command, cwd=place, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def lab(checkout):
    """`course.py lab` for real, in a browser's reach."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    own = checkout.parent
    homes = {name: str(own / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
    (own / "JUPYTER_CONFIG_DIR").mkdir()
    (own / "JUPYTER_CONFIG_DIR" / "jupyter_lab_config.json").write_text(json.dumps(SETTINGS))
    settings = {
        **os.environ,
        **homes,
        "COURSE_MODE": "fast",
        "COURSE_PROGRESS": str(own / "progress.sqlite"),
    }
    command = [sys.executable, "-c", LAB, "--no-browser", f"--port={port}"]
    with (own / "log.txt").open("w") as log:
        server = subprocess.Popen(command, cwd=checkout, env=settings, stdout=log, stderr=log)
    try:
        _wait_for(f"http://127.0.0.1:{port}/api?token={TOKEN}")
        yield f"http://127.0.0.1:{port}"
    finally:
        family = psutil.Process(server.pid).children(recursive=True)
        server.terminate()
        server.wait(20)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _wait_for(address):
    ends_s = time.monotonic() + 60
    while True:
        try:
            return urllib.request.urlopen(address, timeout=5).read()
        except OSError:
            assert time.monotonic() < ends_s, "JupyterLab did not come up"
            time.sleep(0.2)


@pytest.fixture(scope="module")
def page():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield browser.new_page(viewport={"width": 1400, "height": 1000})
        browser.close()


# The visible "idle" lies: cells that are run before the session is connected do nothing.
CONNECTED = """() => {
  const widget = window.jupyterapp?.shell.currentWidget;
  const kernel = widget?.context?.sessionContext?.session?.kernel;
  return kernel?.connectionStatus === 'connected' && kernel?.status === 'idle';
}"""
# All code cells as JupyterLab's own model has them, not as far as they are scrolled into view.
CELLS = """() => {
  const cells = window.jupyterapp.shell.currentWidget.content.model.cells;
  const found = [];
  for (let i = 0; i < cells.length; i++) {
    const cell = cells.get(i);
    if (cell.type === 'code') found.push({
      id: cell.id, count: cell.executionCount, source: cell.sharedModel.source,
      outputs: cell.outputs.toJSON()});
  }
  return found;
}"""


def run_all(page, lab, name, timeout_s=180):
    """Open a lesson, run all its cells, return the outputs once the kernel has become idle."""
    page.goto(f"{lab}/lab/tree/{name}?token={TOKEN}&reset")
    page.wait_for_function(CONNECTED, timeout=60_000)
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


def test_lessons_run_in_the_browser_and_are_saved_beside_the_course(page, lab, checkout):
    """After it, `course.py test` tests the same lessons, and an update meets no local change.

    The map on the first page, which is open at the end, leads to another lesson.
    """
    for lesson in ("01", "00"):
        (path,) = NOTEBOOKS.glob(f"{lesson}_*.ipynb")

        outputs = run_all(page, lab, path.name)

        assert any("image/png" in output.get("data", {}) for output in outputs)
        pictures = page.locator(".jp-OutputArea-output img")
        assert pictures.count() > 0  # the front end draws them, too

        assert page.evaluate(SAVED)
        assert _git(checkout, "status", "--porcelain") == ""
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
