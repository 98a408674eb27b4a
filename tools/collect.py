"""Merge the progress of a class: `python3 course.py collect FILES`.

Each file is a student's progress (`progress.path()` names it), renamed after the student. Written
are `lessons.csv` (one row for each student and lesson), `predictions.csv`, `quizzes.csv` and
`predictions.png`: what the class predicted, divided by what was measured.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd

from kvstore.course import progress, questions
from kvstore.course.lessons import plot_class

OUT: Final = Path(__file__).resolve().parent.parent / "build" / "class"
_SQLITE: Final = b"SQLite format 3\x00"


def student_of(file: Path) -> str:
    """Return the student's name: that of the file, or of the folder of a `progress.sqlite3`."""
    return file.parent.name if file.stem == "progress" else file.stem


@contextmanager
def _read_from(file: Path) -> Iterator[None]:
    """Let `progress` read a copy of this file. Raises ValueError if it holds no progress."""
    if file.read_bytes()[: len(_SQLITE)] != _SQLITE:
        raise ValueError(f"{file} is no file of progress: `progress.path()` names the right one")
    before = os.environ.get(progress.VARIABLE)
    with tempfile.TemporaryDirectory() as scratch:
        os.environ[progress.VARIABLE] = shutil.copy(file, scratch)
        try:
            yield
        finally:
            if before is None:
                del os.environ[progress.VARIABLE]
            else:
                os.environ[progress.VARIABLE] = before


def merged(files: Sequence[Path]) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the lessons, the predictions and the quiz choices of all students.

    Raises ValueError for a file that holds no progress, and if two files are of one student.
    """
    names = [student_of(file) for file in files]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two files are of {sorted(twice)[0]!r}: rename one of them")
    lessons, predictions, choices = [], [], []
    for name, file in zip(names, files, strict=True):
        with _read_from(file):
            for lesson, row in progress.by_lesson().iterrows():
                lessons.append({"student": name, "lesson": lesson, **row})
            for made in progress.questions():
                predictions.append(
                    {
                        "student": name,
                        "question": made.question_id,
                        "attempt": made.attempt,
                        "predicted": made.value,
                        "measured": made.measured,
                        "unit": made.unit,
                    }
                )
            for question_id, choice in progress.choices().items():
                choices.append({"student": name, "question": question_id, "choice": choice})
    table = pd.DataFrame(choices, columns=["student", "question", "choice"])
    table["right"] = [_is_right(*each) for each in zip(table.question, table.choice, strict=True)]
    columns = ["student", "question", "attempt", "predicted", "measured", "unit"]
    return pd.DataFrame(lessons), pd.DataFrame(predictions, columns=columns), table


def _is_right(question_id: str, choice: str) -> bool | None:
    """Whether the choice is right; None for a question that the course no longer has."""
    try:
        option = questions.registered_quiz(question_id).lettered.get(choice)
    except LookupError:
        return None
    return option.right if option else None


def main(arguments: Sequence[str]) -> int:
    """The command; see `--help`."""
    parser = argparse.ArgumentParser(prog="course.py collect", description="Merge a class.")
    parser.add_argument("--out", type=Path, default=OUT, help="where to (default: build/class)")
    parser.add_argument("files", nargs="+", type=Path, help="the students' files of progress")
    options = parser.parse_args(arguments)
    try:
        lessons, predictions, choices = merged(options.files)
    except (OSError, ValueError) as problem:
        print(f"course.py collect: {problem}", file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    for name, table in (("lessons", lessons), ("predictions", predictions), ("quizzes", choices)):
        table.to_csv(options.out / f"{name}.csv", index=False)
    print(lessons.to_string(index=False) if len(lessons) else "no lesson was begun")
    scored = predictions.dropna(subset=["predicted", "measured"])
    if len(scored):
        mpl.use("Agg")
        plot_class(scored)
        plt.savefig(options.out / "predictions.png")
        plt.close()
    print(f"\nwritten to {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
