import nbformat
import pytest

from kvstore.course import kernel
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
    made = [set(cell.binds) for cell in kernel.cells_of(path)]

    assert made == [{"m", "lesson"}, {"f", "crud", "a", "b"}, {"crud", "i", "k"} | made[2], set()]
    assert "j" not in made[2]


def test_the_answer_names_the_latest_cell_above(path):
    cells = kernel.cells_of(path)

    assert "`crud` is made in the cell under 'Round 1: one lock' (cell 3)" in kernel.answer(
        "crud", cells, cells[3]
    )
    assert "(cell 2)" in kernel.answer("crud", cells, cells[2])
    assert "(cell 2)" in kernel.answer("crud", cells, None)
    assert kernel.answer("crud", cells, cells[1]) is None
    assert kernel.answer("later", cells, None) is None


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("97", "97_locks"),
        ("97_locks.ipynb", "97_locks"),
        ("97_hot_keys", "97_hot_keys"),
        ("further/98_a", "98_a"),
    ],
)
def test_a_lesson_is_found_by_the_beginning_of_its_name(path, name, found):
    assert kernel.notebook_of(name, path.parent).stem == found


@pytest.mark.parametrize("name", ["98", "55"])
def test_a_name_that_fits_none_or_several_is_refused(path, name):
    with pytest.raises(LookupError, match=f"'{name}' fits [02] notebooks"):
        kernel.notebook_of(name, path.parent)


def test_a_checkout_without_notebooks_has_no_hook(tmp_path):
    assert kernel.notebook_of("97", tmp_path / "none") is None


@pytest.mark.slow
def test_in_a_kernel_the_cell_to_run_stands_in_place_of_the_traceback(path, monkeypatch, repo_root):
    hook = (
        "from pathlib import Path\nfrom kvstore.course import kernel\n"
        "kernel.notebook_of.__defaults__ = (Path().absolute(),)\n"
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
    assert "(cell 3): run it first" in said
    assert "Traceback" not in said

    for source, seen in [("print(crd)", "'crd' is not"), ("1 / 0", "division by zero")]:
        said = output_of(source)[1]
        assert "Traceback" in said
        assert seen in said
