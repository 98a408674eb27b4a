"""The course layer inside a real kernel: what is shown, and shown once."""

import time
from pathlib import Path

import nbformat
import pytest
from kernels import Kernel
from nbclient import NotebookClient

import kvstore.course
from kvstore.course import comparisons, exercises
from tools.run_notebooks import execute

pytestmark = pytest.mark.slow

CELLS = [
    "from kvstore.course import *",
    "predict('05.log', 20)",
    "compare('05.log', 25.0)",
    "claim('25 is near 20', True)",
    "def mine(x, d):\n    return 1 / 0\n\ncheck('00.utilisation', mine)",
    "check('00.utilisation', lambda x, d: NOT_ATTEMPTED)",
    "quiz('00.little')",
    "hint('00.utilisation')",
    "solution('00.utilisation')",
    "predict('05.log', 30)",
    "lessons.overview()",
    "import matplotlib.pyplot as plt\nplt.get_backend()",
]


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    path = tmp_path_factory.mktemp("notebook") / "sample.ipynb"
    nbformat.write(notebook, path)
    with pytest.MonkeyPatch.context() as patch:
        # The kernel works in the notebook's folder, and the package may not be installed.
        patch.setenv("PYTHONPATH", str(Path(kvstore.course.__file__).parents[2]))
        return execute(path)


def test_every_cell_runs_and_each_result_is_shown_once(executed):
    assert executed.error is None
    assert [len(cell.outputs) for cell in executed.notebook.cells] == [0] + [1] * 9 + [2, 1]


def test_programs_find_claims_comparisons_and_verdicts(executed):
    assert [claim.holds for claim in executed.claims] == [True]
    assert [each["yours"] for each in executed.published(comparisons.MIME_TYPE)] == [20.0]
    assert [each["outcome"] for each in executed.published(exercises.MIME_TYPE)] == [
        "not yet",
        "not attempted",
    ]


def test_an_error_points_at_the_learners_own_line(executed):
    verdict = next(executed.published(exercises.MIME_TYPE))

    assert "`mine` stopped at line 2: `return 1 / 0`" in verdict["message"]


def test_a_prediction_after_the_result_is_refused_without_an_error(executed):
    assert "Refused" in executed.notebook.cells[9].outputs[0]["data"]["text/plain"]


def test_the_outputs_are_valid_in_a_notebook_file(executed):
    nbformat.validate(executed.notebook)


STEPS = (
    'from kvstore.course import lesson, progress\nlesson("03")',
    'progress.close("03.global_lock")',
    'print(progress.ask("03.global_lock").closed)',
)


def test_who_skips_a_prediction_by_hand_closes_it_and_executing_a_notebook_does_not():
    def pause_and_run(kernel, code):
        time.sleep(1)
        return kernel.run(code)[0]

    cells = [nbformat.v4.new_code_cell(each) for each in STEPS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook).execute()  # as nbmake, papermill and nbconvert do
    kernel = Kernel()
    try:
        by_hand = [pause_and_run(kernel, each) for each in STEPS]
    finally:
        kernel.close()

    assert notebook.cells[-1].outputs[-1]["text"] == "False\n"
    assert by_hand[-1] == "True\n"
