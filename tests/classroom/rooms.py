"""A class in a process of its own, and its page: for the tests of votes."""

import functools
import json
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from kvstore.classroom.store import Store
from kvstore.course import in_class, progress

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

    def laws(self) -> Any:
        with urllib.request.urlopen(f"{self.page}laws", timeout=30) as answer:
            return json.load(answer)

    def do(self, action: str, question: str = "", value: object = None) -> Any:
        sent = {"action": action, "question": question or self.state()["id"], "value": value}
        wanted = urllib.request.Request(f"{self.page}do", json.dumps(sent).encode())
        with urllib.request.urlopen(wanted, timeout=30) as answer:
            return json.load(answer)


@functools.cache
def _questions() -> Any:
    return in_class.catalogue(list(LESSONS))["questions"]


@contextmanager
def class_open(file: Path, *arguments: str) -> Iterator[Room]:
    """Open the class of this file; a new file takes a free port, and keeps it.

    The questions are written into a new file, as the class of an earlier hour has them.
    """
    if not file.exists():
        store = Store(file)
        catalogue = {"questions": _questions(), "progress": str(progress.path()), "folder": ""}
        with socket.socket() as free:  # other tests open classes at the usual port of a page
            free.bind(("127.0.0.1", 0))
            store.keep(catalogue=json.dumps(catalogue), page_port=free.getsockname()[1])
        store.close()
        arguments = ("--port", "0", *arguments)
    command = [sys.executable, "-m", "kvstore.classroom", "--no-browser", "--file", str(file)]
    with subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield Room(process, file)
        finally:
            process.kill()
