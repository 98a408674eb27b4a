"""Lessons in a real browser: JupyterLab opens one, runs every cell, and shows no error."""

import contextlib
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

playwright = pytest.importorskip("playwright.sync_api")

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
TOKEN = "a-token-for-tests"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),  # a lab, a browser and a lesson, beside other tests
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab on a copy of the lessons; what it saves does not touch the checkout."""
    place = tmp_path_factory.mktemp("lab")
    shutil.copytree(NOTEBOOKS, place / "notebooks")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        f"--ServerApp.port={port}",
        f"--ServerApp.root_dir={place / 'notebooks'}",
        f"--IdentityProvider.token={TOKEN}",
        "--LabApp.expose_app_in_browser=True",  # window.jupyterapp, to give it commands
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    homes = {name: str(place / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
    settings = {
        **os.environ,
        **homes,
        "COURSE_MODE": "fast",
        "COURSE_PROGRESS": str(place / "progress.sqlite"),
        "JUPYTER_PREFER_ENV_PATH": "1",
    }
    with (place / "log.txt").open("w") as log:
        server = subprocess.Popen(command, env=settings, stdout=log, stderr=log)
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


@pytest.mark.parametrize("lesson", ["00", "01"])
def test_a_lesson_runs_in_the_browser(page, lab, lesson):
    (path,) = NOTEBOOKS.glob(f"{lesson}_*.ipynb")

    outputs = run_all(page, lab, path.name)

    assert any("image/png" in output.get("data", {}) for output in outputs)
    pictures = page.locator(".jp-OutputArea-output img")
    assert pictures.count() > 0  # the front end draws them, too


def test_the_map_leads_from_the_first_page_to_a_lesson(page, lab):
    page.goto(f"{lab}/lab/tree/00_start_here.ipynb?token={TOKEN}&reset")
    page.wait_for_function(CONNECTED, timeout=60_000)

    page.locator("a[href*='01_blocking']").first.click()

    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget?.context?.path === '01_blocking.ipynb'",
        timeout=30_000,
    )
