import time

import nbformat
import pytest
from kernels import Kernel

from kvstore.course import messages
from tools.run_notebooks import execute

CELLS = [
    ("markdown", "title", "# 97 · Locks"),
    ("code", "imports", "import math as m\nfrom kvstore.course import lesson"),
    ("markdown", "round-1", "Text\n\n## Round 1: one lock\n\nmore"),
    ("code", "make", "def f():\n    inner = later\n\nwith open('x') as crud, g() as (a, b): pass"),
    ("code", "again", "%time\ncrud = await f()\nfor i in [j for j in crud]: k: int = 3"),
    ("code", "use", "print(crud)"),
]


@pytest.fixture
def path(tmp_path):
    made = nbformat.v4.new_notebook()
    for kind, name, source in CELLS:
        make = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
        made.cells.append(make(source, id=name))
    folder = tmp_path / "notebooks" / "further"
    folder.mkdir(parents=True)
    for each in (folder.parent / "97_locks.ipynb", folder / "97_hot_keys.ipynb"):
        nbformat.write(made, each)
    nbformat.write(made, folder / "98_a.ipynb")
    nbformat.write(made, folder / "98_b.ipynb")
    return folder.parent / "97_locks.ipynb"


def test_a_cell_binds_what_exists_after_it_and_nothing_else(path):
    made = [set(cell.binds) for cell in messages.cells_of(path)]

    assert made == [{"m", "lesson"}, {"f", "crud", "a", "b"}, {"crud", "i", "k"} | made[2], set()]
    assert "j" not in made[2]


def test_the_answer_names_the_latest_cell_above(path):
    cells = messages.cells_of(path)

    assert "`crud` is made in code cell 2 of 3 under 'Round 1: one lock'" in messages.answer(
        "crud", cells, cells[3]
    )
    assert "code cell 1 of 3 under" in messages.answer("crud", cells, cells[2])
    assert "code cell 1 of 3 under" in messages.answer("crud", cells, None)
    assert messages.answer("crud", cells, cells[1]) is None
    assert messages.answer("later", cells, None) is None


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("97", "97_locks"),
        ("further/98_a", "98_a"),
    ],
)
def test_a_lesson_is_found_by_the_beginning_of_its_name(path, name, found):
    assert messages.notebook_of(name, path.parent).stem == found


@pytest.mark.parametrize("name", ["98", "55"])
def test_a_name_that_fits_none_or_several_is_refused(path, name):
    with pytest.raises(LookupError, match=f"'{name}' fits [02] notebooks"):
        messages.notebook_of(name, path.parent)


def test_a_checkout_without_notebooks_has_no_hook(tmp_path):
    assert messages.notebook_of("97", tmp_path / "none") is None


@pytest.mark.slow
def test_in_a_kernel_the_cell_to_run_stands_in_place_of_the_traceback(path, monkeypatch, repo_root):
    hook = (
        "from pathlib import Path\nfrom kvstore.course import kernel, messages\n"
        "messages.notebook_of.__defaults__ = (Path().absolute(),)\n"
        "kernel.lesson('97')"
    )

    def output_of(source):
        cells = [nbformat.v4.new_code_cell(hook), nbformat.v4.new_code_cell(source)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path.parent / "copy.ipynb")
        last = execute(path.parent / "copy.ipynb").notebook.cells[-1].outputs[-1]
        return last["ename"], "\n".join(last["traceback"])

    monkeypatch.setenv("PYTHONPATH", str(repo_root))
    kind, said = output_of("print(crud)")
    assert kind == "NameError"
    assert "code cell 2 of 3 under" in said
    assert "Traceback" not in said

    for source, seen in [("print(crd)", "'crd' is not"), ("1 / 0", "division by zero")]:
        said = output_of(source)[1]
        assert "Traceback" in said
        assert seen in said


CALLS = [
    ("predict('05.log', 2,450)", "PredictionError", "`2450` for thousands"),
    ("predict('04.serverlost', 2)", "LookupError", "did you mean 04.server_lost"),
    ("check(len, 3)", "TypeError", "in quotes"),
    ("claim('x', 1)", "TypeError", "True or False"),
    ("hint('00.utilisaton')", "LookupError", "did you mean 00.utilisation"),
    ("with serving(5): pass", "TypeError", "serving(**settings)"),
    ("def mine():\n    claim('x')\nmine()", "TypeError", "claim(sentence, holds)"),
    ("workload.crud(sed=3)", "TypeError", "'sed'"),
    ("measure.audit(3)", "AttributeError", "takes Run as run, got 3"),
]


@pytest.fixture(scope="module")
def kernel():
    running = Kernel()
    imports = (
        "from kvstore import measure\nfrom kvstore.client import workload\n"
        "from kvstore.course import *\nfrom kvstore.server import serving"
    )
    assert [] == running.run(imports)[1]
    yield running
    running.close()


def shown_for(kernel, source, *, stop=False):
    """The kind of the error of a cell, and the lines that the page shows of it."""
    kernel.start(source)
    if stop:
        time.sleep(1.5)
        kernel.manager.interrupt_kernel()
    while True:
        message = kernel.client.get_iopub_msg(timeout=30)
        if message["msg_type"] == "error":
            content = message["content"]
            kernel.printed()
            return content["ename"], "\n".join(content["traceback"]).splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(("source", "kind", "said"), CALLS)
def test_a_wrong_call_shows_one_line(kernel, source, kind, said):
    ename, lines = shown_for(kernel, source)

    assert (kind, 1) == (ename, len(lines)), lines
    assert said in lines[0]


RUN = """
from kvstore.client import strategies, workload
from kvstore.server import serving
with serving() as server:
    live.run(strategies.blocking, server, workload.crud(), duration_s=600)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "source", [RUN, "import time; time.sleep(600)", "import asyncio; await asyncio.sleep(600)"]
)
def test_stopping_a_cell_shows_one_line(kernel, source):
    _, lines = shown_for(kernel, source, stop=True)

    assert 1 == len(lines), lines
    assert "Stopped." in lines[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "1 / 0",
        "measure.audit(object.__new__(measure.Run))",
    ],
)
def test_an_error_of_the_learners_own_or_a_bug_keeps_its_traceback(kernel, source):
    assert len(shown_for(kernel, source)[1]) > 1
