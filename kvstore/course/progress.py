"""The learner's progress in one SQLite file: predictions, exercises, and the help taken.

The file is in the user's data folder, in a subfolder of its own for each copy of the course.
So a fresh clone starts without revealed answers, and two copies do not disturb each other. The
environment variable COURSE_PROGRESS names another file. Delete the file to forget everything.
"""

import difflib
import hashlib
import os
import re
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import pandas as pd
import platformdirs

from kvstore.course import rendering

if TYPE_CHECKING:
    import sqlite3  # at run time where a file is opened: a figure does not need it

__all__ = ["ProgressError", "Question", "by_lesson", "overview", "path", "questions"]

VARIABLE: Final = "COURSE_PROGRESS"
PATIENCE_S: Final = 10.0
"""The longest wait of one kernel while another one writes."""

_ROOT: Final = Path(__file__).resolve().parents[2]
_FILE: Final = "progress.sqlite3"

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS questions (
    question_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    value REAL,            -- the learner's prediction; NULL without one
    unit TEXT,
    predicted_at REAL,     -- seconds since 1970, as all times here
    closed_at REAL,        -- the start of the run, or the time its result was shown
    measured REAL,         -- the first result that was compared
    log_error REAL,        -- |log10(value / measured)|
    PRIMARY KEY (question_id, attempt)
);
CREATE TABLE IF NOT EXISTS answers (
    exercise_id TEXT NOT NULL,
    outcome TEXT NOT NULL,
    message TEXT NOT NULL,
    at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS help (
    exercise_id TEXT NOT NULL,
    step TEXT NOT NULL,    -- '1', '2', ... for hints, or 'solution'
    at REAL NOT NULL,
    PRIMARY KEY (exercise_id, step)
);
CREATE TABLE IF NOT EXISTS choices (
    question_id TEXT PRIMARY KEY,
    choice TEXT NOT NULL,  -- the letter of the option that was chosen first
    is_right INTEGER NOT NULL,
    at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS seal (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    checksum TEXT NOT NULL -- of all rows of the other tables
);
"""

_SEALED: Final = ("questions", "answers", "help", "choices")
VERSION: Final = 1
"""The version of the file, its `user_version`; 0 for files of before, which have no checksum."""


class ProgressError(RuntimeError):
    """Progress can be neither read nor written; the message names the file and a remedy."""


def path() -> Path:
    """Return the file in use: the one of COURSE_PROGRESS, else one in the user's data folder."""
    named = os.environ.get(VARIABLE, "").strip()
    if named:
        chosen = Path(named).expanduser()
        return chosen / _FILE if chosen.is_dir() else chosen
    copy = f"{_ROOT.name}-{hashlib.sha256(str(_ROOT).encode()).hexdigest()[:8]}"
    return platformdirs.user_data_path("rpc-throughput-course", appauthor=False) / copy / _FILE


def _move_from_checkout(file: Path) -> None:
    """Move the progress of earlier versions, which was in the checkout, to `file`."""
    old = _ROOT / ".progress" / _FILE
    if not os.environ.get(VARIABLE, "").strip() and old.is_file() and not file.exists():
        shutil.move(old, file)


@contextmanager
def writing() -> "Iterator[sqlite3.Connection]":
    """Open one transaction: all of it is kept or nothing, and no other kernel writes meanwhile.

    Raise ProgressError if the file cannot be used, or is of a newer version. A file that is not a
    database, or was changed from outside, is moved aside with a warning, so that a damaged file
    neither stops a learner nor shows another figure.
    """
    import sqlite3

    file = path()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        _move_from_checkout(file)
        connection = _opened(file)
    except (OSError, sqlite3.Error) as error:
        raise _unusable(file, error) from error
    with closing(connection):
        try:
            before = connection.total_changes
            yield connection
            if connection.total_changes != before:
                _seal(connection)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise _unusable(file, error) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def _opened(file: Path) -> "sqlite3.Connection":
    import sqlite3

    try:
        return _begun(file)
    except sqlite3.OperationalError:
        raise  # locked, read-only or no such folder: the file is not damaged
    except sqlite3.DatabaseError as error:
        aside = file.with_name(f"{file.name}.unreadable-{time.time_ns()}")
        file.rename(aside)
        warnings.warn(
            f"progress could not be read ({error}): the file was moved to {aside}, "
            "and a new one was begun",
            stacklevel=2,
        )
        return _begun(file)


def _begun(file: Path) -> "sqlite3.Connection":
    """Return a connection in a transaction. Raise sqlite3.DatabaseError for a damaged file."""
    import sqlite3

    # Autocommit: `writing` begins and ends its transactions itself.
    # The default rollback journal is kept: WAL needs shared memory, which network homes lack.
    connection = sqlite3.connect(file, timeout=PATIENCE_S, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        if _version(connection) == 0:  # before the checksum: a damaged file stays as it is
            connection.executescript(_TABLES)
        connection.execute("BEGIN IMMEDIATE")
        version = _version(connection)
        if version > VERSION:
            raise ProgressError(
                f"progress in {file} was written by a newer version of the course (file version"
                f" {version}, this one reads {VERSION}): update the course, or set {VARIABLE} to"
                " another file"
            )
        faults = connection.execute("PRAGMA integrity_check").fetchone()[0]
        if faults != "ok":
            raise sqlite3.DatabaseError(faults)
        stated = connection.execute("SELECT checksum FROM seal").fetchone()
        if (version > 0 or stated) and (stated or [""])[0] != _checksum(connection):
            raise sqlite3.DatabaseError("it was changed or damaged after it was written")
    except sqlite3.OperationalError as error:
        connection.close()
        if "no such" in str(error):  # a table or a column of our own
            raise sqlite3.DatabaseError(str(error)) from error
        raise
    except BaseException:
        connection.close()
        raise
    return connection


def _version(connection: "sqlite3.Connection") -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _checksum(connection: "sqlite3.Connection") -> str:
    """Return the checksum of all rows; they are few."""
    found = hashlib.sha256()
    connection.text_factory = bytes  # a damaged text may not be UTF-8
    try:
        for table in _SEALED:
            rows = connection.execute(f"SELECT * FROM {table} ORDER BY rowid")
            names = [each[0] for each in rows.description]
            found.update(repr([names, *(tuple(row) for row in rows)]).encode())
    finally:
        connection.text_factory = str
    return found.hexdigest()


def _seal(connection: "sqlite3.Connection") -> None:
    connection.execute("INSERT OR REPLACE INTO seal VALUES (1, ?)", (_checksum(connection),))
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _unusable(file: Path, error: Exception) -> ProgressError:
    return ProgressError(
        f"progress cannot be stored in {file} ({error}): "
        f"set {VARIABLE} to a file that you can write, and restart the kernel"
    )


@dataclass(frozen=True)
class Question:
    """One attempt at one question; times are seconds since 1970, or None."""

    question_id: str
    attempt: int = 1
    value: float | None = None
    unit: str | None = None
    predicted_at: float | None = None
    closed_at: float | None = None
    measured: float | None = None
    log_error: float | None = None

    @property
    def closed(self) -> bool:
        """Return whether the run began or its result was shown: predictions are refused then."""
        return self.closed_at is not None


Kept = Literal["kept", "unchanged", "refused"]


def ask(question_id: str, unit: str | None = None) -> Question:
    """Return the latest attempt at the question, or a new one.

    `unit` is stored unless a prediction set one: the result is shown in it.
    """
    with writing() as connection:
        question = _latest(connection, question_id)
        if unit is None or question.unit is not None:
            return question
        connection.execute(
            "UPDATE questions SET unit = ? WHERE question_id = ? AND attempt = ?",
            (unit, question_id, question.attempt),
        )
        return _latest(connection, question_id)


def keep_prediction(question_id: str, value: float, unit: str) -> tuple[Kept, Question]:
    """Store the value, unless the question is closed: then only the same value is accepted."""
    with writing() as connection:
        question = _latest(connection, question_id)
        if question.closed:
            return ("unchanged" if question.value == value else "refused"), question
        if question.value == value and question.unit == unit:
            return "unchanged", question  # the time of the first prediction stays
        connection.execute(
            "UPDATE questions SET value = ?, unit = ?, predicted_at = ? "
            "WHERE question_id = ? AND attempt = ?",
            (value, unit, time.time(), question_id, question.attempt),
        )
        return "kept", _latest(connection, question_id)


def close(question_id: str) -> Question:
    """Refuse predictions for this attempt from now on."""
    with writing() as connection:
        question = _latest(connection, question_id)
        if not question.closed:
            connection.execute(
                "UPDATE questions SET closed_at = ? WHERE question_id = ? AND attempt = ?",
                (time.time(), question_id, question.attempt),
            )
        return _latest(connection, question_id)


def reveal(
    question_id: str, measured: float, log_error: float | None, *, began_at: float | None = None
) -> Question:
    """Close the question and store its result; of several results the first one counts.

    `began_at` is the start of the run: a prediction that was first made after it is dropped.
    """
    question = close(question_id)
    with writing() as connection:
        made_late = (
            began_at is not None
            and question.measured is None
            and question.predicted_at is not None
            and question.predicted_at > began_at
        )
        connection.execute(
            "UPDATE questions SET measured = coalesce(measured, ?), "
            "log_error = CASE WHEN measured IS NULL THEN ? ELSE log_error END, "
            "value = CASE WHEN ? THEN NULL ELSE value END "
            "WHERE question_id = ? AND attempt = ?",
            (
                measured,
                None if made_late else log_error,
                made_late,
                question_id,
                question.attempt,
            ),
        )
        return _latest(connection, question_id)


def start_again(question_id: str) -> Question:
    """Begin a new attempt and keep the earlier ones.

    Raise LookupError for an unknown question.
    """
    with writing() as connection:
        rows = connection.execute("SELECT DISTINCT question_id FROM questions ORDER BY 1")
        known = [row[0] for row in rows]
        if question_id not in known:
            near = " or ".join(difflib.get_close_matches(str(question_id), known, n=2, cutoff=0.3))
            raise LookupError(
                f"there is no question {question_id!r} so far: "
                + (f"did you mean {near}?" if near else "run its `predict` cell first")
            )
        question = _latest(connection, question_id)
        if not question.closed:
            return question
        connection.execute(
            "INSERT INTO questions (question_id, attempt) VALUES (?, ?)",
            (question_id, question.attempt + 1),
        )
        return _latest(connection, question_id)


def record_answer(exercise_id: str, outcome: str, message: str) -> None:
    """Store one checked answer to an exercise."""
    with writing() as connection:
        connection.execute(
            "INSERT INTO answers (exercise_id, outcome, message, at) VALUES (?, ?, ?, ?)",
            (exercise_id, outcome, message, time.time()),
        )


def answers(lesson: str) -> list[tuple[str, str, str]]:
    """Return every checked answer of a lesson in order: exercise, outcome, message."""
    with writing() as connection:
        rows = connection.execute("SELECT exercise_id, outcome, message FROM answers ORDER BY at")
        return [(row[0], row[1], row[2]) for row in rows if lesson_of(row[0]) == lesson]


def take_hint(exercise_id: str, available: int) -> int:
    """Return the number of the next hint, from 1; the last one again if all were taken."""
    with writing() as connection:
        taken: int = connection.execute(
            "SELECT count(*) FROM help WHERE exercise_id = ? AND step != 'solution'",
            (exercise_id,),
        ).fetchone()[0]
        step = min(taken + 1, available)
        _note_help(connection, exercise_id, str(step))
        return step


def note_solution_seen(exercise_id: str) -> None:
    """Store that the solution was opened."""
    with writing() as connection:
        _note_help(connection, exercise_id, "solution")


def keep_choice(question_id: str, choice: str, is_right: bool) -> str:
    """Keep the first choice at a quiz question; return the choice that counts."""
    with writing() as connection:
        connection.execute(
            "INSERT OR IGNORE INTO choices VALUES (?, ?, ?, ?)",
            (question_id, choice, is_right, time.time()),
        )
    return choices()[question_id]


def choices() -> dict[str, str]:
    """Return the first choice at each quiz question that was answered, by the question's id."""
    with writing() as connection:
        return dict(connection.execute("SELECT question_id, choice FROM choices").fetchall())


def questions() -> tuple[Question, ...]:
    """Return every attempt at every question so far, in the order of lessons."""
    with writing() as connection:
        rows = connection.execute("SELECT * FROM questions ORDER BY question_id, attempt")
        return tuple(Question(**dict(row)) for row in rows)


def overview() -> pd.DataFrame:
    """Draw every scored prediction beside its result, and return `by_lesson()`."""
    from kvstore.course import lessons  # late: figures take memory and import this module

    made = questions()
    if any(each.log_error is not None and each.value is not None for each in made):
        lessons.plot_calibration(made)
    return by_lesson()


def by_lesson() -> pd.DataFrame:
    """Return one row for each lesson that was begun: predictions, their error, exercises, quiz.

    `typical error` is the median error of the scored predictions, as a factor.
    """
    with writing() as connection:
        questions = pd.read_sql_query("SELECT * FROM questions", connection)
        answers = pd.read_sql_query("SELECT * FROM answers", connection)
        help_taken = pd.read_sql_query("SELECT * FROM help", connection)
        chosen = pd.read_sql_query("SELECT * FROM choices", connection)
    identifiers = [
        *questions["question_id"],
        *answers["exercise_id"],
        *help_taken["exercise_id"],
        *chosen["question_id"],
    ]
    rows = [
        _lesson_row(lesson, questions, answers, help_taken, chosen)
        for lesson in sorted({lesson_of(identifier) for identifier in identifiers})
    ]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).set_index("lesson")


def lesson_of(identifier: str) -> str:
    """Return the lesson of an identifier: the digits it starts with, or `other`."""
    digits = re.match(r"\d+", identifier)
    return digits.group() if digits else "other"


_COLUMNS = (
    "lesson",
    "predictions made",
    "typical error",
    "exercises passed",
    "quiz right at first",
    "hints taken",
    "solutions seen",
)


def _lesson_row(
    lesson: str,
    questions: pd.DataFrame,
    answers: pd.DataFrame,
    help_taken: pd.DataFrame,
    chosen: pd.DataFrame,
) -> tuple[str, str, str, str, str, int, int]:
    def of_lesson(frame: pd.DataFrame, column: str) -> pd.DataFrame:
        return frame[frame[column].map(lesson_of).eq(lesson).astype(bool)]

    questions, answers = of_lesson(questions, "question_id"), of_lesson(answers, "exercise_id")
    help_taken = of_lesson(help_taken, "exercise_id")
    chosen = of_lesson(chosen, "question_id")
    predicted = questions[questions["value"].notna()]["question_id"].nunique()
    errors = questions["log_error"].dropna().astype(float)
    passed = answers[answers["outcome"] == "passed"]["exercise_id"].nunique()
    solutions = int((help_taken["step"] == "solution").sum())
    return (
        lesson,
        f"{predicted} of {questions['question_id'].nunique()}",
        f"{rendering.TIMES} {10 ** errors.median():.2f}" if len(errors) else rendering.NONE,
        f"{passed} of {answers['exercise_id'].nunique()}",
        f"{int(chosen['is_right'].sum())} of {len(chosen)}" if len(chosen) else rendering.NONE,
        len(help_taken) - solutions,
        solutions,
    )


def _latest(connection: "sqlite3.Connection", question_id: str) -> Question:
    if not isinstance(question_id, str):
        raise TypeError(
            f"the first argument must be the name of the question in quotes, as in"
            f' `predict("03.global_lock", 25)`, got {question_id!r}'
        )
    connection.execute(
        "INSERT OR IGNORE INTO questions (question_id, attempt) SELECT ?, 1 "
        "WHERE NOT EXISTS (SELECT 1 FROM questions WHERE question_id = ?)",
        (question_id, question_id),
    )
    row = connection.execute(
        "SELECT * FROM questions WHERE question_id = ? ORDER BY attempt DESC LIMIT 1",
        (question_id,),
    ).fetchone()
    return Question(**dict(row))


def _note_help(connection: "sqlite3.Connection", exercise_id: str, step: str) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO help (exercise_id, step, at) VALUES (?, ?, ?)",
        (exercise_id, step, time.time()),
    )
