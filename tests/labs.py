"""`course.py lab` as a program, and in a browser: in the environment that runs the tests."""

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

ROOT = Path(__file__).resolve().parent.parent
LAB = """
import course, pathlib, sys
course.course_python = lambda _extra='course': pathlib.Path(sys.executable)
sys.exit(course.main(["lab", *sys.argv[1:]]))
"""
TOKEN = "a-token-for-tests"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
SETTINGS = {
    "IdentityProvider": {"token": TOKEN},
    "LabApp": {"expose_app_in_browser": True},  # window.jupyterapp, to give it commands
}
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
      place: i, id: cell.id, count: cell.executionCount, source: cell.sharedModel.source,
      outputs: cell.outputs.toJSON()});
  }
  return found;
}"""


def git(place, *arguments):
    command = ["git", *arguments]
    return subprocess.run(command, cwd=place, check=True, capture_output=True, text=True).stdout


def checked_out(place):
    """A committed copy of what `course.py lab` needs, as a learner has it after `git clone`."""
    place.mkdir()
    for name in ("course.py", ".gitignore", ".gitattributes"):
        shutil.copy(ROOT / name, place)
    for name in ("notebooks", "tools"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns(".ipynb_*"))
    git(place, "init", "--quiet")
    git(place, "add", "--all")
    who = ("-c", "user.name=tests", "-c", "user.email=tests@example.org")
    git(place, *who, "commit", "--quiet", "--message", "the course")
    return place


@contextlib.contextmanager
def lab_open(checkout, mode="fast"):
    """`course.py lab` for real, in a browser's reach: its address."""
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
        "COURSE_MODE": mode,
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
        try:
            _end(server)
        finally:
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            server.kill()
            server.wait()


def _end(server):
    """Stop Jupyter Server, again if it did not hear: it ignores a signal while a kernel starts."""
    for patience_s in (20, 20, 60):  # beside other tests
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return server.wait(patience_s)
    raise AssertionError("JupyterLab did not end")


def _wait_for(address):
    ends_s = time.monotonic() + 150  # beside other tests
    while True:
        try:
            return urllib.request.urlopen(address, timeout=5).read()
        except OSError:
            assert time.monotonic() < ends_s, "JupyterLab did not come up"
            time.sleep(0.2)


@contextlib.contextmanager
def browser_open(width=1400, height=1000):
    """A page of Chromium of this size."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield browser.new_page(viewport={"width": width, "height": height})
        browser.close()


def open_lesson(page, lab, name):
    """Open a lesson in the page, and wait until its kernel can be given cells.

    JupyterLab sometimes misses the first word of its kernel, and shows "Connecting" until the page
    is opened again.
    """
    from playwright.sync_api import TimeoutError as NotConnected

    for timeout_ms in (60_000, 180_000):  # beside other tests
        page.goto(f"{lab}/lab/tree/{name}?token={TOKEN}&reset", timeout=180_000)
        try:
            return page.wait_for_function(CONNECTED, timeout=timeout_ms)
        except NotConnected:
            pass
    raise AssertionError(f"the kernel of {name} did not connect")
