"""A lesson that is interrupted, or fails, leaves nothing running and can be run again.

Two halves. Whatever a cell starts, it starts in a `with` block of its own: read from the source
of every cell. And a run that lasts is really interrupted: in a lesson with one client process, and
in one with several; with COURSE_NIGHTLY=1 in each core lesson.
"""

import ast
import importlib
import inspect
import os
import time

import psutil
import pytest
from kernels import Kernel
from lessons import NOTEBOOKS, cells_of, needed_for
from tables import for_each

LAST_AS_LONG_AS_THE_KERNEL = {("13_your_own_service", "settings")}
"""Cells that start what the whole lesson measures: another process, which ends with the kernel."""

by_lesson = for_each("path", NOTEBOOKS)
CORE = [
    path
    for path in NOTEBOOKS
    # Those that serve in no cell measure a service that lasts as long as the kernel.
    if path.parent.name != "further" and any(cell.serves for cell in cells_of(path))
]
INTERRUPTED = [
    path
    for path in CORE
    if os.environ.get("COURSE_NIGHTLY") or path.stem in ("03_bounded", "10_beyond_one_machine")
]

MUST_BE_STOPPED = {"insecure_channel", "Popen", "Thread", "Timer", "Process", "ThreadPoolExecutor",
                   "ProcessPoolExecutor", "Runner", "create_subprocess_exec"}  # fmt: skip
"""What other libraries start, and somebody has to stop."""


@by_lesson
def test_what_a_cell_starts_ends_with_a_block_of_that_cell(path):
    cells = cells_of(path)
    ours = {name for cell in cells for name in _context_managers_of_ours(cell.tree)}
    outside = [
        f"{cell.id}: {ast.unparse(call.func)}"
        for cell in cells
        for call in _calls_outside_of_with(cell.tree)
        if _last_name(call.func) in MUST_BE_STOPPED | ours | {"__enter__", "start"}
        # A server of gRPC has no block of its own: its cell has to stop what it starts.
        if not (ast.unparse(call.func) == "server.start" and "server.stop(" in cell.source)
        and (path.stem, cell.id) not in LAST_AS_LONG_AS_THE_KERNEL
    ]

    assert [] == outside


def test_a_start_outside_of_a_block_is_found():
    """The test above finds nothing only because there is nothing."""
    source = "with serving() as server:\n    pass\nblock = serving()\nthreading.Thread().start()"
    found = [_last_name(call.func) for call in _calls_outside_of_with(ast.parse(source))]

    assert {"serving", "Thread", "start"} == set(found)
    imports = ast.parse("from kvstore.server import Server, serving\nfrom kvstore import awake")
    assert {"serving"} == _context_managers_of_ours(imports)


@pytest.fixture(scope="module")
def kernel():
    """One kernel for all lessons: importing the libraries takes longer than the tests."""
    running = Kernel()
    yield running
    running.close()


@pytest.mark.slow
@for_each("path", INTERRUPTED)
def test_an_interrupted_cell_leaves_nothing_and_runs_again(path, kernel, tmp_path):
    cells = cells_of(path)
    place = max(
        (place for place, cell in enumerate(cells) if cell.serves),
        key=lambda at: (cells[at].lasts, -sum(c.serves for c in needed_for(cells, at))),
    )
    before = needed_for(cells, place)
    settings = f"os.environ['COURSE_PROGRESS'] = {str(tmp_path / 'progress.sqlite3')!r}"
    assert [] == kernel.run(f"%reset -f\nimport os; {settings}")[1]

    for cell in before:  # with a server among them, they are runs that shall be over soon
        _in_mode(kernel, "fast" if any(c.serves for c in before) else "full", cell.source)
    kernel.start(_mode("full") + cells[place].source)
    _wait_for_a_child(kernel)
    time.sleep(0.3)
    kernel.manager.interrupt_kernel()
    _, errors = kernel.printed()

    assert errors in (["KeyboardInterrupt"], ["RunInterrupted"]), cells[place].id
    assert [] == _left_running(kernel)
    for cell in (*before, cells[place]):
        _in_mode(kernel, "fast", cell.source)
    assert [] == _left_running(kernel)


def _mode(name):
    return f"import os; os.environ['COURSE_MODE'] = {name!r}\n"


def _in_mode(kernel, name, source):
    kernel.start(_mode(name) + source)
    assert [] == kernel.printed(timeout_s=90)[1], source


def _wait_for_a_child(kernel):
    """Until the kernel has started the cell's server, or whatever it starts first."""
    ends_s = time.monotonic() + 30
    while not kernel.process.children():
        assert time.monotonic() < ends_s, "the cell started no process"
        time.sleep(0.02)


def _left_running(kernel):
    """Processes below the kernel that are still there after a moment of grace."""
    _, left = psutil.wait_procs(kernel.process.children(recursive=True), timeout=5)
    return [process.cmdline() for process in left]


def _calls_outside_of_with(tree):
    """Every call that is not what a `with` block opens, or a part of it."""
    opened = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.With | ast.AsyncWith)
        for item in node.items
        for part in ast.walk(item.context_expr)
    }
    stacks = {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name)
    }
    opened |= {  # by `with ExitStack() as stack`: what `stack.enter_context` is given
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _last_name(node.func) == "enter_context"
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
        if node.func.value.id in stacks
        for given in node.args
        for part in ast.walk(given)
    }
    return [n for n in ast.walk(tree) if isinstance(n, ast.Call) and id(n) not in opened]


def _last_name(function):
    return getattr(function, "attr", getattr(function, "id", ""))


def _context_managers_of_ours(tree):
    """What the cell imports from the package, and has to be entered and left."""
    return {
        each.asname or each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kvstore")
        for each in node.names
        if _is_context_manager(getattr(importlib.import_module(node.module), each.name, None))
    }


def _is_context_manager(thing):
    unwrapped = inspect.unwrap(thing) if callable(thing) else None
    return unwrapped is not thing and inspect.isgeneratorfunction(unwrapped)
