"""tools/english.py: what it finds, where it finds it, and that its baseline only shrinks."""

import json

import pytest

from tools import english

FOUND = {
    "Nobody reads a message.": ["Nobody"],
    "told = f'{rate} calls/s'": ["told"],
    "as_told(told_by)": ["told", "told"],
    "the dearer side stands still": ["dearer", "stands still"],
    "which of both takes turns": ["of both", "takes turns"],
    "disk, as asked (ms)": ["as asked"],
    "asked_ms = [1]": ["asked"],
    "return asked.streams": ["asked"],
    "timers and the way": ["the way"],
    "The way is long, the way to go.": ["The way", "the way"],
    # and what is left alone
    "The run asked for 8 streams.": [],
    "a toldyouso, in the way of a call": [],
    "test_a_port_that_was_asked_for": [],
}


def test_habits_are_found_and_other_words_are_not():
    found = {line: [each.words for each in english.words_in("a.py", 1, [line])] for line in FOUND}

    assert {line: sorted(words) for line, words in found.items()} == {
        line: sorted(words) for line, words in FOUND.items()
    }


def test_a_quotation_may_hold_a_habit(monkeypatch):
    monkeypatch.setattr(english, "QUOTATIONS", ("nobody expects it",))

    (finding,) = english.words_in("a.md", 7, ["He said 'nobody expects it', and nobody did."])

    assert str(finding).startswith("a.md:7: 'nobody': name the subject")


LONG = " ".join(["word"] * 31) + "."
SHORT = " ".join(["word"] * 30) + "."


@pytest.mark.parametrize(
    ("markdown", "lines"),
    [
        (f"{SHORT} {SHORT}", []),
        (LONG, [1]),
        (f"{SHORT}\n\nAbove.\n{LONG[:20]}\n{LONG[20:]}", [3]),
        (f"- {SHORT[:-1]}\n- {SHORT}", []),  # items of a list are sentences of their own
        (f"| {LONG} |\n\n# {LONG}", []),  # tables and headings
        (f"```text\n{LONG}\n```\n\n{LONG}", [5]),
        (f"{SHORT[:-1]} $a + b + c$.", [1]),  # a formula is one word
        (f"{SHORT[:-6]} [x](a b c).", []),
    ],
    ids=range(8),
)
def test_sentences_above_thirty_words_are_found(markdown, lines):
    found = english.long_sentences_in("a.ipynb", 1, markdown.splitlines())

    assert [each.line for each in found] == lines


def test_the_line_of_a_finding_is_the_line_in_the_notebook_file():
    cells = [
        {"cell_type": "code", "metadata": {}, "source": []},
        {"cell_type": "code", "metadata": {}, "source": ["x = 1\n", "told = 2"]},
        {"cell_type": "markdown", "metadata": {}, "source": [f"{LONG}\n", "\n", "Whoever"]},
    ]
    text = json.dumps({"cells": cells}, indent=1, sort_keys=True)

    found = list(english.findings_of("notebooks/a.ipynb", text))

    assert [each.words for each in found] == [
        "told",
        "Whoever",
        "word word word word word word ...",
    ]
    lines = text.splitlines()
    for finding in found:
        assert finding.words.removesuffix(" ...") in lines[finding.line - 1]


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A room with a habit in one of its two folders, which the baseline allows."""
    monkeypatch.setattr(english, "BASELINE", {"kvstore/room/old": 1, "kvstore/room": 1})
    for folder in ("kvstore/room/old", "kvstore/room/new"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("old/a.py", "b.py"):
        (tmp_path / "kvstore/room" / name).write_text("told = 1\n")
    return tmp_path / "kvstore/room"


def test_a_clean_folder_stays_clean(tree, capsys):
    assert english.main([], tree.parent.parent) == 0
    assert capsys.readouterr().out == ""

    (tree / "new/c.py").write_text("x = 1\ntold = 1\n")

    assert english.main([], tree.parent.parent) == 1
    (first, *_, clean, worse) = capsys.readouterr().out.splitlines()
    assert first == f"kvstore/room/b.py:1: 'told': {english.HABITS['told']}"
    assert clean == "kvstore/room/new: 1 found; this folder was clean"
    assert worse == "kvstore/room: 3 found, at most 2 allowed"


def test_a_room_gets_no_worse_but_a_file_may_move_in_it(tree):
    (tree / "old/a.py").rename(tree / "a.py")
    assert english.main([], tree.parent.parent) == 0

    (tree / "old/a.py").write_text("# nobody\n")
    assert english.main([], tree.parent.parent) == 1


def test_the_baseline_shrinks_and_the_sum_of_no_room_grows(tmp_path):
    baseline = {"a/b": 3, "a/b/moved": 2, "c": 1, "d": 4}
    smaller = english.lowered(baseline, {"a/b": 4, "c": 2, "d": 1, "new": 5})
    tool = tmp_path / "tool.py"
    tool.write_text('import x\n\nBASELINE: dict[str, int] = {\n    "a": 3,\n}\n\nprint({})\n')

    english.write_baseline(tool, smaller)
    english.write_baseline(tool, smaller)

    assert smaller == {"a/b": 4, "c": 1, "d": 1}
    assert tool.read_text() == (
        'import x\n\nBASELINE: dict[str, int] = {\n    "a/b": 4,\n'
        '    "c": 1,\n    "d": 1,\n}\n\nprint({})\n'
    )
