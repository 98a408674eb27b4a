"""The notes for teachers: they have the camps of the votes, and their clocks fit the lessons."""

import re

from lessons import NOTEBOOKS

from tools import camps

TABLE = (camps.NOTES.parent / "teaching.md").read_text("utf-8")
MINUTES = {
    stem: int(minutes) for stem, minutes in re.findall(r"^\| `(\w+)` \| (\d+) \|", TABLE, re.M)
}
"""The minutes of each core lesson, as the page for teachers has them."""


def test_the_notes_have_the_camps_that_a_class_sees():
    for page in camps.NOTES.glob("[0-9]*.md"):
        assert page.read_text("utf-8") == camps.with_camps(page), "python -m tools.camps"


def test_the_clock_of_a_lesson_ends_within_its_minutes():
    for stem, minutes in MINUTES.items():
        notes = (camps.NOTES / f"{stem[:2]}.md").read_text("utf-8")
        clocks = re.findall(r"^\| (?:(\d+):)?(\d+) \|", notes, re.M)
        begins = [60 * int(hours or 0) + int(rest) for hours, rest in clocks]
        assert begins == sorted(begins), stem
        assert begins[-1] < minutes + 1, stem


def test_a_lesson_states_the_minutes_of_the_table():
    core = {path.stem: path for path in NOTEBOOKS if path.parent.name == "notebooks"}
    assert MINUTES.keys() == core.keys()
    for stem, path in core.items():
        text = path.read_text("utf-8")
        if stated := re.search(r"takes\s+(?:about\s+)?\**(\d+)\s+minutes", text):
            assert MINUTES[stem] == int(stated[1]), stem
