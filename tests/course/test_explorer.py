import nbformat
import pytest

from kvstore.course import explore
from kvstore.course.explorer import Explorer, Slider
from kvstore.model import Station, bounds
from tools.run_notebooks import execute

SLIDERS = {
    "in_flight": Slider("in flight, N (calls)", (1, 2, 5, 10, 20, 50, 100), 10),
    "delay_ms": Slider("disk (ms)", (5.0, 10.0, 40.0), 40.0),
    "lock": Slider("lock", ("one", "none"), "one"),
}


def law(in_flight, delay_ms, lock):
    servers = 1 if lock == "one" else float("inf")
    return bounds.closed_loop(in_flight, [Station("disk", delay_ms / 1e3, servers)])


def explorer(run=lambda **_: 24.0):
    return Explorer(law, SLIDERS, "in_flight", run, "X (calls/s)")


def test_moving_a_slider_redraws_the_prediction():
    made = explorer()
    before = made.picture()
    made.values["lock"] = "none"

    assert "predicted: a level line at 25." in before[1]
    assert "lock = one: predicted 25 calls/s (a call needs the disk for 40 ms" in before[1]
    assert "lock = none: predicted 250 calls/s (10 in flight" in made.picture()[1]
    assert "predicted: a line from (1, 25) to (100, 2,500)" in made.picture()[1]
    assert made.picture()[0] != before[0]


def test_the_measured_dot_lands_on_the_line_it_belongs_to():
    called = []
    made = explorer(run=lambda **values: called.append(values) or 24.0)
    made.measure()

    assert called == [{"in_flight": 10, "delay_ms": 40.0, "lock": "one"}]
    assert "measured: 1 dot at (10, 24)" in made.picture()[1]
    assert ", measured 24 calls/s." in made.said()
    made.values["lock"] = "none"
    assert "measured, other values: 1 dot at (10, 24)" in made.picture()[1]
    assert made.said().endswith(" The last run had lock = one: measured 24 calls/s.")
    made.values.update(lock="one", in_flight=100)
    assert "measured: 1 dot at (10, 24)" in made.picture()[1]


def test_without_a_notebook_the_words_are_printed_and_nothing_is_run(page, monkeypatch):
    explore(law, SLIDERS, over="in_flight", run=pytest.fail)

    assert "predicted 25" in page[-1]["text/plain"]
    assert page[-1]["image/png"]


@pytest.mark.parametrize("over", ["lock", "unknown"])
def test_a_line_needs_a_parameter_of_numbers(over):
    with pytest.raises(ValueError, match=f"over must name a slider of numbers, got '{over}'"):
        explore(law, SLIDERS, over=over)


def test_a_parameter_without_a_slider_is_named():
    with pytest.raises(TypeError, match="'n' needs a slider"):
        explore(lambda n: n, {"n": 3}, over="n")


@pytest.mark.parametrize(("values", "start"), [((1,), 1), ((1, 2), 3)])
def test_a_slider_starts_at_one_of_its_values(values, start):
    with pytest.raises(ValueError, match="two or more values"):
        Slider("N", values, start)


@pytest.mark.slow
def test_in_a_notebook_the_figure_is_shown_once_and_follows_the_widgets(
    tmp_path, monkeypatch, repo_root
):
    show = (
        "from kvstore.course import explore\nfrom kvstore.course.explorer import Slider\n"
        "def measure(n):\n    print('ran with', n)\n    return 7.0 if n == 2 else 1 / 0\n"
        "explore(lambda n: 10.0 * n, {'n': Slider('N (calls)', (1, 2, 5), 1)}, over='n', "
        "run=measure)"
    )
    press = (
        "import ipywidgets as w\n"
        "made = list(w.Widget.widgets.values())\n"
        "slider, = [each for each in made if isinstance(each, w.SelectionSlider)]\n"
        "button, = [each for each in made if isinstance(each, w.Button)]\n"
        "button.click()\nslider.value = 2\nbutton.click()\n"
        "print([each.value for each in made if isinstance(each, w.HTML)][1], button.disabled)"
    )
    cells = [nbformat.v4.new_code_cell(show), nbformat.v4.new_code_cell(press)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "explore.ipynb")
    monkeypatch.setenv("PYTHONPATH", str(repo_root))

    done = execute(tmp_path / "explore.ipynb")

    assert done.error is None
    (output,) = done.notebook.cells[0].outputs
    assert {"image/png", "text/plain", "application/vnd.jupyter.widget-view+json"} <= set(
        output["data"]
    )
    assert "predicted 10 calls/s." in output["metadata"]["image/png"]["alt"]
    shown = "".join(each.get("text", "") for each in done.notebook.cells[1].outputs)
    assert "N (calls) = 2: predicted 20 calls/s, measured 7 calls/s." in shown
    assert "False" in shown
