"""Where progress is kept, and how it is opened: one SQLite file.

It lies in the checkout, under `.progress/`, and not in the home folder. What a learner
has seen belongs to the copy of the course that showed it: a fresh clone is a fresh start
with no answers revealed, two copies do not disturb each other, and whoever deletes the
folder has forgotten everything. It survives `git pull`, because git ignores it; to take
it to another clone, copy the folder. COURSE_PROGRESS names another file.
"""

import os
import sqlite3
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

VARIABLE: Final = "COURSE_PROGRESS"
PATIENCE_S: Final = 10.0
"""How long one kernel waits while another one writes."""

_ROOT: Final = Path(__file__).resolve().parents[2]
_FILE: Final = "progress.sqlite3"

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS questions (
    question_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    value REAL,            -- what the learner predicted; NULL while there is none
    unit TEXT,
    predicted_at REAL,     -- seconds since 1970, like every time here
    closed_at REAL,        -- when the run began, or its result was shown
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
"""


class ProgressError(RuntimeError):
    """Progress can be neither read nor written; the message names the file and the way out."""


def path() -> Path:
    """The file in force: COURSE_PROGRESS, else in the checkout, else in the user's data folder."""
    named = os.environ.get(VARIABLE, "").strip()
    if named:
        chosen = Path(named).expanduser()
        return chosen / _FILE if chosen.is_dir() else chosen
    if (_ROOT / "notebooks").is_dir() and os.access(_ROOT, os.W_OK):
        return _ROOT / ".progress" / _FILE
    return _user_data_folder() / "rpc-throughput-course" / _FILE


@contextmanager
def writing() -> Iterator[sqlite3.Connection]:
    """One transaction: all of it is kept or nothing, and no other kernel writes meanwhile.

    ProgressError when the file cannot be used. A file that is not a database is moved
    aside with a warning, so that a damaged file never keeps a learner from the course.
    """
    file = path()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        connection = _opened(file)
    except (OSError, sqlite3.Error) as error:
        raise _unusable(file, error) from error
    with closing(connection):
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise _unusable(file, error) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def _opened(file: Path) -> sqlite3.Connection:
    try:
        return _connected(file)
    except sqlite3.OperationalError:
        raise  # locked, read-only or no such folder: the file itself is not damaged
    except sqlite3.DatabaseError as error:
        aside = file.with_name(f"{file.name}.unreadable-{time.time_ns()}")
        file.rename(aside)
        warnings.warn(
            f"progress could not be read ({error}): it was moved to {aside} "
            "and starts again from nothing",
            stacklevel=2,
        )
        return _connected(file)


def _connected(file: Path) -> sqlite3.Connection:
    # Autocommit: transactions are begun by hand, and `closing` never leaves one half done.
    # The default rollback journal is kept: WAL needs shared memory, which network homes lack.
    connection = sqlite3.connect(file, timeout=PATIENCE_S, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        connection.executescript(_TABLES)
    except BaseException:
        connection.close()
        raise
    return connection


def _unusable(file: Path, error: Exception) -> ProgressError:
    return ProgressError(
        f"progress cannot be kept in {file} ({error}): "
        f"set {VARIABLE} to a file you may write, and restart the kernel"
    )


def _user_data_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home()))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
