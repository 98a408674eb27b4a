"""The learner's progress in one SQLite file: predictions, exercises, and the help taken.

The file is in the user's data folder, in a subfolder of its own for each copy of the course.
So a fresh clone starts without revealed answers, and two copies do not disturb each other. The
environment variable COURSE_PROGRESS names another file. Delete the file to forget everything.
"""

import hashlib
import math
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import platformdirs

from kvstore import numbers
from kvstore.course import rendering

if TYPE_CHECKING:
    import sqlite3  # at run time where a file is opened: a figure does not need it

    import pandas as pd

__all__ = ["ProgressError", "Question", "by_lesson", "path", "questions"]

VARIABLE: Final = "COURSE_PROGRESS"
PATIENCE_S: Final = 10.0
"""The longest wait of one kernel while another one writes."""
SILENT_S: Final = 1.0
"""After so long a wait, a line says what is waited for."""

_ROOT: Final = Path(__file__).resolve().parents[2]
_FILE: Final = "progress.sqlite3"

_TABLES: Final = {
    "questions": """
        question_id TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        value REAL,            -- the learner's prediction; NULL without one
        unit TEXT,
        predicted_at REAL,     -- seconds since 1970, as all times here
        closed_at REAL,        -- the start of the run, or the time its result was shown
        measured REAL,         -- the first result that was compared
        log_error REAL,        -- |log10(value / measured)|
        PRIMARY KEY (question_id, attempt)""",
    "intervals": """
        question_id TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        low REAL NOT NULL,     -- the learner is 90 % sure that the result is from here ...
        high REAL NOT NULL,    -- ... to here, in the unit of the question
        PRIMARY KEY (question_id, attempt)""",
    "answers": """
        exercise_id TEXT NOT NULL,
        outcome TEXT NOT NULL,
        message TEXT NOT NULL,
        at REAL NOT NULL""",
    "help": """
        exercise_id TEXT NOT NULL,
        step TEXT NOT NULL,    -- '1', '2', ... for hints, or 'solution'
        at REAL NOT NULL,
        PRIMARY KEY (exercise_id, step)""",
    "choices": """
        question_id TEXT PRIMARY KEY,
        choice TEXT NOT NULL,  -- the letter of the option that was chosen first
        is_right INTEGER NOT NULL,
        at REAL NOT NULL""",
    "curves": """
        question_id TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        x REAL NOT NULL,
        drawn REAL,            -- what the learner predicts at x; NULL where only measured
        measured REAL,
        PRIMARY KEY (question_id, attempt, x)""",
}


class ProgressError(RuntimeError):
    """Progress can be neither read nor written; the message names the file and a remedy."""


class _Damaged(Exception):
    """The file is no database, or holds what cannot be read."""


_checked: dict[Path, tuple[int, ...]] = {}
"""What this process left of each file that it checked; it is checked again when that changed."""
_typed = False
"""Whether a person uses this kernel: see `note_typed`. One that nobody types to, such as that of
nbmake, papermill, nbconvert or Run All in an untouched lesson, closes and settles nothing."""


def path() -> Path:
    """Return the file in use: the one of COURSE_PROGRESS, else one in the user's data folder."""
    named = os.environ.get(VARIABLE, "").strip()
    if named:
        chosen = Path(named).expanduser()
        return chosen / _FILE if chosen.is_dir() else chosen
    copy = f"{_ROOT.name}-{hashlib.sha256(str(_ROOT).encode()).hexdigest()[:8]}"
    return platformdirs.user_data_path("rpc-throughput-course", appauthor=False) / copy / _FILE


@contextmanager
def writing() -> "Iterator[sqlite3.Connection]":
    """Open one transaction: all of it is kept or nothing, and no other kernel writes meanwhile.

    A damaged file is moved aside with one line on the page, so that it does not stop a learner. A
    file is checked at its first use, and after another program has changed it.
    Raise ProgressError if the file cannot be used.
    """
    import sqlite3

    file = path()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            connection = _begun(file)
        except _Damaged:
            connection = _begun_anew(file)
    except (OSError, sqlite3.Error, _Damaged) as error:
        raise _unusable(file, error) from error
    with closing(connection):
        try:
            yield connection
            connection.execute("COMMIT")
            _checked[file] = _state(file)
        except (OSError, sqlite3.Error, UnicodeDecodeError) as error:
            _checked.pop(file, None)  # damage since the check: the next use finds it
            raise _unusable(file, error) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def _state(file: Path) -> tuple[int, ...]:
    """What tells that another program wrote to the file, or put another one there."""
    status = file.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _begun(file: Path) -> "sqlite3.Connection":
    """Return a connection in a transaction. Raise _Damaged for a damaged file."""
    import sqlite3

    # Autocommit: `writing` begins and ends its transactions itself.
    # The default rollback journal is kept: WAL needs shared memory, which network homes lack.
    connection = sqlite3.connect(file, timeout=SILENT_S, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        connection.text_factory = bytes.decode  # UnicodeDecodeError for a damaged text
        _begin(connection, file)
        if _checked.get(file) == _state(file):
            return connection
        for name, columns in _TABLES.items():
            connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) STRICT")
        faults = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if faults != "ok":
            raise _Damaged(faults)
        for name in _TABLES:  # they are few
            connection.execute(f"SELECT * FROM {name}").fetchall()
    except BaseException as error:
        connection.close()
        damaged = isinstance(error, sqlite3.DatabaseError | UnicodeDecodeError)
        if damaged and not isinstance(error, sqlite3.OperationalError):
            raise _Damaged(str(error)) from error
        raise  # locked, read-only or no such folder: the file is not damaged
    return connection


def _begin(connection: "sqlite3.Connection", file: Path) -> None:
    """Begin a transaction; while another kernel writes, wait, and say so."""
    import sqlite3

    ends_s = time.monotonic() + PATIENCE_S
    waiting = False
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= ends_s:
                raise
        if not waiting:
            rendering.say(f"Another program writes to {file}: waiting for up to {PATIENCE_S:g} s.")
        waiting = True


def _begun_anew(file: Path) -> "sqlite3.Connection":
    """Move a damaged file aside, once for all kernels that find it, and begin a new one."""
    import sqlite3

    guard = sqlite3.connect(f"{file}.lock", timeout=PATIENCE_S, isolation_level=None)
    with closing(guard):
        guard.execute("BEGIN EXCLUSIVE")
        try:
            return _begun(file)  # another kernel has moved it meanwhile
        except _Damaged as error:
            fault = " ".join(str(error).split())
            aside = file.with_name(f"{file.name}.unreadable-{time.time_ns()}")
            file.rename(aside)
            rendering.say(
                f"Progress could not be read ({fault}). The file was moved to {aside}, "
                "and a new one was begun."
            )
            return _begun(file)


def _unusable(file: Path, error: Exception) -> ProgressError:
    if "locked" in str(error):
        return ProgressError(
            f"another program has written to {file} for {PATIENCE_S:g} s: if it is a kernel of "
            "the course, restart that one, and run this cell again"
        )
    return ProgressError(
        f"progress cannot be stored in {file} ({error}): "
        f"set {VARIABLE} to a file that you can write, and restart the kernel"
    )


class Point(NamedTuple):
    """What was predicted and measured at one place of a curve, in the unit of its question."""

    x: float
    drawn: float | None
    measured: float | None


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
    interval: tuple[float, float] | None = None
    """What the learner is 90 % sure of; `value` is its middle."""
    points: tuple[Point, ...] = ()
    """Those of a curve, in the order of x."""

    @property
    def closed(self) -> bool:
        """Return whether the run began or its result was shown: predictions are refused then."""
        return self.closed_at is not None

    @property
    def drawn(self) -> dict[float, float]:
        """The heights of the learner's line by x, empty without one."""
        return {point.x: point.drawn for point in self.points if point.drawn is not None}

    @property
    def held(self) -> bool | None:
        """Whether the result lies in the interval; None without one, or before the run."""
        if self.interval is None or self.measured is None:
            return None
        return self.interval[0] <= self.measured <= self.interval[1]


_ATTEMPT: Final = ", ".join(each.name for each in fields(Question)[:8])
"""Its columns in the table of questions: the file of a later edition may have more."""


Kept = Literal["kept", "unchanged", "refused"]


def ask(question_id: str, unit: str | None = None) -> Question:
    """Return the latest attempt at the question, or a new one.

    `unit` is stored unless a prediction set one: the result is shown in it.
    """
    with writing() as connection:
        question = _latest(connection, question_id)
        if unit is None or question.unit is not None:
            return question
        return _changed(connection, question, unit=unit)


def keep_prediction(
    question_id: str,
    value: float,
    unit: str,
    curve: Mapping[float, float] = MappingProxyType({}),
    interval: tuple[float, float] | None = None,
) -> tuple[Kept, Question]:
    """Store the value, unless the question is closed: then only the same value is accepted.

    Of a curve the value is the last one; `curve` has them all, by x. Of an `interval`, it is the
    middle.
    """
    note_typed()
    with writing() as connection:
        question = _latest(connection, question_id)
        same = (question.value, question.drawn, question.interval) == (value, {**curve}, interval)
        if question.closed:
            return ("unchanged" if same else "refused"), question
        if same and question.unit == unit:
            return "unchanged", question  # the time of the first prediction stays
        of_this = (question_id, question.attempt)
        for table in ("curves", "intervals"):
            connection.execute(
                f"DELETE FROM {table} WHERE question_id = ? AND attempt = ?", of_this
            )
        if interval is not None:
            connection.execute("INSERT INTO intervals VALUES (?, ?, ?, ?)", (*of_this, *interval))
        connection.executemany(
            "INSERT INTO curves (question_id, attempt, x, drawn) VALUES (?, ?, ?, ?)",
            [(*of_this, x, y) for x, y in curve.items()],
        )
        question = _changed(connection, question, value=value, unit=unit, predicted_at=time.time())
        return "kept", question


def note_typed() -> None:
    """Say that a person uses this kernel: from now on, runs close and settle questions."""
    global _typed
    _typed = True


@contextmanager
def _settling() -> "Iterator[sqlite3.Connection]":
    """Open a transaction that is kept only in a kernel that a person uses."""
    with writing() as connection:
        connection.execute("SAVEPOINT before")
        yield connection
        if not _typed:
            connection.execute("ROLLBACK TO before")


def close(*question_ids: str) -> tuple[Question, ...]:
    """Refuse predictions for the attempts at these questions from now on; return the attempts."""
    with _settling() as connection:
        return tuple(_closed(connection, _latest(connection, each)) for each in question_ids)


def _closed(connection: "sqlite3.Connection", question: Question) -> Question:
    if question.closed:
        return question
    return _changed(connection, question, closed_at=time.time())


class Settled(NamedTuple):
    """An attempt with its result."""

    question: Question
    late: bool
    """Whether a prediction was dropped, because it came after the run had begun."""
    every: tuple[Question, ...]
    """Every attempt at every question so far."""


def settle(
    question_id: str,
    measured: float,
    error: Callable[[Question], float | None],
    *,
    unit: str | None = None,
    began_at: float = math.inf,
    curve: Mapping[float, float] = MappingProxyType({}),
) -> Settled:
    """Close the question and store its result and its error; of several the first one counts.

    `began_at` is the start of the run: a prediction that was first made after it is dropped. A run
    that has closed the question itself came after the prediction, whatever the clock says.
    `unit` is stored unless a prediction set one, and `curve` has the measured values by x.
    """
    with _settling() as connection:
        question = _latest(connection, question_id)
        of_this = (question_id, question.attempt)
        late = False
        if question.unit is None and unit is not None:
            question = _changed(connection, question, unit=unit)
        if question.measured is None:
            late = not question.closed and (question.predicted_at or 0.0) > began_at
            changes = {"measured": measured, "log_error": error(question)}
            if late:
                changes = {"measured": measured, "value": None}
                for dropped in ("UPDATE curves SET drawn = NULL", "DELETE FROM intervals"):
                    connection.execute(f"{dropped} WHERE question_id = ? AND attempt = ?", of_this)
            question = _changed(connection, question, **changes)
        connection.executemany(
            "INSERT INTO curves (question_id, attempt, x, measured) VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET measured = coalesce(measured, excluded.measured)",
            [(*of_this, x, y) for x, y in curve.items()],
        )
        _closed(connection, question)
        return Settled(_latest(connection, question_id), late, _attempts(connection))


def start_again(question_id: str) -> Question:
    """Begin a new attempt and keep the earlier ones; an attempt that is open goes on."""
    note_typed()
    with writing() as connection:
        question = _latest(connection, question_id)
        if not question.closed:
            return question
        connection.execute(
            "INSERT INTO questions (question_id, attempt) VALUES (?, ?)",
            (question_id, question.attempt + 1),
        )
        return _latest(connection, question_id)


def _done(statement: str, *values: object) -> "list[sqlite3.Row]":
    """Run one statement in a transaction of its own; return its rows."""
    with writing() as connection:
        return connection.execute(statement, values).fetchall()


def record_answer(exercise_id: str, outcome: str, message: str) -> None:
    """Store one checked answer to an exercise."""
    if outcome != "not attempted":
        note_typed()
    _done("INSERT INTO answers VALUES (?, ?, ?, ?)", exercise_id, outcome, message, time.time())


_HELPED: Final = "INSERT OR IGNORE INTO help VALUES (?, ?, ?)"


def take_hint(exercise_id: str, available: int) -> int:
    """Return the number of the next hint, from 1; the last one again if all were taken."""
    with writing() as connection:
        taken: int = connection.execute(
            "SELECT count(*) FROM help WHERE exercise_id = ? AND step != 'solution'",
            (exercise_id,),
        ).fetchone()[0]
        step = min(taken + 1, available)
        connection.execute(_HELPED, (exercise_id, str(step), time.time()))
        return step


def note_solution_seen(exercise_id: str) -> None:
    """Store that the solution was opened."""
    _done(_HELPED, exercise_id, "solution", time.time())


def keep_choice(question_id: str, choice: str, is_right: bool) -> str:
    """Keep the first choice at a quiz question; return the choice that counts."""
    note_typed()
    first = "INSERT OR IGNORE INTO choices VALUES (?, ?, ?, ?)"
    _done(first, question_id, choice, is_right, time.time())
    return choices()[question_id]


def choices() -> dict[str, str]:
    """Return the first choice at each quiz question that was answered, by the question's id."""
    return dict(tuple(row) for row in _done("SELECT question_id, choice FROM choices"))


def questions() -> tuple[Question, ...]:
    """Return every attempt at every question so far, in the order of lessons."""
    with writing() as connection:
        return _attempts(connection)


def by_lesson() -> "pd.DataFrame":
    """Return one row for each lesson that was begun: predictions, their error, exercises, quiz.

    `typical error` is the median error of the scored predictions, as a factor.
    """
    import pandas as pd

    with writing() as connection:
        tables = [
            connection.execute(f"SELECT * FROM {name}").fetchall()
            for name in ("questions", "answers", "help", "choices")
        ]
    lessons = sorted({lesson_of(row[0]) for rows in tables for row in rows})
    lesson_rows = [
        _lesson_row(
            lesson, *([row for row in rows if lesson_of(row[0]) == lesson] for rows in tables)
        )
        for lesson in lessons
    ]
    return pd.DataFrame(lesson_rows, columns=list(_COLUMNS)).set_index("lesson")


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

Rows: TypeAlias = "list[sqlite3.Row]"


def _lesson_row(
    lesson: str, questions: Rows, answers: Rows, help_taken: Rows, chosen: Rows
) -> tuple[str, str, str, str, str, int, int]:
    predicted = {row["question_id"] for row in questions if row["value"] is not None}
    errors = [row["log_error"] for row in questions if row["log_error"] is not None]
    passed = {row["exercise_id"] for row in answers if row["outcome"] == "passed"}
    solutions = sum(row["step"] == "solution" for row in help_taken)
    return (
        lesson,
        f"{len(predicted)} of {len({row['question_id'] for row in questions})}",
        f"{rendering.TIMES} {numbers.number(10 ** statistics.median(errors))}"
        if errors
        else rendering.NONE,
        f"{len(passed)} of {len({row['exercise_id'] for row in answers})}",
        f"{sum(row['is_right'] for row in chosen)} of {len(chosen)}" if chosen else rendering.NONE,
        len(help_taken) - solutions,
        solutions,
    )


def _latest(connection: "sqlite3.Connection", question_id: str) -> Question:
    connection.execute(
        "INSERT OR IGNORE INTO questions (question_id, attempt) SELECT ?, 1 "
        "WHERE NOT EXISTS (SELECT 1 FROM questions WHERE question_id = ?)",
        (question_id, question_id),
    )
    return _attempts(connection, question_id)[-1]


def _attempts(connection: "sqlite3.Connection", question_id: str = "") -> tuple[Question, ...]:
    """Return the attempts at one question, or at all of them, in the order of lessons."""

    def rows(columns: str, table: str, order: str = "attempt") -> "list[sqlite3.Row]":
        return connection.execute(
            f"SELECT {columns} FROM {table} WHERE ? IN ('', question_id) "
            f"ORDER BY question_id, {order}",
            (question_id,),
        ).fetchall()

    sure = {(q, n): (low, high) for q, n, low, high in rows("*", "intervals")}
    points: dict[tuple[str, int], list[Point]] = {}
    for q, n, *point in rows("*", "curves", "x"):
        points.setdefault((q, n), []).append(Point(*point))
    attempts = [Question(*row) for row in rows(_ATTEMPT, "questions")]
    of = [(each.question_id, each.attempt) for each in attempts]
    return tuple(
        replace(each, interval=sure.get(key), points=tuple(points.get(key, ())))
        for key, each in zip(of, attempts, strict=True)
    )


def _changed(
    connection: "sqlite3.Connection", question: Question, **columns: float | str | None
) -> Question:
    """Store these columns of an attempt; return it as it is then."""
    names = ", ".join(f"{name} = ?" for name in columns)
    connection.execute(
        f"UPDATE questions SET {names} WHERE question_id = ? AND attempt = ?",
        (*columns.values(), question.question_id, question.attempt),
    )
    return _latest(connection, question.question_id)
