"""The learner's own copies of the lessons: made, updated, kept, and fresh again."""

import json
import os
import sys
from pathlib import Path

import pytest

import course
from tools import my_lessons


def notebook(*sources: str, outputs: tuple[str, ...] = (), **metadata: object) -> str:
    """A notebook with these code cells; the first one may have printed something."""
    printed = [{"output_type": "stream", "name": "stdout", "text": text} for text in outputs]
    cells = [
        {"cell_type": "code", "source": [source], "outputs": [], "metadata": {}}
        for source in sources
    ]
    cells[0]["outputs"] = printed
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


OLD, NEW, ANSWERED = notebook("NOT_ATTEMPTED"), notebook("# better"), notebook("answer = 42")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A checkout with two lessons and an optional one."""
    root = tmp_path / "my courses" / "rpc"
    (root / "notebooks" / "further").mkdir(parents=True)
    for name in ("00_start_here", "03_bounded", "further/03_extra"):
        (root / "notebooks" / f"{name}.ipynb").write_text(OLD)
    monkeypatch.setattr(my_lessons, "ROOT", root)
    monkeypatch.setattr(my_lessons, "ORIGINALS", root / "notebooks")
    monkeypatch.setattr(my_lessons, "MINE", root / "my_lessons")
    monkeypatch.setattr(course, "course_python", lambda: Path(sys.executable))
    monkeypatch.setattr(course, "hand_over", lambda *_: None)
    return root


@pytest.fixture
def lab(place, capsys):
    """Call `course.py lab` as far as JupyterLab; return the lines that the learner sees."""

    def call(*arguments):
        assert course.main(["lab", *arguments]) in (0, None)
        return said(capsys)

    return call


def said(capsys):
    return [line.removeprefix("course.py: ") for line in capsys.readouterr().err.splitlines()]


def copies(place):
    """Every file of the learner's folder that JupyterLab shows."""
    mine = place / "my_lessons"
    return {
        path.relative_to(mine).as_posix(): path.read_text()
        for path in mine.rglob("*")
        if path.is_file() and "/." not in f"/{path.relative_to(mine).as_posix()}"
    }


def edit(place, name, text):
    (place / "my_lessons" / name).write_text(text)


def update(place, name, text=NEW):
    """What an update of the course does."""
    (place / "notebooks" / name).write_text(text)


def test_copies_are_made_once_updated_unless_edited_and_then_kept(place, lab):
    (place / "notebooks" / ".ipynb_checkpoints").mkdir()  # once an author opened an original
    update(place, ".ipynb_checkpoints/03_bounded-checkpoint.ipynb")
    (line,) = lab()
    assert line == f"your own copies of the lessons are in {place / 'my_lessons'}"
    names = ("00_start_here.ipynb", "03_bounded.ipynb", "further/03_extra.ipynb")
    assert copies(place) == dict.fromkeys(names, OLD)

    edit(place, "03_bounded.ipynb", ANSWERED)
    assert lab() == []
    update(place, "03_bounded.ipynb")
    update(place, "further/03_extra.ipynb")
    update(place, "11_new.ipynb")

    kept, replaced, added = sorted(lab(), key=lambda line: "kept" not in line)

    assert kept == (
        "03_bounded has a new version; your copy is kept; "
        "`python3 course.py fresh 03_bounded` gives you the new one"
    )
    assert {replaced, added} == {
        "further/03_extra has a new version; it replaced your unedited copy",
        f"11_new was added to {place / 'my_lessons'}",
    }
    found = copies(place)
    assert [found[name] for name in names[1:]] == [ANSWERED, NEW]
    assert lab() == [kept]  # the copy is still kept, not taken for an unedited one


def test_outputs_are_work_of_the_learner_and_metadata_is_not(place, lab):
    """JupyterLab changes the metadata of a lesson that was only opened, and saves it."""
    lab()
    edit(place, "00_start_here.ipynb", notebook("NOT_ATTEMPTED", language_info={"version": "3.13"}))
    edit(place, "03_bounded.ipynb", ran := notebook("NOT_ATTEMPTED", outputs=("1,000 calls/s",)))
    update(place, "00_start_here.ipynb")
    update(place, "03_bounded.ipynb")

    lab()

    assert copies(place)["00_start_here.ipynb"] == NEW
    assert copies(place)["03_bounded.ipynb"] == ran


def test_an_original_that_was_used_in_place_is_work_of_the_learner(place, lab):
    """Before there were copies, JupyterLab saved into notebooks/; then git restores the file."""
    update(place, "03_bounded.ipynb", ran := notebook("predict(25)", outputs=("25 calls/s",)))
    lab()
    update(place, "03_bounded.ipynb", OLD)

    (line,) = lab()

    assert "your copy is kept" in line
    assert copies(place)["03_bounded.ipynb"] == ran


def test_the_copies_of_a_read_only_checkout_are_in_the_home_folder(
    place, lab, monkeypatch, tmp_path
):
    (tmp_path / "home").mkdir()
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setattr(
        my_lessons.os, "access", lambda path, _mode: place not in (path, *path.parents)
    )

    (line,) = lab()

    assert line.endswith(str(tmp_path / "home" / "rpc_throughput_lessons"))
    assert not (place / "my_lessons").exists()
    assert (tmp_path / "home" / "rpc_throughput_lessons" / "03_bounded.ipynb").read_text() == OLD


def test_the_lab_opens_the_copies_where_the_learner_was_or_for_authors_the_originals(
    place, lab, monkeypatch
):
    def opened(*arguments):
        handed = []
        monkeypatch.setattr(course, "hand_over", lambda _python, what, _extra: handed.extend(what))
        course.main(["lab", *arguments])
        (folder,) = [each.partition("root_dir=")[2] for each in handed if "root_dir" in each]
        (page,) = [each.partition("/lab/tree/")[2] for each in handed if "/lab/tree/" in each]
        return Path(folder).name, page

    assert opened() == ("my_lessons", my_lessons.FIRST_PAGE)
    mine = place / "my_lessons"
    for number, (name, text) in enumerate(
        [("03_bounded", ANSWERED), ("further/03_extra", ANSWERED), ("00_start_here", OLD)]
    ):
        edit(place, f"{name}.ipynb", text)  # the last one is only opened and saved
        os.utime(mine / f"{name}.ipynb", (number, number))
    assert opened() == ("my_lessons", "further/03_extra.ipynb")
    assert opened("--originals") == ("notebooks", my_lessons.FIRST_PAGE)


def test_a_fresh_copy_keeps_the_old_one_under_another_name(place, lab, capsys):
    lab()
    mine = place / "my_lessons" / "03_bounded.ipynb"
    names = ("03", "notebooks/03_bounded.ipynb")
    for number, name in enumerate(names, 1):
        edit(place, "03_bounded.ipynb", notebook(name))

        assert course.main(["fresh", name]) == 0

        (line,) = said(capsys)
        old = f"03_bounded_old_{number}.ipynb"
        assert line.startswith(f"{mine} is a fresh copy; your old one is {old}.")
        assert copies(place)["03_bounded.ipynb"] == OLD
        assert copies(place)[old] == notebook(name)
    assert copies(place)["03_bounded_old_1.ipynb"] == notebook("03")
    assert lab() == []


def test_a_name_that_does_not_fit_one_lesson_changes_nothing(place, lab, capsys):
    lab()
    edit(place, "03_bounded.ipynb", ANSWERED)
    problems = {
        "0": "'0' fits 2 lessons; write one of: 00_start_here, 03_bounded",
        "99": "'99' is no lesson; write one of: 00_start_here, 03_bounded, further/03_extra",
    }
    for name, problem in problems.items():
        assert course.main(["fresh", "03", name]) == 1
        assert said(capsys) == [problem]

    assert copies(place)["03_bounded.ipynb"] == ANSWERED
