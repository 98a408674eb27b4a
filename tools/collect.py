"""Merge the progress of a class: `python3 course.py class collect FILES`.

Each file is a student's progress (`progress.path()` names it), or what a page of the course saved
for its reader (`.json`), renamed after the student. Or it is the file of a class that voted, with
all its students: the attempt is the round of a vote, and measured is what the teacher showed.

Written are `lessons.csv` (one row for each student and lesson), `predictions.csv`, `curves.csv`
(one row for each point of a curve), `quizzes.csv` and `predictions.png`: what the class predicted,
divided by what was measured.
"""

import argparse
import os
import shutil
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd

from kvstore.classroom.store import ClassFileError, handed_in, is_class
from kvstore.course import progress, questions
from kvstore.course.views.calibration import plot_class
from tools import answers

OUT: Final = Path(__file__).resolve().parent.parent / "build" / "class"
_SQLITE: Final = b"SQLite format 3\x00"


def student_of(file: Path) -> str:
    """Return the student's name: that of the file, or of the folder of a `progress.sqlite3`."""
    return file.parent.name if file.stem == "progress" else file.stem


@contextmanager
def _read_from(file: Path) -> Iterator[None]:
    """Let `progress` read a copy of this file. Raises ValueError if it holds no whole progress.

    `progress` moves a damaged file aside and begins a new one, so that a learner can go on.
    """
    of_page = file.suffix == ".json"
    if not of_page and file.read_bytes()[: len(_SQLITE)] != _SQLITE:
        raise ValueError(f"{file} is no file of progress: `progress.path()` names the right one")
    before = os.environ.get(progress.VARIABLE)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch, "page.sqlite3") if of_page else shutil.copy(file, scratch)
        os.environ[progress.VARIABLE] = str(copy)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                if of_page:
                    answers.store(file)
                yield
            if list(Path(scratch).glob("*.unreadable-*")):
                raise progress.ProgressError("moved aside")
        except (Warning, sqlite3.Error, progress.ProgressError, UnicodeError) as error:
            raise ValueError(f"{file} is damaged, ask {student_of(file)} for it again") from error
        finally:
            if before is None:
                del os.environ[progress.VARIABLE]
            else:
                os.environ[progress.VARIABLE] = before


def merged(
    files: Sequence[Path],
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Return the lessons, predictions, curves and quizzes of all students, and the problems.

    A problem names a file that holds no progress, or is damaged: nothing of it is in the tables.
    Raises ValueError if two files are of one student.
    """
    names = [student_of(file) for file in files]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two files are of {sorted(twice)[0]!r}: rename one of them")
    lessons, predictions, points, choices, problems = [], [], [], [], []
    for name, file in zip(names, files, strict=True):
        if is_class(file):
            votes = handed_in(file)
            predictions += [
                (vote.student, vote.question_id, vote.round, vote.value, vote.measured, vote.unit)
                for vote in votes
                if vote.choice is None
            ]
            choices += [
                (vote.student, vote.question_id, vote.choice) for vote in votes if vote.choice
            ]
            continue
        try:
            with _read_from(file):
                of_lessons = progress.by_lesson().reset_index().to_dict("records")
                of_questions, of_quizzes = progress.questions(), progress.choices()
                of_curves = {made: progress.curve(made) for made in of_questions}
        except (OSError, ValueError) as problem:
            problems.append(str(problem))
            continue
        lessons += [{"student": name, **row} for row in of_lessons]
        predictions += [
            (name, made.question_id, made.attempt, made.value, made.measured, made.unit)
            for made in of_questions
        ]
        points += [
            (name, made.question_id, made.attempt, *point)
            for made, curve in of_curves.items()
            for point in curve
        ]
        choices += [(name, *each) for each in of_quizzes.items()]
    table = pd.DataFrame(choices, columns=["student", "question", "choice"])
    table["right"] = [_is_right(*each) for each in zip(table.question, table.choice, strict=True)]
    columns = ["student", "question", "attempt", "predicted", "measured", "unit"]
    of_curve = ["student", "question", "attempt", "x", "predicted", "measured"]
    return {
        "lessons": pd.DataFrame(lessons),
        "predictions": pd.DataFrame(predictions, columns=columns),
        "curves": pd.DataFrame(points, columns=of_curve),
        "quizzes": table,
    }, problems


def _is_right(question_id: str, choice: str) -> bool | None:
    """Whether the choice is right; None for a question that the course no longer has."""
    try:
        option = questions.registered_quiz(question_id).lettered.get(choice)
    except LookupError:
        return None
    return option.right if option else None


def main(arguments: Sequence[str]) -> int:
    """Write the tables; the exit status is 1 if a file was left out."""
    parser = argparse.ArgumentParser(prog="course.py class collect", description="Merge a class.")
    parser.add_argument("--out", type=Path, default=OUT, help="where to (default: build/class)")
    parser.add_argument("files", nargs="+", type=Path, help="the students' files of progress")
    options = parser.parse_args(arguments)
    try:
        tables, problems = merged(options.files)
    except (ClassFileError, ValueError) as problem:
        parser.exit(1, f"course.py class collect: {problem}\n")
    options.out.mkdir(parents=True, exist_ok=True)
    lessons, predictions = tables["lessons"], tables["predictions"]
    for name, table in tables.items():
        table.to_csv(options.out / f"{name}.csv", index=False)
    print(lessons.to_string(index=False) if len(lessons) else "no lesson was begun")
    scored = predictions.dropna(subset=["predicted", "measured"])
    if len(scored):
        mpl.use("Agg")
        plot_class(scored)
        plt.savefig(options.out / "predictions.png")
        plt.close()
    print(f"\nwritten to {options.out}")
    for each in problems:
        print(f"course.py class collect: left out: {each}", file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
