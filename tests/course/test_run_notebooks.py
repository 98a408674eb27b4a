"""Notebooks executed headless: what is reported, and that nothing is left running."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from jupyter_client.connect import LocalPortCache
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from kvstore.cpu_idle import KEPT, kept_awake
from kvstore.measure import cores
from tools import run_notebooks

ROOT = Path(run_notebooks.__file__).resolve().parents[1]

TELLING = """
import json, os, sys
print(json.dumps([sys.executable, os.getcwd(), os.environ["COURSE_PROGRESS"]]))
"""
CLAIMS = """
from kvstore.course import comparisons, predictions, questions
questions.__path__.append(os.getcwd())
comparisons.claim("water is wet", True)
comparisons.claim("pigs fly", False)
predictions.predict("98.first", 10.0)
comparisons.compare("98.first", 12.0)
comparisons.compare("98.second", 3.0, 4.0)
"""


def notebook_of(folder: Path, *sources: str, name: str = "99_lesson") -> Path:
    """A notebook with these code cells, after one of prose."""
    path = folder / f"{name}.ipynb"
    cells = [new_markdown_cell("# A lesson"), *map(new_code_cell, sources)]
    nbformat.write(new_notebook(cells=cells), path)
    return path


@pytest.fixture(scope="module")
def seen() -> list[tuple[int, int]]:
    return []


@pytest.fixture(scope="module")
def executed(tmp_path_factory, seen) -> run_notebooks.Executed:
    """One notebook that does a bit of everything and ends with an error that a tag allows."""
    folder = tmp_path_factory.mktemp("the lessons")
    (folder / "lesson_98.py").write_text(
        "from kvstore.course.questions import computed\n"
        "PREDICTIONS = (computed('98.first', '', 's'), computed('98.second', '', 's', main=True))"
    )
    path = notebook_of(folder, TELLING, CLAIMS, "", "1 / 0", "print('never')")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[4].metadata["tags"] = ["raises-exception"]
    nbformat.write(notebook, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("COURSE_PROGRESS", str(folder / "the learner's own.sqlite3"))
        return run_notebooks.execute(path, timeout_s=60, on_cell=lambda n, of: seen.append((n, of)))


@pytest.mark.slow
def test_the_kernel_is_this_python_in_the_folder_of_the_notebook(executed):
    python, folder, _ = json.loads(executed.notebook.cells[1].outputs[0].text)

    assert python == sys.executable
    assert Path(folder).name.startswith("the lessons")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no Unix sockets for the kernel")
def test_a_kernel_starts_although_another_program_takes_the_port(tmp_path, monkeypatch):
    """Between the choice of a port and its use any connection may get it. It happened once."""
    with socket.create_server(("127.0.0.1", 0)) as another_program:
        taken = another_program.getsockname()[1]
        monkeypatch.setattr(LocalPortCache, "find_available_port", lambda *_: taken)
        executed = run_notebooks.execute(notebook_of(tmp_path, "1"), timeout_s=60)

    assert executed.error is None


@pytest.mark.slow
def test_the_learners_progress_is_neither_read_nor_written(executed):
    """Executing a lesson closes its questions; the learner has not seen them yet."""
    *_, progress = json.loads(executed.notebook.cells[1].outputs[0].text)

    assert "the learner's own" not in progress
    assert not Path(progress).exists()


@pytest.mark.slow
def test_claims_are_found_in_order(executed):
    assert [(c.sentence, c.holds) for c in executed.claims] == [
        ("water is wet", True),
        ("pigs fly", False),
    ]


@pytest.mark.slow
def test_an_error_ends_the_notebook_even_where_a_tag_allows_it(executed):
    """A tolerated error hides every other error of that cell."""
    assert executed.error == "cell 4 of 5: ZeroDivisionError: division by zero"
    assert executed.notebook.cells[5].outputs == []


@pytest.mark.slow
def test_every_code_cell_is_announced(executed, seen):
    assert seen == [(1, 5), (2, 5), (3, 5), (4, 5)]


@pytest.mark.slow
def test_the_table_tells_claims_predictions_and_errors(executed):
    *_, row, unkept, error = run_notebooks.table([executed]).splitlines()

    assert row.split()[:1] + row.split()[2:] == (
        ["99_lesson", "1", "1", "2", "1", "of", "2", "yes,", "see", "below"]
    )
    assert unkept == "99_lesson: does not hold: pigs fly"
    assert error == f"99_lesson: {executed.error}"


@pytest.mark.slow
def test_the_main_comparisons_are_found(executed):
    assert [(a.lesson, a.question_id, a.ratio) for a in executed.agreements] == [
        ("99_lesson", "98.second", 0.75)
    ]


@pytest.mark.slow
def test_a_kernelspec_of_the_user_cannot_take_over(tmp_path, monkeypatch):
    """`python3` in the user's folder may be another Python, without the course."""
    spec = tmp_path / "kernels" / "python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text('{"argv": ["false"], "display_name": "?", "language": "?"}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))

    assert run_notebooks.execute(notebook_of(tmp_path, "1 + 1"), timeout_s=60).error is None


@pytest.mark.slow
def test_a_notebook_that_takes_too_long_is_ended(tmp_path):
    path = notebook_of(tmp_path, "import time; time.sleep(600)")
    others = psutil.Process().children()  # servers that other tests share
    began_s = time.perf_counter()

    done = run_notebooks.execute(path, timeout_s=2)

    assert done.error == "cell 1 of 1: not finished when the time for the whole notebook was up"
    assert time.perf_counter() - began_s < 60
    assert psutil.Process().children() == others


@pytest.mark.slow
def test_a_kernel_that_dies_is_an_error_of_its_cell(tmp_path):
    done = run_notebooks.execute(
        notebook_of(tmp_path, "pass", "import os; os._exit(3)"), timeout_s=60
    )

    assert done.error == "cell 2 of 2: the kernel died"


@pytest.mark.slow
def test_one_failure_does_not_keep_the_others_from_running(tmp_path, capsys):
    paths = [
        notebook_of(tmp_path, "1 / 0", name="98_bad"),
        notebook_of(tmp_path, "1 + 1", name="99_good"),
    ]

    assert run_notebooks.run_all(paths, tmp_path / "copies", timeout_s=60) == 1

    said = capsys.readouterr().out
    assert "98_bad: FAILED" in said
    assert "99_good: done" in said
    assert "99_good: no main comparison" in said
    good = nbformat.read(tmp_path / "copies" / "99_good.ipynb", as_version=4)
    assert good.cells[1].outputs[0].data["text/plain"] == "2"
    assert sorted(path.name for path in (tmp_path / "copies").iterdir()) == [
        "98_bad.ipynb",
        "99_good.ipynb",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fast", "class"])
def test_in_the_fast_mode_further_lessons_share_a_kernel_until_an_error(
    kind, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv(run_notebooks.mode.VARIABLE, kind)
    further, copies = tmp_path / "further", tmp_path / "copies"
    further.mkdir()
    which = "import os; os.getpid()"
    paths = [
        notebook_of(further, f"mine = 1; {which}", name="95_a"),
        notebook_of(tmp_path, which, name="95_core"),
        notebook_of(further, f"assert 'mine' not in globals(); {which}", name="96_b"),
        notebook_of(further, "import os; os._exit(3)", name="97_dies"),
        notebook_of(further, which, name="98_c"),
    ]

    assert run_notebooks.run_all(paths, copies, timeout_s=60) == 1

    assert "97_dies: FAILED" in capsys.readouterr().out
    first, second, third = (
        nbformat.read(copies / "further" / f"{name}.ipynb", as_version=4)
        .cells[-1]
        .outputs[0]
        .data["text/plain"]
        for name in ("95_a", "96_b", "98_c")
    )
    assert (first == second) == (kind == "fast")
    assert third not in (first, second)
    assert not psutil.pid_exists(int(first))
    assert not psutil.pid_exists(int(third))


@pytest.mark.parametrize("kind", ["core", "further"])
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_ctrl_c_ends_the_kernel_and_shows_the_table_so_far(kind, tmp_path):
    folder = tmp_path / kind
    folder.mkdir()
    paths = [
        notebook_of(folder, "1 + 1", name="98_done"),
        notebook_of(folder, "open('begun', 'w').close(); import time; time.sleep(600)"),
    ]
    program = (
        "import sys, pathlib; from tools import run_notebooks;"
        "paths = [pathlib.Path(p) for p in sys.argv[1:]];"
        "sys.exit(run_notebooks.run_all(paths, pathlib.Path('copies')))"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, *paths],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), run_notebooks.mode.VARIABLE: "fast"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    while not (folder / "begun").exists():
        assert child.poll() is None
        time.sleep(0.05)
    kernels = psutil.Process(child.pid).children(recursive=True)
    os.killpg(child.pid, signal.SIGINT)
    said, _ = child.communicate(timeout=30)

    assert child.returncode == 130
    assert "99_lesson: stopped by Ctrl-C" in said
    assert "98_done  " in said.split("stopped by Ctrl-C")[1]
    assert "Traceback" not in said
    assert kernels
    assert psutil.wait_procs(kernels, timeout=5)[1] == []


def test_names_choose_notebooks_by_their_beginning(tmp_path):
    for name in ("00_start", "01_blocking", "02_futures"):
        notebook_of(tmp_path, name=name)

    def names(*wanted: str) -> list[str]:
        return [path.stem for path in run_notebooks.chosen(wanted, tmp_path)]

    assert names() == ["00_start", "01_blocking", "02_futures"]
    assert names("02", "00_start.ipynb") == ["00_start", "02_futures"]
    assert names("notebooks/01_blocking.ipynb") == ["01_blocking"]
    with pytest.raises(ValueError, match=r"named '03'; there are: 00_start, 01_blocking"):
        names("00", "03")


def test_further_lessons_are_chosen_with_all_or_by_their_own_names(tmp_path):
    (tmp_path / "further").mkdir()
    for folder, name in (("", "03_bounded"), ("further", "03_hot_keys"), ("further", "04_pools")):
        notebook_of(tmp_path / folder, name=name)

    def names(*wanted: str) -> list[str]:
        return [path.stem for path in run_notebooks.chosen(wanted, tmp_path)]

    assert names() == ["03_bounded", "03_hot_keys", "04_pools"]
    assert names("03") == ["03_bounded"]
    assert names("further") == names("notebooks/further") == ["03_hot_keys", "04_pools"]
    assert names("further/03") == names("03_hot_keys.ipynb") == ["03_hot_keys"]


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_the_mode_reaches_the_kernels_through_the_environment(mode, monkeypatch):
    monkeypatch.setenv("COURSE_MODE", "class")
    told = []
    monkeypatch.setattr(run_notebooks, "chosen", lambda names: names)
    monkeypatch.setattr(
        run_notebooks, "run_all", lambda *_, **__: told.append(os.environ["COURSE_MODE"]) or 0
    )

    assert run_notebooks.main([f"--{mode}"]) == 0
    assert run_notebooks.main([]) == 0

    assert told[0] == mode


@pytest.mark.slow
@pytest.mark.parametrize("awake", [True, False])
def test_cores_are_kept_awake_while_lessons_run_if_that_was_asked_for(awake, monkeypatch):
    monkeypatch.delenv(KEPT, raising=False)
    told = []
    monkeypatch.setattr(run_notebooks, "chosen", lambda names: names)
    monkeypatch.setattr(run_notebooks, "run_all", lambda *_, **__: told.append(kept_awake()) or 0)

    assert run_notebooks.main(["--awake"] if awake else []) == 0

    assert told == [cores() if awake else 0]


def test_an_unknown_name_is_refused_with_what_there_is(capsys):
    with pytest.raises(SystemExit) as ended:
        run_notebooks.main(["no_such_lesson"])

    assert ended.value.code == 2
    assert "no notebook is named 'no_such_lesson'" in capsys.readouterr().err
