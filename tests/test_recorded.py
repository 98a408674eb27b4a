"""The recorded mode: cells that measured show what was recorded, and start no program."""

import dataclasses
import json
import lzma
import os
import pickle
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
from lessons import long_but_for
from nbformat.v4 import new_code_cell, new_notebook

from kvstore.course import kernel, mode, recorded_values
from kvstore.measure.recorder import CALL
from kvstore.server import Server, ServerSettings
from kvstore.subprocesses import Child
from tools import record, run_notebooks

NOTEBOOKS = run_notebooks.lessons_in()
SHIPPED = [each for each in NOTEBOOKS if (kernel.FOLDER / f"{each.stem}{kernel.SUFFIX}").is_file()]

GUARD = """
import os, sys
if "ipykernel_launcher" in getattr(sys, "orig_argv", ()):
    def refuse(event, _):
        if event in ("subprocess.Popen", "os.posix_spawn", "os.fork"):
            raise PermissionError("no programs may be started here")
    sys.addaudithook(refuse)
"""
"""A machine that starts no program but the kernel itself."""


def lesson(folder, *cells):
    """A lesson of these cells; the first is `lesson("03")`, as in all lessons."""
    sources = ['from kvstore.course import lesson\nlesson("03")', *cells]
    path = folder / "03_bounded.ipynb"
    nbformat.write(
        new_notebook(cells=[new_code_cell(s, id=f"c{i}") for i, s in enumerate(sources)]), path
    )
    return path


RUN = """
from kvstore.client import load, strategies, workload
from kvstore.server import serving
def double(x):
    return 2 * x
import threading
from kvstore.course import progress
progress.close("03.mine")
lock = threading.Lock()
with serving() as server:
    run = load.run(strategies.blocking, server, workload.reads(seed=1, keys=2), calls=20)
    print("made here")
"""


@pytest.fixture
def locked_down(tmp_path, monkeypatch):
    """No program can be started, and recordings are read from and written to a folder of ours."""
    (tmp_path / "guard").mkdir()
    (tmp_path / "guard" / "sitecustomize.py").write_text(GUARD)
    path = os.pathsep.join([str(tmp_path / "guard"), str(Path(__file__).parents[1])])
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.sqlite3"))

    def enter():
        monkeypatch.setenv("COURSE_MODE", "recorded")
        monkeypatch.setenv("PYTHONPATH", path)
        monkeypatch.setenv("PATH", str(tmp_path))  # no etcd, Redis, Go, Java or h2load

    return enter


def texts(notebook):
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs]


EVERY_KIND_OF_CODE = """
@cache
def rate(calls: int, *, window_s: float = 1.0) -> str:
    # a comment
    return f"{calls / window_s:,.1f} calls/s {calls=} {'' if calls else 'none'}" "and" + 'more'

class Empty: pass

match run:
    case {"rate": rate, **rest} if (n := len(rest)) > 0: pass
    case _: x[1:, ...] = lambda *_: None
try:
    await f(*[], **{})
except* ValueError: pass
"""


def test_a_cell_has_the_same_name_in_each_version_of_python():
    """The recordings were made with one version, and are shown with others."""
    assert kernel.digest(EVERY_KIND_OF_CODE) == "b86379753f7b2608"
    assert kernel.digest("f( 1,None )  # why") == kernel.digest("f(1, None)")
    assert kernel.digest("f(1, None)") != kernel.digest("f(1, 0)")


@pytest.mark.slow
def test_what_was_recorded_is_shown_under_its_label_and_nothing_is_started(
    tmp_path, monkeypatch, locked_down
):
    """The variables are there, functions work; a changed cell and a line left out say so."""
    monkeypatch.setattr(kernel, "FOLDER", tmp_path / "recordings")
    changed = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', ''])"
    ask = "print(run.issued, len(run.calls), double(4), server.settings.locking, end=' ')\n"
    ask += "print(progress.ask('03.mine').closed)"
    no_file_holds_it = "held = lock.acquire()\nprint('goes on')\nheld\nlock = 5\nlock"
    monkeypatch.setenv("COURSE_MODE", "class")
    archive = record.record(lesson(tmp_path, RUN, ask), tmp_path / "recordings")
    locked_down()
    begin = "import kvstore.course.kernel as r; from pathlib import Path\n"
    begin += f"r.FOLDER = Path({str(archive.parent)!r})"

    def replayed(*cells):
        path = lesson(tmp_path, *cells)
        notebook = nbformat.read(path, as_version=4)
        notebook.cells.insert(0, new_code_cell(begin, id="begin"))
        nbformat.write(notebook, path)
        return run_notebooks.execute(path)

    done = replayed(f"# other layout, same code\n{RUN}", ask, no_file_holds_it, "lock + 1")

    assert done.error is None
    said = "\n".join(texts(done.notebook))
    assert "Recorded mode: no run is made on this machine" in said
    assert "Recorded run, not of this machine: " in said
    assert "made here" in said
    assert "20 20 8 global True" in said
    assert "`lock` exists only where the runs are made. Left out: `held = lock.acquire()`" in said
    assert "`held` exists only where the runs are made. Left out: `held`" in said
    assert "goes on" in said
    assert said.endswith("6")
    refused = replayed(f"{RUN}\nextra = 1", ask)
    assert "This cell was changed, so it runs on this machine" in "\n".join(texts(refused.notebook))
    assert "no programs may be started here" in (refused.error or "")
    without = replayed(changed)
    assert "no programs may be started here" in (without.error or ""), "the guard guards"


@pytest.mark.parametrize(("usual_s", "precise_to_s"), [(1e-3, 1e-6), (0.05, 1e-5), (5.0, 1e-3)])
def test_records_are_stored_in_few_bytes_and_stay_precise(usual_s, precise_to_s):
    """Times to a microsecond or a thousandth of a call; what a server noted to a microsecond."""
    random = np.random.default_rng(5)
    records = np.zeros(2000, dtype=CALL)
    records["done_s"] = np.sort(random.uniform(0, 10, 2000))
    records["sent_s"] = records["done_s"] - usual_s * random.uniform(1, 2, 2000)
    records["due_s"] = np.where(random.random(2000) < 0.5, np.nan, records["sent_s"])
    records["pool_s"] = np.nan
    records["disk_s"] = random.exponential(0.01, 2000)
    records["kind"] = random.integers(0, 4, 2000)
    records["operations"] = 1
    records["reply_bytes"] = random.integers(0, 70_000, 2000)

    packed, unpacked = recorded_values.packed, recorded_values.unpacked
    data = recorded_values.dumped({"packed": packed(records)})
    back = unpacked(recorded_values.loaded(data)["packed"])

    assert back.dtype == records.dtype
    for name in CALL.names:
        off = precise_to_s if name in ("due_s", "sent_s", "done_s") else 1e-6
        assert np.allclose(back[name], records[name], rtol=0, atol=off, equal_nan=True), name
    assert len(lzma.compress(data)) < 0.4 * records.nbytes / CALL.itemsize * 56
    assert len(unpacked(packed(records[:0]))) == 0


def test_the_variables_of_a_cell_come_back_and_stay_one_object():
    settings = ServerSettings(threads=3)
    server = Server("127.0.0.1:1", "word", settings, Child(None, None))
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]}, index=["one", "two"])

    data = recorded_values.dumped({"server": server, "also": [settings], "frame": frame})
    back = recorded_values.loaded(data)

    assert dataclasses.replace(server, child=None) == back["server"]  # the process has ended
    assert back["server"].settings is back["also"][0]
    assert frame.equals(back["frame"])
    assert b"StringArray" not in data  # pandas 2 has no such class


@pytest.mark.parametrize("value", [os.system, Path("x"), kernel.begin])
def test_a_recording_that_names_anything_else_is_refused(value):
    data = pickle.dumps({"value": value})
    with pytest.raises(recorded_values.NotRecorded, match=r"must not hold .*: record it anew"):
        recorded_values.loaded(data)


@pytest.mark.parametrize("data", [b"", b"x", pickle.dumps({})[:-1]])
def test_bytes_of_another_kind_are_refused(data):
    with pytest.raises(recorded_values.NotRecorded, match=r"no recording.*record it anew"):
        recorded_values.loaded(data)


def test_the_recorded_mode_has_the_durations_of_a_class(monkeypatch):
    monkeypatch.setenv(mode.VARIABLE, "recorded")

    assert mode.seconds(fast=1, normal=2, full=3) == 2
    assert mode.name() == "recorded"
    assert not mode.fast()


def test_what_ships_is_small():
    archives = kernel.FOLDER.glob(f"*{kernel.SUFFIX}")
    sizes = {each.name.removesuffix(kernel.SUFFIX): each.stat().st_size for each in archives}

    assert [each.stem for each in NOTEBOOKS if each not in SHIPPED] == []
    core = sum(sizes[each.stem] for each in NOTEBOOKS if not run_notebooks.is_further(each))
    assert core < 1.5e6
    assert sum(sizes.values()) < 4e6


@pytest.mark.parametrize("path", SHIPPED)
def test_a_recording_fits_its_lesson(path):
    """Otherwise: `python3 course.py build recordings`, on a machine with nothing else to do."""
    assert record.stale(path) == []
    archive = kernel.FOLDER / f"{path.stem}{kernel.SUFFIX}"
    made = json.loads(kernel.parts(archive)[kernel.MANIFEST])["made"]
    assert made["mode"] == "class"
    assert made["machine"]


@pytest.mark.slow
@pytest.mark.parametrize("path", long_but_for("03_bounded", SHIPPED))
def test_a_recorded_lesson_runs_to_its_end_and_starts_no_program(path, locked_down):
    locked_down()

    done = run_notebooks.execute(path, timeout_s=110)

    assert done.error is None
    assert [claim.sentence for claim in done.claims if not claim.holds] == []
    said = "\n".join(texts(done.notebook))
    assert "Recorded run, not of this machine" in said or "this lesson makes no run" in said
    assert len(done.agreements) >= 1 or run_notebooks.is_further(path)
