"""The learner's own copies of the lessons: made, updated, kept, and fresh again."""

import json
import os
import sys
import threading
from pathlib import Path

import pytest

import course
from tools import files, my_lessons


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


def test_a_lesson_that_left_the_course_goes_unless_it_was_edited(place, lab):
    lab()
    edit(place, "03_bounded.ipynb", ANSWERED)
    for name in ("03_bounded", "further/03_extra"):
        (place / "notebooks" / f"{name}.ipynb").unlink()

    assert lab() == ["further/03_extra is no longer in the course; your unedited copy was removed"]
    assert copies(place) == {"00_start_here.ipynb": OLD, "03_bounded.ipynb": ANSWERED}


def test_notebooks_of_the_learner_are_left_alone_whatever_their_name(place, lab):
    lab()
    edit(place, "11_new.ipynb", ANSWERED)
    update(place, "11_new.ipynb")

    (line,) = lab()

    assert line.startswith("11_new has a new version; your copy is kept")
    assert copies(place)["11_new.ipynb"] == ANSWERED


def test_an_original_that_was_used_in_place_is_work_of_the_learner(place, lab):
    """Before there were copies, JupyterLab saved into notebooks/; then git restores the file."""
    update(place, "03_bounded.ipynb", ran := notebook("predict(25)", outputs=("25 calls/s",)))
    lab()
    update(place, "03_bounded.ipynb", OLD)

    (line,) = lab()

    assert "your copy is kept" in line
    assert copies(place)["03_bounded.ipynb"] == ran


def test_a_deleted_lesson_is_made_again(place, lab):
    lab()
    (place / "my_lessons" / "03_bounded.ipynb").unlink()

    assert lab() == [f"03_bounded was added to {place / 'my_lessons'}"]
    assert len(copies(place)) == 3


def test_without_a_readable_record_no_edited_copy_is_replaced(place, lab):
    lab()
    edit(place, "03_bounded.ipynb", ANSWERED)
    for record in ("", "{", "[1]", "7"):
        edit(place, my_lessons.COPIED_FROM, record)

        lab()

        assert copies(place)["03_bounded.ipynb"] == ANSWERED
        update(place, "00_start_here.ipynb", newest := notebook(f"after {record}"))
        lab()
        assert copies(place)["00_start_here.ipynb"] == newest  # the record was made again


def test_an_interrupted_copy_is_completed_the_next_time(place, lab, monkeypatch):
    """A Ctrl-C, or a full disk, before the file with the number `last` is in its place."""
    lab()
    old = OLD
    for last in range(4):
        new = notebook(f"# version {last}")
        for name in ("00_start_here.ipynb", "03_bounded.ipynb", "further/03_extra.ipynb"):
            update(place, name, new)
        done = []

        def stop(source, target, last=last, done=done):
            if len(done) == last:
                raise KeyboardInterrupt
            done.append(target)
            Path(source).rename(target)

        with monkeypatch.context() as patch:
            patch.setattr(files.os, "replace", stop)
            assert course.main(["lab"]) == 130
        assert set(copies(place).values()) <= {old, new}

        lab()

        assert set(copies(place).values()) == {new}
        old = new


def test_the_second_of_two_labs_waits_for_the_first(place, lab, monkeypatch, capsys):
    copying, go_on, waiting = threading.Event(), threading.Event(), threading.Event()
    whole, heard = my_lessons.write_whole, []

    def slow(path, data):
        copying.set()
        assert go_on.wait(10)
        whole(path, data)

    def hear(text):
        heard.append(text)
        if "waiting" in text:
            waiting.set()

    monkeypatch.setattr(my_lessons, "write_whole", slow)
    monkeypatch.setattr(my_lessons, "say", hear)
    monkeypatch.setattr(files, "say", hear)
    labs = [threading.Thread(target=course.main, args=(["lab"],)) for _ in range(2)]
    labs[0].start()
    assert copying.wait(10)
    labs[1].start()
    assert waiting.wait(10)
    go_on.set()
    for each in labs:
        each.join(10)

    assert heard == [
        "another course.py is copying the lessons; waiting for it",
        f"your own copies of the lessons are in {place / 'my_lessons'}",
    ]
    assert len(copies(place)) == 3


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


def test_a_folder_that_cannot_be_made_is_named(place, capsys):
    (place / "my_lessons").write_text("a file of the learner's")

    assert course.main(["lab"]) == 1

    (line,) = said(capsys)
    assert line.startswith("your copies of the lessons cannot be written")
    assert "my_lessons" in line


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


# ---- a fresh copy --------------------------------------------------------------------------


def test_a_fresh_copy_keeps_the_old_one_under_another_name(place, lab, capsys):
    lab()
    mine = place / "my_lessons" / "03_bounded.ipynb"
    names = ("03", "03_bounded", "03_bounded.ipynb", "notebooks/03_bounded.ipynb", "my_lessons/03")
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


def test_a_fresh_copy_is_the_new_version_and_follows_the_next(place, lab):
    update(place, "03_bounded_more.ipynb", OLD)  # a full name means that lesson alone
    lab()
    edit(place, "03_bounded.ipynb", ANSWERED)
    update(place, "03_bounded.ipynb")
    (place / "my_lessons" / "00_start_here.ipynb").unlink()

    assert course.main(["fresh", "03_bounded", "00", "further/03"]) == 0
    assert len(copies(place)) == 5  # one old copy beside the four lessons
    assert copies(place)["03_bounded.ipynb"] == NEW

    update(place, "03_bounded.ipynb", notebook("# third"))
    lab()
    assert copies(place)["03_bounded.ipynb"] == notebook("# third")


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
