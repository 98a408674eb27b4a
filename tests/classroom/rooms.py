"""A class in a process of its own, and its page: for the tests of votes."""

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

LESSONS = ("00", "03")


class Room:
    """An open class: what is on the board, and the page."""

    def __init__(self, process: "subprocess.Popen[str]", file: Path) -> None:
        assert process.stdout is not None
        board, page = process.stdout.readline(), process.stdout.readline()
        found = re.search(r'join\("(.+?)", "(.+?)"\)', board)
        assert found, board + page + process.stdout.read()
        self.address, self.code = found.groups()
        self.page = page.split()[-1]
        self.process, self.file = process, file

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def server(self) -> psutil.Process:
        return psutil.Process(self.process.pid)

    def state(self) -> Any:
        with urllib.request.urlopen(f"{self.page}state", timeout=30) as answer:
            return json.load(answer)

    def do(self, action: str, question: str = "", value: object = None) -> Any:
        sent = {"action": action, "question": question or self.state()["id"], "value": value}
        wanted = urllib.request.Request(f"{self.page}do", json.dumps(sent).encode())
        with urllib.request.urlopen(wanted, timeout=30) as answer:
            return json.load(answer)


@contextmanager
def class_open(file: Path, *arguments: str, lessons: tuple[str, ...] = LESSONS) -> Iterator[Room]:
    """Open the class of this file; a new file takes a free port, and keeps it."""
    new = () if file.exists() else ("--port", "0", *lessons)
    command = [sys.executable, "-m", "kvstore.classroom", "--no-browser", "--file", str(file)]
    with subprocess.Popen(
        [*command, *arguments, *new], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    ) as process:  # fmt: skip
        try:
            yield Room(process, file)
        finally:
            process.kill()
