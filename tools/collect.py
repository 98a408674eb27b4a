"""Merge the progress of a class: `python3 course.py class collect FILES`.

Each file is a student's progress (`progress.path()` names it), or what a page of the course saved
for its reader (`.json`), renamed after the student; a folder stands for all that are in it. Or it
is the file of a class that voted, with all its students: the attempt is the round of a vote, and
measured is what the teacher showed. A file that cannot be read ends nothing: a line names it.

Written are `lessons.csv` (one row for each student and lesson), `predictions.csv`, `curves.csv`
(one row for each point of a curve), `quizzes.csv`, `intervals.csv`, `coverage.csv` (how many of a
student's intervals held) and `predictions.png`: what the class predicted, divided by what was
measured.
"""

import argparse
import json
import math
import os
import shutil
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kvstore.classroom.store import ClassFileError, handed_in, is_class
from kvstore.course import comparisons, curves, progress, questions
from kvstore.course.views.calibration import plot_class

OUT: Final = Path(__file__).resolve().parent.parent / "build" / "class"
_SQLITE: Final = b"SQLite format 3\x00"
QUIZ: Final = "quiz right at first"
PAGE_FORM: Final = {"course": "rpc-throughput", "answers": 1}
"""What marks the file that the button "Save my numbers" of a page writes, `asks.js`."""


def student_of(file: Path) -> str:
    """Return the student's name: that of the file, or of the folder of a `progress.sqlite3`."""
    return file.parent.name if file.stem == "progress" else file.stem


def files_in(paths: Sequence[Path]) -> list[Path]:
    """Return the files: those of a folder and of a pattern too, which some shells pass as it is.

    What is not there is returned as it was given.
    """
    files: list[Path] = []
    for each in paths:
        if each.is_dir():
            inside = sorted([*each.rglob("*.sqlite3"), *each.rglob("*.json")])
            files += inside or [each]
        elif each.exists():
            files.append(each)
        else:
            root = Path(each.anchor)
            pattern = each.relative_to(root) if each.anchor else each
            files += sorted(root.glob(str(pattern))) or [each]
    return list(dict.fromkeys(files))


def students(files: Sequence[Path]) -> list[str]:
    """Return a name for each file; where two are alike, with the first folder that differs."""
    names = [student_of(file) for file in files]
    for name in {name for name in names if names.count(name) > 1}:
        alike = [place for place, each in enumerate(names) if each == name]
        paths = [files[place].absolute() for place in alike]
        shared = len(Path(os.path.commonpath(paths)).parts)
        for place, path in zip(alike, paths, strict=True):
            names[place] = f"{name} ({path.parts[shared]})"
    return names


@contextmanager
def _read_from(file: Path) -> Iterator[None]:
    """Let `progress` read a copy of this file. Raises ValueError if it holds no whole progress.

    `progress` moves a damaged file aside and begins a new one, so that a learner can go on.
    """
    if file.is_dir():
        raise ValueError(f"{file} is a folder without a file of progress")
    of_page = file.suffix == ".json"
    if not of_page and file.read_bytes()[: len(_SQLITE)] != _SQLITE:
        raise ValueError(f"{file} is no file of progress: `progress.path()` names the right one")
    before = os.environ.get(progress.VARIABLE)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch, "page.sqlite3") if of_page else Path(shutil.copy(file, scratch))
        os.environ[progress.VARIABLE] = str(copy)
        try:
            if not of_page:
                _refuse_another_database(file, copy)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                if of_page:
                    _store_page(file)
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


def _store_page(file: Path) -> None:
    """Put the answers that a reader gave on a page into the progress in use.

    Raises ValueError if the file is not one that a page has saved.
    """
    try:
        page = json.loads(file.read_text("utf-8"))
        if {name: page[name] for name in PAGE_FORM} != PAGE_FORM:
            raise ValueError("another form")
        for question_id, answer in page["predictions"].items():
            _predict(question_id, answer)
        for question_id, answer in page["choices"].items():
            _choose(question_id, str(answer["choice"]))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file} is no file of answers that a page of the course saved") from error


def _predict(question_id: str, answer: Mapping[str, Any]) -> None:
    value, unit, measured = _positive(answer["value"]), str(answer["unit"]), answer.get("measured")
    drawn = {float(x): _positive(y) for x, y in answer.get("curve", ())}
    dots = {float(x): float(y) for x, y in answer.get("dots", ())}
    low, high = map(_positive, answer.get("interval") or (value, value))
    if not low <= value <= high:
        raise ValueError(f"an interval holds its number, got {low} to {high} and {value}")
    sure = (low, high) if low < high else None
    progress.keep_prediction(question_id, value, unit, drawn, interval=sure)
    if measured is not None:
        number = float(measured)
        error = curves.log_error(drawn, dots) if drawn else comparisons.log_error(value, number)
        progress.settle(question_id, number, lambda *_: error, curve=dots)


def _choose(question_id: str, letter: str) -> None:
    try:
        option = questions.registered_quiz(question_id).lettered.get(letter)
    except LookupError:
        option = None  # the course no longer has it, or never had
    progress.keep_choice(question_id, letter, bool(option and option.right))


def _positive(number: Any) -> float:
    value = float(number)
    if not 0 < value < math.inf:
        raise ValueError(f"a prediction is above zero, got {number}")
    return value


def _refuse_another_database(file: Path, copy: Path) -> None:
    """Raise ValueError for a database of another program: `progress` would add its tables."""
    with closing(sqlite3.connect(copy)) as connection:
        rows = connection.execute("SELECT lower(name) FROM sqlite_master WHERE type = 'table'")
        if not {"questions", "answers", "choices"} & {name for (name,) in rows}:
            raise ValueError(
                f"{file} is the database of another program: `progress.path()` names the right one"
            )


class Student(NamedTuple):
    """What one file of progress holds."""

    lessons: pd.DataFrame
    questions: tuple[progress.Question, ...]
    choices: dict[str, str]

    @property
    def work(self) -> Hashable:
        """What no two students have in common: the moments at which they predicted; () without."""
        return tuple(each for each in self.questions if each.predicted_at is not None)


def read(file: Path) -> Student:
    """Return what a file holds. Raises OSError or ValueError, which name the file, if it cannot."""
    with _read_from(file):
        return Student(progress.by_lesson(), progress.questions(), progress.choices())


def merged(
    files: Sequence[Path],
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Return the lessons, predictions, curves and quizzes of all students, and the problems.

    A problem names a file that holds no progress, is damaged, or holds the work of another file:
    nothing of it is in the tables. So does a file whose record of its quizzes contradicts it.
    """
    lessons, predictions, points, choices, problems = [], [], [], [], []
    intervals: list[tuple[Any, ...]] = []
    files_by_work: dict[Hashable, Path] = {}
    for name, file in zip(students(files), files, strict=True):
        try:
            votes = handed_in(file) if is_class(file) else None
            of_this = read(file) if votes is None else None
        except (OSError, ValueError, ClassFileError) as problem:
            problems.append(f"left out: {problem}")
            continue
        if of_this is None:
            predictions += [
                (vote.student, vote.question_id, vote.round, vote.value, vote.measured, vote.unit)
                for vote in votes or ()
                if vote.choice is None
            ]
            choices += [
                (vote.student, vote.question_id, vote.choice) for vote in votes or () if vote.choice
            ]
            continue
        if of_this.work and (twin := files_by_work.setdefault(of_this.work, file)) is not file:
            problems.append(f"left out: {file} holds the same predictions, made at once, as {twin}")
            continue
        judged, wrong = _judged_again(of_this)
        problems += [f"{file}: {each}" for each in wrong]
        lessons += [{"student": name, **row} for row in judged.reset_index().to_dict("records")]
        predictions += [
            (name, each.question_id, each.attempt, each.value, each.measured, each.unit)
            for each in of_this.questions
        ]
        points += [
            (name, each.question_id, each.attempt, *point)
            for each in of_this.questions
            for point in each.points
        ]
        choices += [(name, *each) for each in of_this.choices.items()]
        intervals += [
            (name, each.question_id, each.attempt, *each.interval, each.measured, each.held)
            for each in of_this.questions
            if each.interval is not None
        ]
    table = pd.DataFrame(choices, columns=["student", "question", "choice"])
    table["right"] = [_is_right(*each) for each in zip(table.question, table.choice, strict=True)]
    columns = ["student", "question", "attempt", "predicted", "measured", "unit"]
    of_curve = ["student", "question", "attempt", "x", "predicted", "measured"]
    return {
        "lessons": pd.DataFrame(lessons),
        "predictions": pd.DataFrame(predictions, columns=columns),
        "curves": pd.DataFrame(points, columns=of_curve),
        "quizzes": table,
        "intervals": (sure := pd.DataFrame(intervals, columns=OF_AN_INTERVAL)),
        "coverage": coverage(sure),
    }, problems


OF_AN_INTERVAL: Final = ["student", "question", "attempt", "low", "high", "measured", "held"]


def coverage(intervals: pd.DataFrame) -> pd.DataFrame:
    """Return for each student how many first intervals held, of how many, and how wide they were.

    `share` is what 90 % stands for; `width` is the upper end over the lower one, as a mean.
    """
    done = intervals[(intervals["attempt"] == 1) & intervals["held"].notna()]
    rows = [
        {
            "student": student,
            "held": int(of_one["held"].sum()),
            "intervals": len(of_one),
            "share": round(float(of_one["held"].astype(float).mean()), 3),
            "width": round(float(np.exp(np.log(of_one["high"] / of_one["low"]).mean())), 3),
        }
        for student, of_one in done.groupby("student", sort=False)
    ]
    return pd.DataFrame(rows, columns=["student", "held", "intervals", "share", "width"])


def _judged_again(of_this: Student) -> tuple[pd.DataFrame, list[str]]:
    """Return the lessons with the quizzes judged by their choices, and what the file says else."""
    lessons, wrong = of_this.lessons.copy(), []
    for lesson in lessons.index:
        right_ones = [
            _is_right(*each)
            for each in of_this.choices.items()
            if progress.lesson_of(each[0]) == lesson
        ]
        if not right_ones:
            continue
        right = f"{sum(map(bool, right_ones))} of {len(right_ones)}"
        if right != (recorded := lessons.loc[lesson, QUIZ]):
            wrong.append(
                f"the quiz of lesson {lesson} says {recorded} right; by its choices: {right}"
            )
        lessons.loc[lesson, QUIZ] = right
    return lessons, wrong


def _is_right(question_id: str, choice: str) -> bool | None:
    """Whether the choice is right; None for a question that the course no longer has."""
    try:
        option = questions.registered_quiz(question_id).lettered.get(choice)
    except LookupError:
        return None
    return option.right if option else None


def main(arguments: Sequence[str]) -> int:
    """Write the tables; the exit status is 1 if a file was left out or contradicts itself."""
    parser = argparse.ArgumentParser(prog="course.py class collect", description="Merge a class.")
    parser.add_argument("--out", type=Path, default=OUT, help="where to (default: build/class)")
    parser.add_argument("files", nargs="+", type=Path, help="files of progress, folders, patterns")
    options = parser.parse_args(arguments)
    tables, problems = merged(files_in(options.files))
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
        print(f"course.py class collect: {each}", file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
