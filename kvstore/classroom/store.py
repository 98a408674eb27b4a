"""The votes of a class in one SQLite file, with all that makes it the same class after a restart.

A voter is a secret that only the voter's notebook knows; the file has its hash. A vote belongs to
a round: the first one until the teacher closes it, then the second one, after the discussion. Of
several votes of one voter in a round the last one counts, and a vote that comes again counts once.
"""

import hashlib
import math
import os
import re
import secrets
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from kvstore.classroom import codes

QUESTIONS_MOST: Final = 400
"""Questions to which one voter may answer: the course has fewer."""
OLDEST_S: Final = 7 * 86_400.0
"""A vote that says it is older is taken as of this age."""
_QUESTION: Final = re.compile(r"[a-z0-9_]{1,40}\.[a-z0-9_]{1,60}")
_CHOICE: Final = re.compile(r"[a-h]")

Phase = Literal["ready", "open", "closed", "revealed", "measured"]

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS class (name TEXT PRIMARY KEY, value ANY) STRICT;
CREATE TABLE IF NOT EXISTS voters (
    voter INTEGER PRIMARY KEY, secret BLOB NOT NULL UNIQUE, name TEXT NOT NULL,
    address TEXT NOT NULL, joined_at REAL NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS votes (
    voter INTEGER NOT NULL REFERENCES voters, question_id TEXT NOT NULL, round INTEGER NOT NULL,
    value REAL, choice TEXT, unit TEXT NOT NULL, sequence INTEGER NOT NULL,
    made_at REAL NOT NULL, kept_at REAL NOT NULL,
    PRIMARY KEY (voter, question_id, round)) STRICT;
CREATE TABLE IF NOT EXISTS rounds (
    question_id TEXT NOT NULL, round INTEGER NOT NULL, opened_at REAL NOT NULL,
    closed_at REAL, revealed_at REAL, PRIMARY KEY (question_id, round)) STRICT;
CREATE TABLE IF NOT EXISTS measurements (
    question_id TEXT PRIMARY KEY, value REAL NOT NULL, at REAL NOT NULL) STRICT;
"""


class ClassFileError(RuntimeError):
    """The file of a class cannot be used; the message names it and says what to do."""


class Ballot(NamedTuple):
    """What a voter answers to a question: a number or the letter of an option."""

    sequence: int
    question_id: str
    value: float | None
    choice: str | None
    unit: str
    age_s: float

    @property
    def valid(self) -> bool:
        """Whether it can be kept."""
        number = self.value is not None and math.isfinite(self.value) and self.value > 0
        letter = self.choice is not None and _CHOICE.fullmatch(self.choice) is not None
        return (
            number != letter
            and _QUESTION.fullmatch(self.question_id) is not None
            and 0 < self.sequence < 2**62
            and len(self.unit) <= 40
            and not math.isnan(self.age_s)
        )


@dataclass(frozen=True)
class Vote:
    """The vote of a voter that counts in a round; times are seconds since 1970."""

    voter: int
    question_id: str
    round: int
    value: float | None
    choice: str | None
    unit: str
    made_at: float
    kept_at: float


@dataclass(frozen=True)
class Round:
    """When the teacher opened, closed and revealed a round; None if not yet."""

    number: int
    opened_at: float
    closed_at: float | None
    revealed_at: float | None

    def takes(self, made_at: float, arrived_at: float) -> bool:
        """Whether a vote is of this round and not of a later one.

        A vote that was made in time counts though it came late, unless the room has seen the
        result by then.
        """
        if self.closed_at is None:
            return True
        return made_at <= self.closed_at and arrived_at <= (self.revealed_at or math.inf)


def round_of(rounds: Sequence[Round], made_at: float, arrived_at: float) -> int:
    """Return the round to which a vote belongs, from 1."""
    number = next((each.number for each in rounds if each.takes(made_at, arrived_at)), None)
    return len(rounds) + 1 if number is None else number


class Store:
    """The file of a class. Methods may be called from any thread."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))  # it holds the private key
            self._db = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
            self._db.row_factory = sqlite3.Row
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")  # a vote that was confirmed stays
            self._db.executescript(_TABLES)
        except (OSError, sqlite3.Error) as error:
            raise ClassFileError(
                f"{file} cannot hold a class ({error}): name another file with --file"
            ) from error
        self.identity = self._identity()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _rows(self, statement: str, *values: object) -> list[sqlite3.Row]:
        with self._lock:
            return self._db.execute(statement, values).fetchall()

    def _identity(self) -> codes.Identity:
        certificate, key, code = (self.kept(name) for name in ("certificate", "key", "code"))
        if certificate is None:
            identity = codes.new_identity()
            self.keep(certificate=identity.certificate, key=identity.key, code=str(identity.code))
            self.keep(page_token=secrets.token_urlsafe(24))
            return identity
        return codes.Identity(certificate, key, codes.parsed(code))

    def kept(self, name: str) -> Any:
        """Return a value of the class, None if there is none."""
        rows = self._rows("SELECT value FROM class WHERE name = ?", name)
        return rows[0]["value"] if rows else None

    def keep(self, **values: object) -> None:
        """Keep values of the class by their names."""
        with self._writing() as db:
            db.executemany("INSERT OR REPLACE INTO class VALUES (?, ?)", values.items())

    def join(self, secret: bytes, name: str, address: str, *, most: int, per_address: int) -> int:
        """Let a voter in, once however often it is called; return how many have joined.

        Raises OverflowError when the class, or this address, has no place left.
        """
        hashed = _hashed(secret)
        with self._writing() as db:
            known = db.execute("UPDATE voters SET name = ? WHERE secret = ?", (name, hashed))
            joined = int(db.execute("SELECT count(*) FROM voters").fetchone()[0])
            if known.rowcount:
                return joined
            here = "SELECT count(*) FROM voters WHERE address = ?"
            if joined >= most or db.execute(here, (address,)).fetchone()[0] >= per_address:
                raise OverflowError
            db.execute(
                "INSERT INTO voters (secret, name, address, joined_at) VALUES (?, ?, ?, ?)",
                (hashed, name, address, time.time()),
            )
            return joined + 1

    def voter(self, secret: bytes) -> int | None:
        """Return the number of the voter with this secret; None for a stranger."""
        rows = self._rows("SELECT voter FROM voters WHERE secret = ?", _hashed(secret))
        return rows[0]["voter"] if rows else None

    def vote(self, voter: int, ballots: Iterable[Ballot], arrived_at: float) -> list[int]:
        """Write the ballots to the disk; return the sequences of those that can never be kept."""
        refused = []
        with self._writing() as db:
            for ballot in ballots:
                if not ballot.valid or not self._keep(db, voter, ballot, arrived_at):
                    refused.append(ballot.sequence)
        return refused

    def _keep(self, db: sqlite3.Connection, voter: int, ballot: Ballot, arrived_at: float) -> bool:
        latest, others = db.execute(
            "SELECT max(sequence) FILTER (WHERE question_id = ?), count(DISTINCT question_id) "
            "FROM votes WHERE voter = ?",
            (ballot.question_id, voter),
        ).fetchone()
        if latest is None and others >= QUESTIONS_MOST:
            return False
        if latest is not None and latest >= ballot.sequence:
            return True  # it came before, or a later one did
        made_at = arrived_at - min(max(ballot.age_s, 0.0), OLDEST_S)
        round = round_of(self._rounds(db, ballot.question_id), made_at, arrived_at)
        db.execute(
            "INSERT OR REPLACE INTO votes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(voter, ballot.question_id, round, ballot.value, ballot.choice, ballot.unit),
                *(ballot.sequence, made_at, time.time()),
            ),
        )
        return True

    def step(self, question_id: str, action: str, now: float | None = None) -> None:
        """Open, close, reopen or reveal a round; "second" opens a further one.

        What does not fit the phase changes nothing: a key may be pressed twice.
        """
        at = time.time() if now is None else now
        with self._writing() as db:
            rounds = self._rounds(db, question_id)
            last = rounds[-1] if rounds else None
            of_last = (question_id, last.number if last else 0)
            phase = phase_of(rounds)
            if action == "open" and last is None:
                db.execute("INSERT INTO rounds VALUES (?, 1, ?, NULL, NULL)", (question_id, at))
            elif action == "second" and last is not None and phase in ("closed", "revealed"):
                new = (question_id, last.number + 1, at)
                db.execute("INSERT INTO rounds VALUES (?, ?, ?, NULL, NULL)", new)
            elif action == "close" and phase == "open":
                where = "UPDATE rounds SET closed_at = ? WHERE question_id = ? AND round = ?"
                db.execute(where, (at, *of_last))
            elif action == "reveal" and phase == "closed":
                # Also an earlier round, when the second vote began before the first was shown.
                where = "UPDATE rounds SET revealed_at = ? WHERE question_id = ?"
                db.execute(f"{where} AND revealed_at IS NULL", (at, question_id))
            elif action == "reopen" and phase == "closed":
                where = "UPDATE rounds SET closed_at = NULL WHERE question_id = ? AND round = ?"
                db.execute(where, of_last)
                # What came meanwhile is of this round, and later than what it replaces.
                db.execute(
                    "UPDATE OR REPLACE votes SET round = round - 1 "
                    "WHERE question_id = ? AND round = ? + 1",
                    of_last,
                )

    def measure(self, question_id: str, value: float) -> None:
        """Keep what the teacher's run measured."""
        with self._writing() as db:
            row = (question_id, value, time.time())
            db.execute("INSERT OR REPLACE INTO measurements VALUES (?, ?, ?)", row)

    @staticmethod
    def _rounds(db: sqlite3.Connection, question_id: str) -> list[Round]:
        rows = db.execute(
            "SELECT round, opened_at, closed_at, revealed_at FROM rounds WHERE question_id = ? "
            "ORDER BY round",
            (question_id,),
        )
        return [Round(*row) for row in rows]

    def rounds(self, question_id: str) -> list[Round]:
        """Return the rounds of a question that the teacher opened."""
        with self._lock:
            return self._rounds(self._db, question_id)

    def measured(self, question_id: str) -> float | None:
        """Return what was measured for a question, None if nothing was shown."""
        rows = self._rows("SELECT value FROM measurements WHERE question_id = ?", question_id)
        return float(rows[0]["value"]) if rows else None

    def joined(self) -> dict[int, str]:
        """Return the name of each voter, in the order of joining; "" for those without one."""
        return {row[0]: row[1] for row in self._rows("SELECT voter, name FROM voters ORDER BY 1")}

    def votes(self, question_id: str | None = None) -> list[Vote]:
        """Return the votes that count, of one question or of all."""
        columns = "voter, question_id, round, value, choice, unit, made_at, kept_at"
        rows = self._rows(
            f"SELECT {columns} FROM votes WHERE coalesce(?, question_id) = question_id "
            "ORDER BY made_at",
            question_id,
        )
        return [Vote(*row) for row in rows]


def phase_of(rounds: Sequence[Round]) -> Phase:
    """Return where a question stands, but for what was measured."""
    if not rounds:
        return "ready"
    last = rounds[-1]
    if last.revealed_at is not None:
        return "revealed"
    return "open" if last.closed_at is None else "closed"


def _hashed(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


class HandedIn(NamedTuple):
    """A vote as a table of the class has it; a voter without a name is "voter 7"."""

    student: str
    question_id: str
    round: int
    value: float | None
    choice: str | None
    measured: float | None
    unit: str | None


def is_class(file: Path) -> bool:
    """Whether this is the file of a class."""
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as db:
            return bool(db.execute("SELECT 1 FROM sqlite_master WHERE name = 'voters'").fetchall())
    except sqlite3.Error:
        return False


def handed_in(file: Path) -> list[HandedIn]:
    """Return the votes in the file of a class. Raises ClassFileError for a damaged one."""
    store = Store(file)
    try:
        names = store.joined()
        twice = [name for name, count in Counter(names.values()).items() if count > 1]
        return [
            HandedIn(
                f"voter {v.voter}" if names[v.voter] in ("", *twice) else names[v.voter],
                *(v.question_id, v.round, v.value, v.choice),
                *(None if v.choice else store.measured(v.question_id), v.unit),
            )
            for v in store.votes()
        ]
    except (sqlite3.Error, LookupError) as error:
        raise ClassFileError(f"{file} is damaged ({error})") from error
    finally:
        store.close()
