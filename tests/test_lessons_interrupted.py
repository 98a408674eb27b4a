"""A lesson that is interrupted leaves nothing running and can be run again.

A run that lasts is interrupted in a lesson with one client process; the long tests have each core
lesson.
"""

import time

import psutil
import pytest
from kernels import Kernel
from lessons import NOTEBOOKS, cells_of, long_but_for, needed_for

CORE = [
    path
    for path in NOTEBOOKS
    # Those that serve in no cell measure a service that lasts as long as the kernel.
    if path.parent.name != "further" and any(cell.serves for cell in cells_of(path))
]


@pytest.fixture(scope="module")
def kernel():
    """One kernel for all lessons: importing the libraries takes longer than the tests."""
    running = Kernel()
    yield running
    running.close()


@pytest.mark.slow
@pytest.mark.parametrize("path", long_but_for("03_bounded", CORE))
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
