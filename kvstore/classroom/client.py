"""A student's side: join a class, keep each vote on the disk, and send it in the background.

A lesson never waits for the class. A vote is written to a file of the student's, and a thread
sends what is in it, again and again until the class has confirmed it. Two notebooks share the
file, so they are one voter.
"""

import contextlib
import json
import os
import random
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import grpc

from kvstore.classroom import codes
from kvstore.v1 import classroom_pb2 as messages
from kvstore.v1 import classroom_pb2_grpc

PORT: Final = 8890
JOIN_S: Final = 8.0
"""How long `join` may take."""
CALL_S: Final = 10.0
PAUSE_S: Final = (0.3, 10.0)
"""The first and the longest pause before a vote is sent again; they double in between."""
PATIENCE_S: Final = 3600.0
"""After so long without an answer the thread ends; the next vote begins another one."""
_FILE: Final = "class.json"
_VOTES: Final = "class_votes.sqlite3"


class ClassError(RuntimeError):
    """The class could not be joined; the message says what to do."""


@dataclass(frozen=True)
class Membership:
    """What a student's notebooks keep of a class."""

    address: str
    code: str
    certificate: str
    """PEM: the one certificate that the client accepts."""
    secret: str
    """The voter's, in hexadecimal digits."""
    name: str

    @contextmanager
    def calling(self) -> Iterator[Any]:
        """Open a channel that accepts only the server with this certificate; yield the stub."""
        options = [
            ("grpc.ssl_target_name_override", codes.NAME),
            ("grpc.enable_http_proxy", 0),  # the class is in this room
        ]
        roots = grpc.ssl_channel_credentials(self.certificate.encode("ascii"))
        with grpc.secure_channel(self.address, roots, options=options) as channel:
            yield classroom_pb2_grpc.ClassroomServiceStub(channel)


class Student:
    """The votes of one student, in a folder that all notebooks of the student share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sending = threading.Lock()
        self._news = threading.Event()

    def membership(self) -> Membership | None:
        """Return the class that was joined, None before and after it."""
        try:
            return Membership(**json.loads((self.folder / _FILE).read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def join(self, address: str, code: str, name: str = "") -> int:
        """Join the class at HOST:PORT; return how many have joined, with this student.

        Joined again, the same class counts the student once. Raises ClassError with what to do.
        """
        host, port = _split(address)
        before = self.membership()
        try:
            known = codes.parsed(code)
            certificate = codes.certificate_of(host, port, known, JOIN_S).decode("ascii")
            same = before is not None and before.certificate == certificate
            member = Membership(
                f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
                str(known),
                certificate,
                before.secret if before is not None and same else secrets.token_hex(16),
                name,
            )
            request = messages.JoinRequest(
                word=known.word, voter_secret=bytes.fromhex(member.secret), name=name
            )
            with member.calling() as stub:
                joined = int(stub.Join(request, timeout=JOIN_S).joined)
        except codes.CodeError as error:
            raise ClassError(str(error)) from None
        except OSError as error:
            raise ClassError(
                f"no class answers at {host}:{port} ({error}): compare the address with the board. "
                "Are you in the same network? Some networks keep laptops from each other"
            ) from None
        except grpc.RpcError as error:
            raise ClassError(f"{error.details()} ({error.code().name})") from None
        self.folder.mkdir(parents=True, exist_ok=True)
        if not same:
            self.leave()
        _write(self.folder / _FILE, json.dumps(asdict(member)))
        self.resume()
        return joined

    def leave(self) -> None:
        """Forget the class, and what it has not confirmed."""
        (self.folder / _FILE).unlink(missing_ok=True)
        with closing(self._votes()) as db, db:
            db.execute("DELETE FROM votes")

    def vote(
        self,
        question_id: str,
        *,
        value: float | None = None,
        choice: str | None = None,
        unit: str = "",
    ) -> None:
        """Keep an answer on the disk and send it in the background; nothing without a class."""
        if self.membership() is None:
            return
        row = (question_id, value, choice, unit, time.time())
        with closing(self._votes()) as db, db:
            db.execute(
                "INSERT INTO votes (question_id, value, choice, unit, made_at) "
                "VALUES (?, ?, ?, ?, ?)",
                row,
            )
        self._start()

    def resume(self) -> None:
        """Send what an earlier notebook left behind."""
        if self.waiting():
            self._start()

    def waiting(self) -> int:
        """Return how many votes the class has not confirmed."""
        if not (self.folder / _VOTES).exists():
            return 0
        with closing(self._votes()) as db:
            return int(db.execute("SELECT count(*) FROM votes").fetchone()[0])

    def _votes(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.folder / _VOTES, timeout=2)
        # AUTOINCREMENT: a number never comes again, so the class can tell an old vote from a new.
        db.execute(
            "CREATE TABLE IF NOT EXISTS votes (sequence INTEGER PRIMARY KEY AUTOINCREMENT, "
            "question_id TEXT NOT NULL, value REAL, choice TEXT, unit TEXT NOT NULL, "
            "made_at REAL NOT NULL)"
        )
        return db

    def _start(self) -> None:
        self._news.set()
        if self._sending.acquire(blocking=False):  # else a thread is there and has heard the news
            threading.Thread(target=self._send_all, name="votes to the class", daemon=True).start()

    def _send_all(self) -> None:
        """Send until nothing waits; a lesson must not hear of what fails here."""
        try:
            ends_s, pause_s = time.monotonic() + PATIENCE_S, PAUSE_S[0]
            while time.monotonic() < ends_s:
                self._news.clear()
                with contextlib.suppress(grpc.RpcError, OSError, sqlite3.Error):
                    if not self._send_some():
                        return
                    pause_s = PAUSE_S[0]
                    continue
                self._news.wait(pause_s * random.uniform(0.5, 1.5))
                pause_s = min(2 * pause_s, PAUSE_S[1])
        finally:
            self._sending.release()
            if self._news.is_set():  # a vote came when this thread had looked for the last time
                self._start()

    def _send_some(self) -> bool:
        """Send what waits, in one call; return whether anything did."""
        member = self.membership()
        if member is None or not (self.folder / _VOTES).exists():
            return False
        with closing(self._votes()) as db:
            rows = db.execute("SELECT * FROM votes ORDER BY sequence LIMIT 100").fetchall()
        if not rows:
            return False
        ballots = [
            messages.Ballot(
                sequence=sequence,
                question_id=question_id,
                value=value,
                choice=choice,
                unit=unit,
                age_s=max(0.0, time.time() - made_at),
            )
            for sequence, question_id, value, choice, unit, made_at in rows
        ]
        request = messages.VoteRequest(voter_secret=bytes.fromhex(member.secret), ballots=ballots)
        with member.calling() as stub:
            done = stub.Vote(request, timeout=CALL_S, wait_for_ready=False)
        with closing(self._votes()) as db, db:
            db.executemany(
                "DELETE FROM votes WHERE sequence = ?", [(n,) for n in (*done.kept, *done.refused)]
            )
        return True


def _split(address: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT; the port of every class if none is given."""
    host, colon, port = str(address).strip().rpartition(":")
    if not colon or "]" in port:
        host, port = str(address).strip(), str(PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ClassError(
            f"the address of a class is HOST:PORT, such as 192.168.1.20:{PORT}, got {address!r}: "
            "type what is on the board"
        )
    return host.strip("[]"), int(port)


def _write(file: Path, text: str) -> None:
    """Write a whole file that only its owner can read, or nothing."""
    aside = file.with_name(f"{file.name}.{os.getpid()}")
    with open(aside, "w", opener=lambda path, how: os.open(path, how, 0o600)) as out:
        out.write(text)
    os.replace(aside, file)
