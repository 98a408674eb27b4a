"""A real kernel, and what its cells print."""

import os
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from jupyter_client.manager import KernelManager

from tools.run_notebooks import own_kernel


class Kernel:
    """A real kernel and what its cells print."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.manager = own_kernel(Path(self._folder.name), KernelManager)
        self.manager.start_kernel(cwd=os.getcwd())
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    @property
    def process(self):
        return psutil.Process(self.manager.provisioner.pid)

    def start(self, code):
        self.message = self.client.execute(code)

    def printed(self, until=None, timeout_s=30):
        """What the cell prints until it ends, or until it has printed this."""
        text, errors = "", []
        ends_s = time.monotonic() + timeout_s
        while time.monotonic() < ends_s:
            said = self.client.get_iopub_msg(timeout=timeout_s)
            if said["parent_header"].get("msg_id") != self.message:
                continue
            content = said["content"]
            text += content.get("text", "")
            if said["msg_type"] == "error":
                errors.append(content["ename"])
            if until is not None and until in text:
                return text, errors
            if said["msg_type"] == "status" and content["execution_state"] == "idle":
                return text, errors
        pytest.fail(f"the cell did not end within {timeout_s} s; it printed {text!r}")

    def run(self, code):
        self.start(code)
        return self.printed()

    def close(self):
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)
        self._folder.cleanup()
