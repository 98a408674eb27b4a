"""Notebooks executed headless: what is reported, and that nothing is left running."""

import json
import os
import re
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

from tools import run_notebooks

ROOT = Path(run_notebooks.__file__).resolve().parents[1]

TELLING = """
import json, os, sys
print(json.dumps([sys.executable, os.getcwd(), os.environ["COURSE_PROGRESS"]]))
"""
CLAIMS = """
from kvstore.course import comparisons, lessons, predictions
lessons.__path__.append(os.getcwd())
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


@pytest.mark.slow
def test_a_notebook_is_executed_as_a_learner_has_it_and_its_first_error_ends_it(
    tmp_path, monkeypatch
):
    """One story: this Python, its folder, progress of its own, claims, and an error."""
    folder, seen = tmp_path / "the lessons", []
    (folder / "lesson_98").mkdir(parents=True)
    (folder / "lesson_98" / "__init__.py").touch()
    (folder / "lesson_98" / "lesson.toml").write_text(
        "[[prediction]]\nid='98.first'\nunit='s'\n"
        "[[prediction]]\nid='98.second'\nunit='s'\nmain=true\n"
    )
    path = notebook_of(folder, TELLING, CLAIMS, "", "1 / 0", "print('never')")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[4].metadata["tags"] = ["raises-exception"]  # it would hide every other error
    nbformat.write(notebook, path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("COURSE_PROGRESS", str(folder / "the learner's own.sqlite3"))

    done = run_notebooks.execute(path, timeout_s=60, on_cell=lambda n, of: seen.append((n, of)))

    where = f"cell 4 of 5 ({notebook.cells[4].id})"
    assert done.error == f"{where}: ZeroDivisionError: division by zero"
    assert done.notebook.cells[5].outputs == []
    assert seen == [(1, 5), (2, 5), (3, 5), (4, 5)]
    python, place, progress = json.loads(done.notebook.cells[1].outputs[0].text)
    assert (python, Path(place)) == (sys.executable, folder)
    assert "the learner's own" not in progress
    assert not Path(progress).exists()
    assert [(c.sentence, c.holds) for c in done.claims] == [
        ("water is wet", True),
        ("pigs fly", False),
    ]
    assert [(a.lesson, a.question_id, a.ratio) for a in done.agreements] == [
        ("99_lesson", "98.second", 0.75)
    ]
    *_, row, unkept, error = run_notebooks.table([done]).splitlines()
    assert row.split()[2:] == ["1", "1", "2", "1", "of", "2", "yes,", "see", "below"]
    assert "pigs fly" in unkept
    assert error == f"99_lesson: {done.error}"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no Unix sockets for the kernel")
def test_neither_another_program_nor_the_users_settings_take_the_kernel(tmp_path, monkeypatch):
    """Any connection may get a port between its choice and its use; it happened once. And the
    user's `python3` may be another Python, without the course."""
    spec = tmp_path / "kernels" / "python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text('{"argv": ["false"], "display_name": "?", "language": "?"}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as another_program:
        taken = another_program.getsockname()[1]
        monkeypatch.setattr(LocalPortCache, "find_available_port", lambda *_: taken)
        done = run_notebooks.execute(notebook_of(tmp_path, "1"), timeout_s=60)

    assert done.error is None


@pytest.mark.slow
def test_a_notebook_that_takes_too_long_is_ended(tmp_path):
    path = notebook_of(tmp_path, "import time; time.sleep(600)")
    others = psutil.Process().children()  # servers that other tests share

    done = run_notebooks.execute(path, timeout_s=2)

    assert done.error.startswith("cell 1 of 1 (")
    assert done.error.endswith("not finished when the time for the whole notebook was up")
    assert psutil.Process().children() == others


@pytest.mark.slow
def test_a_lesson_that_fails_does_not_keep_the_others_from_running(tmp_path, capsys):
    (tmp_path / "further").mkdir()
    core = notebook_of(tmp_path, "1", name="95_core")
    dies = notebook_of(tmp_path, "import os; os._exit(3)", name="97_dies")
    further = notebook_of(tmp_path / "further", "1", name="98_further")

    assert run_notebooks.run_all([core, dies, further], tmp_path / "copies", timeout_s=60) == 1

    said = capsys.readouterr().out
    assert "97_dies: FAILED" in said
    assert re.search(r"97_dies: cell 1 of 1 \(\w+\): the kernel died", said)
    assert "95_core: no main comparison" in said
    assert (tmp_path / "copies" / "further" / "98_further.ipynb").is_file()


@pytest.mark.slow
def test_a_claim_that_does_not_hold_fails_the_command_and_raises_where_claims_are_strict(
    tmp_path, monkeypatch, capsys
):
    """The lesson itself goes on: only strict claims end it, as nbmake and nbval need it."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv(run_notebooks.mode.VARIABLE, "class")
    claims = "from kvstore.course import claim\nclaim('water is wet', {})"
    true, false = (
        notebook_of(tmp_path, claims.format(holds), "print('the end')", name=f"9_{holds}")
        for holds in (True, False)
    )

    assert run_notebooks.run_all([true], tmp_path / "copies", timeout_s=60) == 0
    assert run_notebooks.run_all([false], tmp_path / "copies", timeout_s=60) == 1
    assert "water is wet" in capsys.readouterr().out
    assert run_notebooks.execute(false, timeout_s=60).error is None
    monkeypatch.setenv("COURSE_STRICT", "1")
    assert "water is wet" in str(run_notebooks.execute(false, timeout_s=60).error)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_ctrl_c_ends_the_kernels_and_shows_the_table_so_far(tmp_path):
    (tmp_path / "further").mkdir()
    paths = [
        notebook_of(tmp_path / "further", "1 + 1", name="98_done"),
        notebook_of(tmp_path, "open('begun', 'w').close(); import time; time.sleep(600)"),
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
    while not (tmp_path / "begun").exists():
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
    (tmp_path / "further").mkdir()
    for name in ("01_blocking", "03_bounded", "further/03_hot_keys", "further/04_pools"):
        notebook_of(tmp_path, name=name)

    def names(*wanted: str) -> list[str]:
        return [path.stem for path in run_notebooks.chosen(wanted, tmp_path)]

    assert names() == ["01_blocking", "03_bounded", "03_hot_keys", "04_pools"]
    assert names("03", "01_blocking.ipynb") == ["01_blocking", "03_bounded"]
    assert names("notebooks/01_blocking.ipynb") == ["01_blocking"]
    assert names("further") == names("notebooks/further") == ["03_hot_keys", "04_pools"]
    assert names("further/03") == names("03_hot_keys.ipynb") == ["03_hot_keys"]
    with pytest.raises(ValueError, match=r"named '02'; there are: 01_blocking, 03_bounded"):
        names("01", "02")


@pytest.mark.slow
def test_the_mode_reaches_the_kernels(monkeypatch):
    monkeypatch.setenv("COURSE_MODE", "class")
    found = []
    monkeypatch.setattr(run_notebooks, "chosen", lambda names: names)
    monkeypatch.setattr(
        run_notebooks,
        "run_all",
        lambda *_, **__: found.append(os.environ["COURSE_MODE"]) or 0,
    )

    assert run_notebooks.main(["--full"]) == 0

    assert found == ["full"]
