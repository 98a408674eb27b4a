import nbformat
import numpy as np
import pytest

from kvstore.course import alt_text, rendering
from kvstore.course.views import style
from tools.run_notebooks import execute

pytestmark = pytest.mark.usefixtures("no_windows")


def test_a_text_becomes_a_sentence_and_a_symbol_keeps_its_form():
    for text, sentence in {
        "no call was lost": "No call was lost.",
        "k is 3": "k is 3.",
        "round_robin: all four": "round_robin: all four.",
        "min(N, c) holds": "min(N, c) holds.",
        "`threads` has 8": "`threads` has 8.",
        "is it so?": "Is it so?",
        "98% of the calls, 0.3% late": "98 % of the calls, 0.3 % late.",
        "": "",
    }.items():
        assert rendering.as_sentence(text) == sentence


def test_backticks_become_code_and_its_content_stays_escaped():
    assert rendering.inline("see `a < b`") == "see <code>a &lt; b</code>"


def test_markdown_shows_formulas_and_names_as_they_stand():
    assert rendering.markdown_escaped("a_b * c costs $5") == r"a\_b \* c costs \$5"
    assert rendering.markdown_escaped("`a_b`") == "`a_b`"


def test_the_plain_table_lines_up():
    lines = rendering.plain_table(["", "unit"], [["mine", "1"], ["measured", "20"]]).splitlines()

    assert lines == ["         unit", "mine        1", "measured   20"]


def test_outside_of_a_notebook_the_plain_form_is_printed(capsys):
    rendering.show({"text/plain": "hello", "text/html": "<b>hello</b>"})

    assert capsys.readouterr().out == "hello\n"


def test_a_shown_result_is_not_put_twice_on_the_page_by_the_same_cell(page, monkeypatch):
    class Result(rendering.Shown):
        def _forms(self):
            return {"text/plain": "result"}

    monkeypatch.setattr(rendering, "_cell", lambda: 7)
    result = Result()
    result._show()
    result._ipython_display_()
    assert len(page) == 1

    monkeypatch.setattr(rendering, "_cell", lambda: 8)
    result._ipython_display_()
    assert len(page) == 2


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


@pytest.mark.slow
def test_each_figure_that_a_notebook_shows_carries_its_description(
    tmp_path, monkeypatch, repo_root
):
    """Loading the backend inside a style context once hid all figures but the first."""
    cells = [
        "from kvstore.course.views import style",
        "with style.canvas(None) as ax:\n    ax.plot([1, 2], [3, 3], label='first')\nax.plot([9])",
        "import matplotlib.pyplot as plt\nplt.plot([5, 6], [7, 7]);",
        "ax.figure",
        "%config InlineBackend.figure_format = 'retina'\nstyle.subplots(title='two');",
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
