"""docs/architecture.md against the code, and against one run that is followed call by call."""

import ast
import json
import re
import signal
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import pandas as pd
import pytest

from kvstore.client import strategies, workload
from kvstore.course import live, views
from kvstore.measure import Run
from kvstore.model import Station

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
DRAWING = (ROOT / "docs" / "architecture.svg").read_text(encoding="utf-8")
CALLS = 100

STOPS = re.findall(r"^(\d+)\. `(kvstore/[\w/]+)\.py`, (.*?`):", PAGE, re.M | re.S)
"""Number, module and named functions of each stop."""


def test_the_stops_are_numbered_and_at_most_twenty():
    modules = [module for _, module, _ in STOPS]

    assert [int(number) for number, _, _ in STOPS] == list(range(1, len(STOPS) + 1))
    assert len(set(modules)) == len(STOPS) <= 20
    assert len(PAGE.splitlines()) <= 110, "a hundred lines that a newcomer reads first"


def defined_in(module):
    """The functions, classes and methods of a module."""
    tree = ast.parse((ROOT / f"{module}.py").read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = {node.name for node in tree.body if isinstance(node, kinds)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, kinds)}
    return found


def test_each_named_function_exists():
    missing = [
        f"{module}: {name}"
        for _, module, names in STOPS
        for name in re.findall(r"`([\w.]+)`", names)
        if name not in defined_in(module)
    ]

    assert missing == []


def test_the_drawing_shows_the_stops():
    drawn = re.findall(r">(\d+) ([\w/]+)<", DRAWING)

    assert drawn == [(n, module.removeprefix("kvstore/")) for n, module, _ in STOPS]
    assert "](architecture.svg)" in PAGE
    assert not re.search(r"<image|base64", DRAWING)


def module_of(frame):
    name = frame.f_globals.get("__name__") or ""
    return name.replace(".", "/") if name.startswith("kvstore.") else ""


def holds_a_run(value):
    """Whether an argument is a run, or what a view makes of it: rows or a table."""
    if isinstance(value, list | tuple) and value:
        value = value[0]
    return isinstance(value, Run | pd.DataFrame | dict)


class Trace:
    """Follows our functions in all threads: how often each ran, and from where the first time.

    A thread belongs to the function that started it, so the callers of a strategy lead back to
    the cell.
    """

    def __init__(self):
        self.calls = Counter()
        self.callers = {}
        self.saw_a_run = set()
        self._started_from = {}

    def __call__(self, frame, event, _argument):
        if event != "call":
            return
        if frame.f_code is threading.Thread.start.__code__:
            self._started_from[frame.f_locals["self"]] = self._modules_above(frame)
        elif module := module_of(frame):
            function = f"{module}:{frame.f_code.co_qualname}"
            self.calls[function] += 1
            if function not in self.callers:
                self.callers[function] = self._modules_above(frame)
            code = frame.f_code
            arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if any(holds_a_run(frame.f_locals.get(name)) for name in arguments):
                self.saw_a_run.add(module)

    def _modules_above(self, frame):
        above = set(self._started_from.get(threading.current_thread(), ()))
        while frame := frame.f_back:
            above.add(module_of(frame))
        return above

    @contextmanager
    def following(self):
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def modules_of_each_call(calls):
    """The modules with a function that ran at least once for each call."""
    return {function.split(":")[0] for function, count in calls.items() if count >= CALLS}


@pytest.fixture(scope="module")
def passed():
    """The modules that a call of lesson 03 passes, from the cell to the plot.

    A module counts if a function of it runs for each call, if it is on the stack above the
    strategy, or, once the run has ended, if it is given the run or what was made of it.
    """
    options = ["--locking=global", "--station-times", "--read-delay-s=0.001"]
    command = [sys.executable, str(ROOT / "tests" / "traced_server.py"), *options]
    run_trace, view_trace = Trace(), Trace()
    with Popen([*command, "--write-delay-s=0.001"], stdout=PIPE, text=True, cwd=ROOT) as server:
        try:
            address = server.stdout.readline().strip()
            with run_trace.following():
                run = live.run(
                    strategies.bounded, address, workload.crud(seed=3), in_flight=10, calls=CALLS
                )
            server.send_signal(signal.SIGTERM)
            server_calls = json.loads(server.stdout.read().splitlines()[-1])
        finally:
            server.kill()
    with view_trace.following():
        views.plot_throughput_by_in_flight([run], [Station("lock", 0.001)])
    assert len(run.records) == CALLS
    return {
        "kvstore/client/strategies",
        *run_trace.callers["kvstore/client/strategies:bounded"],
        *modules_of_each_call(run_trace.calls),
        *modules_of_each_call(server_calls),
        *view_trace.saw_a_run,
    } - {""}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM for a process")
def test_the_page_has_the_modules_that_one_call_really_passes(passed):
    assert sorted(passed) == sorted(module for _, module, _ in STOPS)
