"""What is remembered between sittings: predictions, exercises, and the help taken."""

import difflib
import re
import sqlite3
import time
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from kvstore.course import rendering
from kvstore.course.keeping import ProgressError, path, writing

__all__ = ["ProgressError", "Question", "overview", "path", "questions", "reset"]


@dataclass(frozen=True)
class Question:
    """One attempt at one question; times are seconds since 1970, None while not yet."""

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
        """Whether the run has begun or been shown: no prediction can be made any more."""
        return self.closed_at is not None


Kept = Literal["kept", "unchanged", "refused"]


def ask(question_id: str, unit: str | None = None) -> Question:
    """The latest attempt at the question, made now when there was none.

    `unit` is kept where no prediction has brought one: the result is shown in it.
    """
    with writing() as connection:
        question = _asked(connection, question_id)
        if unit is None or question.unit is not None:
            return question
        connection.execute(
            "UPDATE questions SET unit = ? WHERE question_id = ? AND attempt = ?",
            (unit, question_id, question.attempt),
        )
        return _asked(connection, question_id)


def keep_prediction(question_id: str, value: float, unit: str) -> tuple[Kept, Question]:
    """Keep the value, unless the question is closed: then only the same value is accepted."""
    with writing() as connection:
        question = _asked(connection, question_id)
        if question.closed:
            return ("unchanged" if question.value == value else "refused"), question
        if question.value == value and question.unit == unit:
            return "unchanged", question  # made when it was first made
        connection.execute(
            "UPDATE questions SET value = ?, unit = ?, predicted_at = ? "
            "WHERE question_id = ? AND attempt = ?",
            (value, unit, time.time(), question_id, question.attempt),
        )
        return "kept", _asked(connection, question_id)


def close(question_id: str) -> Question:
    """From now on no prediction is taken for this attempt."""
    with writing() as connection:
        question = _asked(connection, question_id)
        if not question.closed:
            connection.execute(
                "UPDATE questions SET closed_at = ? WHERE question_id = ? AND attempt = ?",
                (time.time(), question_id, question.attempt),
            )
        return _asked(connection, question_id)


def reveal(
    question_id: str, measured: float, log_error: float | None, *, began_at: float | None = None
) -> Question:
    """Close the question and keep its result; of several results the first one counts.

    `began_at` is when the run began: a prediction that was first made after it is dropped.
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
        return _asked(connection, question_id)


def start_again(question_id: str) -> Question:
    """Open a fresh attempt; what was predicted and measured before is kept beside it.

    LookupError for a question that was never asked.
    """
    with writing() as connection:
        rows = connection.execute("SELECT DISTINCT question_id FROM questions ORDER BY 1")
        known = [row[0] for row in rows]
        if question_id not in known:
            near = " or ".join(difflib.get_close_matches(str(question_id), known, n=2, cutoff=0.3))
            raise LookupError(
                f"no question {question_id!r} was asked so far: "
                + (f"did you mean {near}?" if near else "run its `predict` cell first")
            )
        question = _asked(connection, question_id)
        if not question.closed:
            return question
        connection.execute(
            "INSERT INTO questions (question_id, attempt) VALUES (?, ?)",
            (question_id, question.attempt + 1),
        )
        return _asked(connection, question_id)


def record_answer(exercise_id: str, outcome: str, message: str) -> None:
    """Keep one checked answer to an exercise."""
    with writing() as connection:
        connection.execute(
            "INSERT INTO answers (exercise_id, outcome, message, at) VALUES (?, ?, ?, ?)",
            (exercise_id, outcome, message, time.time()),
        )


def answers(lesson: str) -> list[tuple[str, str, str]]:
    """Every checked answer of a lesson, in order: which exercise, the outcome, the message."""
    with writing() as connection:
        rows = connection.execute("SELECT exercise_id, outcome, message FROM answers ORDER BY at")
        return [(row[0], row[1], row[2]) for row in rows if lesson_of(row[0]) == lesson]


def take_hint(exercise_id: str, available: int) -> int:
    """The number of the next hint, counted from 1; the last one again when all were taken."""
    with writing() as connection:
        taken: int = connection.execute(
            "SELECT count(*) FROM help WHERE exercise_id = ? AND step != 'solution'",
            (exercise_id,),
        ).fetchone()[0]
        step = min(taken + 1, available)
        _note_help(connection, exercise_id, str(step))
        return step


def note_solution_seen(exercise_id: str) -> None:
    """Keep that the solution was opened."""
    with writing() as connection:
        _note_help(connection, exercise_id, "solution")


def questions() -> tuple[Question, ...]:
    """Every attempt at every question so far, in the order of lessons."""
    with writing() as connection:
        rows = connection.execute("SELECT * FROM questions ORDER BY question_id, attempt")
        return tuple(Question(**dict(row)) for row in rows)


def overview() -> pd.DataFrame:
    """One row for each lesson that was begun: predictions, how far off, exercises, help.

    `typically off by` is the middle error of the scored predictions, as a factor.
    """
    with writing() as connection:
        asked = pd.read_sql_query("SELECT * FROM questions", connection)
        answers = pd.read_sql_query("SELECT * FROM answers", connection)
        taken = pd.read_sql_query("SELECT * FROM help", connection)
    identifiers = [*asked["question_id"], *answers["exercise_id"], *taken["exercise_id"]]
    rows = [
        _lesson_row(lesson, asked, answers, taken)
        for lesson in sorted({lesson_of(identifier) for identifier in identifiers})
    ]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).set_index("lesson")


def reset(lesson: str | None = None, *, confirm: bool = False) -> None:
    """Forget one lesson, or everything; does nothing but say so until `confirm=True`."""
    what = "everything" if lesson is None else f"lesson {lesson}"
    if not confirm:
        text = f"Nothing was forgotten yet. To forget {what}, add `confirm=True`."
        rendering.show({"text/plain": text, "text/html": rendering.inline(text)})
        return
    with writing() as connection:
        for table, column in (
            ("questions", "question_id"),
            ("answers", "exercise_id"),
            ("help", "exercise_id"),
        ):
            rows = connection.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()
            gone = [(row[0],) for row in rows if lesson in (None, lesson_of(row[0]))]
            connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", gone)
    text = f"Forgotten: {what}."
    rendering.show({"text/plain": text, "text/html": rendering.inline(text)})


def lesson_of(identifier: str) -> str:
    """The lesson an identifier belongs to: the digits it starts with, or `other`."""
    digits = re.match(r"\d+", identifier)
    return digits.group() if digits else "other"


_COLUMNS = (
    "lesson",
    "predictions made",
    "typically off by",
    "exercises passed",
    "hints taken",
    "solutions seen",
)


def _lesson_row(
    lesson: str, asked: pd.DataFrame, answers: pd.DataFrame, taken: pd.DataFrame
) -> tuple[str, str, str, str, int, int]:
    def mine(frame: pd.DataFrame, column: str) -> pd.DataFrame:
        return frame[frame[column].map(lesson_of).eq(lesson).astype(bool)]

    asked, answers = mine(asked, "question_id"), mine(answers, "exercise_id")
    taken = mine(taken, "exercise_id")
    predicted = asked[asked["value"].notna()]["question_id"].nunique()
    errors = asked["log_error"].dropna().astype(float)
    passed = answers[answers["outcome"] == "passed"]["exercise_id"].nunique()
    solutions = int((taken["step"] == "solution").sum())
    return (
        lesson,
        f"{predicted} of {asked['question_id'].nunique()}",
        f"{rendering.TIMES} {10 ** errors.median():.2f}" if len(errors) else rendering.NONE,
        f"{passed} of {answers['exercise_id'].nunique()}",
        len(taken) - solutions,
        solutions,
    )


def _asked(connection: sqlite3.Connection, question_id: str) -> Question:
    if not isinstance(question_id, str):
        raise TypeError(
            f"a question is named first, in quotes, and then comes your number, as in"
            f' `predict("03.global_lock", 25)`; got {question_id!r} for its name'
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


def _note_help(connection: sqlite3.Connection, exercise_id: str, step: str) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO help (exercise_id, step, at) VALUES (?, ?, ?)",
        (exercise_id, step, time.time()),
    )
