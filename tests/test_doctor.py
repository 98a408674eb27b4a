"""`course.py doctor`: each prepared fault is "not ready", with its cure in the last line."""

import subprocess
import sys
import time
from collections import namedtuple
from contextlib import ExitStack
from pathlib import Path

import pytest

from kvstore.course import comparisons
from kvstore.measure import cores
from tools import doctor
from tools.run_notebooks import execute

ROOT = Path(__file__).resolve().parent.parent


def no_port(*_):
    raise OSError("not permitted")


def in_a_file(tmp_path, monkeypatch):
    """The place for the progress lies below a file, so that not even root can make it."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "file" / "folder" / "progress.sqlite3"))
    return doctor.progress_file()


def on_a_full_disk(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage(10**10, 10**10, 10**6))
    return doctor.disk(tmp_path)


def beside_busy_programs(*_):
    with ExitStack() as busy:
        for _ in range(2 * cores()):
            loop = subprocess.Popen(
                [sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=-1
            )
            busy.enter_context(loop)
            busy.callback(loop.kill)
            loop.stdout.readline()
        return doctor.others()


FAULTS = {
    "Python 3.10": (lambda *_: doctor.python((3, 10, 13)), "python3.13"),
    "disk": (on_a_full_disk, "free 2.0 GB"),
    "folder": (lambda *_: doctor.folder(Path("/proc")), "folder of your own"),
    "loopback": (lambda *_: doctor.loopback(no_port), "firewall"),
    "memory": (lambda *_: doctor.memory(lambda: 3e8), "close other programs"),
    "progress": (in_a_file, "COURSE_PROGRESS"),
    "busy": (beside_busy_programs, "close other programs"),
    "timers": (lambda *_: doctor.timers(lambda s: time.sleep(s + 0.02)), "charger"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_not_ready_and_names_its_cure(fault, tmp_path, monkeypatch, capsys):
    if fault == "folder" and not Path("/proc").is_dir():
        pytest.skip("no folder here that nobody can write")
    prepared, cure = FAULTS[fault]
    finding = prepared(tmp_path, monkeypatch)

    assert doctor.main(look=lambda _: iter([finding])) == 1

    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("not ready: ")
    assert cure.lower() in last.lower()


def test_a_note_is_no_fault(monkeypatch, capsys):
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    assert doctor.main(look=lambda _: iter([doctor.python((3, 11, 7)), doctor.proxy()])) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("ready, with a note: a proxy")

    assert doctor.main(look=lambda _: iter([doctor.python((3, 11, 7))])) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "ready"


@pytest.mark.slow
def test_without_packages_it_says_what_to_install(tmp_path):
    """A Python without any package: the first checks work there, too."""
    ended = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            "import sys; sys.path.insert(0, sys.argv[1]);"
            "from tools import doctor; sys.exit(doctor.main())",
            ROOT,
        ],
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert ended.returncode == 1, ended.stderr
    assert "course.py lab" in ended.stdout.splitlines()[-1]


@pytest.mark.slow
def test_it_says_what_the_lesson_of_the_day_will_show():
    (pool,) = doctor.SHOWN["04"]
    low, high, bound = doctor.interval_per_s(pool)

    assert 0 < low < high
    assert bound == pytest.approx(400)


def test_a_lesson_is_a_number(capsys):
    assert doctor.main(["three"]) == 2
    assert "such as 03" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("lesson", doctor.SHOWN)
def test_the_interval_holds_what_the_lesson_measures(lesson, monkeypatch):
    """On a quiet machine: `python3 course.py test --long -k test_the_interval_holds`."""
    monkeypatch.setenv("COURSE_MODE", "class")
    results = {
        each["question_id"]: each["measured"]
        for path in (ROOT / "notebooks").glob(f"{lesson}_*.ipynb")
        for each in execute(path).published(comparisons.MIME_TYPE)
    }
    for shown in doctor.SHOWN[lesson]:
        low, high, _ = doctor.interval_per_s(shown)
        assert low <= results[shown.question_id] <= high, shown.question_id
