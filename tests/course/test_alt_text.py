import nbformat
import numpy as np
import pytest

from kvstore.course.run_notebooks import execute
from kvstore.course.views import alt_text, style

pytestmark = pytest.mark.usefixtures("no_windows")


def test_it_says_what_is_drawn_in_the_numbers_of_the_run():
    with style.canvas(None) as ax:
        ax.plot([1, 100], [25, 25], label="predicted")
        ax.plot([1, 10, 100], [23.9, 24.1, np.nan], "o", label="measured")
        ax.plot(range(1, 51), [50.0 - each for each in range(50)], label="long")
        ax.vlines([3, 4], 0, 1, label="marks")
        ax.annotate("N* = 1", (1, 25))
        ax.set(xscale="log", xlabel="in flight,\nN (calls)", ylabel="X (calls/s)", title="One lock")
        ax.set(xlim=(1, 200), ylim=(0, 30))

    assert alt_text.described(ax.figure) == (
        "One lock. X (calls/s), 0 to 30 over in flight, N (calls), 1 to 200, logarithmic. "
        "predicted: a level line at 25. measured: 2 dots at (1, 23.9), (10, 24.1). "
        "long: a line from (1, 50) to (50, 1), lowest 1, highest 50. marks: 2 marks at 3, 4. "
        "Notes: N* = 1."
    )


def test_bars_and_rows_are_named():
    with style.canvas(None) as ax:
        ax.barh([0, 1], [40, 1.5], label="lock")
        ax.set(yticks=[0, 1], xlabel="residence (ms)", ylabel="run", xlim=(0, 50))
        ax.set_yticklabels(["one lock", "a lock per key"])

    assert alt_text.described(ax.figure) == (
        "run (one lock, a lock per key) over residence (ms), 0 to 50. lock: 2 bars, long 40, 1.5."
    )


def test_each_part_of_a_figure_is_described():
    above, below = style.subplots(2)
    above.plot([0, 1], [7, 7])

    said = alt_text.described(below.figure)
    assert "Part 1:" in said
    assert "Shown: a level line at 7. Part 2:" in said


@pytest.mark.slow
def test_each_figure_that_a_notebook_shows_carries_its_description(
    tmp_path, monkeypatch, repo_root
):
    cells = [
        "from kvstore.course.views import style",
        "with style.canvas(None) as ax:\n    ax.plot([1, 2], [3, 3], label='first')\nax.plot([9])",
        "import matplotlib.pyplot as plt\nplt.plot([5, 6], [7, 7]);",
        "ax.figure",
        "%config InlineBackend.figure_format = 'retina'\nstyle.subplots();",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbformat.write(notebook, tmp_path / "figures.ipynb")
    monkeypatch.setenv("PYTHONPATH", str(repo_root))

    done = execute(tmp_path / "figures.ipynb")

    assert done.error is None
    alts = [
        output["metadata"]["image/png"]["alt"]
        for cell in done.notebook.cells
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert len(alts) == 4
    assert "first: a level line at 3" in alts[0]
    assert "a level line at 7" in alts[1]
    assert alts[2].startswith(alts[0][:20])
    retina = done.notebook.cells[-1].outputs[-1]["metadata"]["image/png"]
    assert {"width", "height", "alt"} <= set(retina)
