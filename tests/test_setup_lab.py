"""`course.py lab` for real: JupyterLab comes up at the first page, and Ctrl-C leaves nothing."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from jupyter_client.manager import start_new_kernel
from labs import LAB

from tools import my_lessons

ROOT = Path(__file__).resolve().parent.parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process"),
]


class Lab:
    """A running JupyterLab and what it said."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self.log = log
        self.address, self.token = self._address()

    def _address(self) -> tuple[str, str]:
        ends_s = time.monotonic() + 60
        while time.monotonic() < ends_s and self.process.poll() is None:
            found = re.search(r"(http://(localhost|127\.\S+?):(\d+))/\S*\?token=(\w+)", self.said)
            if found:
                # Jupyter Server prints its address shortly before it listens there.
                with (
                    contextlib.suppress(ConnectionRefusedError),
                    socket.create_connection((found[2], int(found[3])), timeout=10),
                ):
                    return found[1], found[4]
            time.sleep(0.1)
        pytest.fail(f"JupyterLab did not come up:\n{self.said}")

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def ask(self, path: str, data: bytes | None = None) -> tuple[str, str]:
        """The address it led to, and the text there."""
        wanted = urllib.request.Request(f"{self.address}{path}", data=data)
        wanted.add_header("Authorization", f"token {self.token}")
        with urllib.request.urlopen(wanted, timeout=30) as reply:
            return reply.url, reply.read().decode()

    def kernel(self) -> psutil.Process:
        """The one kernel, as soon as it is itself."""
        ends_s = time.monotonic() + 30
        while time.monotonic() < ends_s:
            for process in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):  # short-lived helpers come and go
                    if "ipykernel_launcher" in process.cmdline():
                        return process
            time.sleep(0.1)
        pytest.fail(f"no kernel was started:\n{self.said}")


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab of a checkout with a space in its path, for a user with no settings of their own."""
    place = tmp_path / "my courses"
    (place / "notebooks").mkdir(parents=True)
    shutil.copy(ROOT / "course.py", place)
    shutil.copytree(ROOT / "tools", place / "tools")
    empty = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (place / "notebooks" / "00_start_here.ipynb").write_text(json.dumps(empty))
    homes = {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
    spec = tmp_path / "JUPYTER_DATA_DIR" / "kernels" / "python3"
    spec.mkdir(parents=True)
    # A kernelspec of the user's, with the name of ours and another Python.
    (spec / "kernel.json").write_text('{"argv": ["false"], "display_name": "?", "language": "?"}')
    log = tmp_path / "log.txt"
    terminal, keyboard = os.openpty()  # on a terminal JupyterLab would ask whether Ctrl-C is meant
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", LAB, "--no-browser"],
            cwd=place,
            env={**os.environ, **homes},
            stdin=keyboard,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
    try:
        yield Lab(process, log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        os.close(terminal)
        os.close(keyboard)


def test_it_opens_at_the_first_page_with_our_kernel_and_ends_with_one_ctrl_c(lab):
    """One story, because coming up takes seconds."""
    landed, _ = lab.ask("/")
    assert landed.endswith("/lab/tree/00_start_here.ipynb")
    assert json.loads(lab.ask("/api/contents/00_start_here.ipynb?content=0")[1])["type"]

    notification = "/lab/api/settings/@jupyterlab/apputils-extension:notification"
    defaults = json.loads(lab.ask(notification)[1])["schema"]["properties"]
    assert defaults["fetchNews"]["default"] == "false"  # "none" asks the learner at first sight
    assert defaults["checkForUpdates"]["default"] is False

    assert "custom/custom.css" in lab.ask("/lab")[1]
    assert "word-break: normal" in lab.ask("/custom/custom.css")[1]

    kernel = json.loads(lab.ask("/api/kernels", b'{"name": "python3"}')[1])
    assert kernel["name"] == "python3"
    process = lab.kernel()
    assert process.cmdline()[0] == sys.executable
    layout = json.loads(lab.ask("/lab/api/workspaces/default")[1])["data"]
    assert layout["layout-restorer:data"]["left"]["collapsed"]
    printed = [line for line in lab.said.splitlines() if line.strip()]
    assert len(printed) == 3, printed  # the folder, the advice, the address

    lab.process.send_signal(signal.SIGINT)
    assert lab.process.wait(30) == 0
    assert psutil.wait_procs([process], timeout=10)[1] == []


def test_after_a_restart_a_cell_in_the_middle_names_the_cell_to_run_first(monkeypatch, tmp_path):
    """Nothing of the course is imported then; a kernel of the lab helps all the same."""
    for name, value in my_lessons.lab_environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "my_lessons" / "01_blocking.ipynb"))
    manager, client = start_new_kernel(kernel_name="python3")
    said = []
    try:
        client.execute_interactive("compare(1)", timeout=60, output_hook=said.append)
        client.execute_interactive("dir()", timeout=60, output_hook=said.append)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)

    (error,) = [each["content"] for each in said if each["msg_type"] == "error"]
    assert "`compare` is made in code cell 1" in error["traceback"][0]
    assert "Traceback" not in "".join(error["traceback"])
    (names,) = [each["content"]["data"] for each in said if each["msg_type"] == "execute_result"]
    assert "kvstore" not in names["text/plain"]
