"""Saved files, cut off, changed, or written by two: a clear error, never a wrong figure."""

import json
import multiprocessing
import os
import random
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from kvstore.client import load, strategies, workload
from kvstore.course import progress
from kvstore.measure import Run
from kvstore.server import serving
from proofs.case import Case, Figure

DAMAGES, DAMAGES_SHORT = 2_000, 60
SAVES, SAVES_SHORT = 200, 15
WRITERS = 2


def prove(short: bool) -> Iterator[Case | Figure]:
    """Yield one case for each damage of each kind of file, for two writers, a newer version."""
    with serving(read_delay_s=0, write_delay_s=0) as server:
        run = load.run(strategies.bounded, server, workload.crud(), in_flight=4, calls=200)
    count = DAMAGES_SHORT if short else DAMAGES
    saves = SAVES_SHORT if short else SAVES
    with tempfile.TemporaryDirectory() as folder:
        for name, saved, version, reads, same in (
            ("run.npz", run, "kvstore.measure.run.FORMAT", _read_run, _same_run),
        ):
            path = Path(folder) / name
            saved.save(path)
            whole = path.read_bytes()
            for number, damaged in enumerate(_damages(whole, count)):
                path.write_bytes(damaged)
                wrong = _judged(path, reads, partial(same, saved))
                yield Case(f"{name}, damage {number}", wrong)
            with mock.patch(version, 2):
                saved.save(path)
            yield Case(f"{name}, a newer version", _judged(path, reads, None, "newer version"))
            path.write_bytes(whole)
            yield Case(f"{name}, {WRITERS} writers", _two_writers(path, saved, reads, saves))
            left = [each.name for each in Path(folder).iterdir() if each.name.startswith(".")]
            yield Case(f"{name}, nothing left", f"left {left}" if left else "")
    yield from _progress(count, saves)
    yield Figure("damages", 3 * count)


def _damages(whole: bytes, count: int) -> Iterator[bytes]:
    """Yield the file cut off, with bits flipped, of a newer version, and of another kind."""
    chance = random.Random(7)
    yield b""
    yield b"not a file of the course"
    yield whole[::-1]
    yield json.dumps({"format": 10**6, "rows": []}).encode()
    for number in range(count):
        if number % 2:
            yield whole[: chance.randrange(len(whole))]
            continue
        changed = bytearray(whole)
        changed[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        yield bytes(changed)


def _judged(
    path: Path, reads: Callable[[Path], Any], same: Callable[[Any], bool] | None, says: str = ""
) -> str:
    """Return what is wrong with how a damaged file is read; `same` is None where none can be."""
    content = path.read_bytes()
    try:
        found = reads(path)
    except (ValueError, progress.ProgressError) as error:
        if str(path) not in str(error) or says not in str(error):
            return f"expected an error that names the file, and {says!r}, got: {error}"
        return "" if path.read_bytes() == content else "refused, and changed all the same"
    except Exception as error:
        return f"expected a ValueError that names the file, got {error!r}"
    return "" if same is not None and same(found) else "read without an error, with other figures"


def _read_run(path: Path) -> Run:
    return Run.load(path)


def _same_run(saved: Any, found: Any) -> bool:
    """Return whether the figures are the same; zip has a check of every byte that holds them."""
    return bool(
        found.records.tobytes() == saved.records.tobytes()
        and found.issued == saved.issued
        and found.window_s == saved.window_s
    )


def _two_writers(path: Path, saved: Any, reads: Callable[[Path], Any], times: int) -> str:
    """Save from two processes at the same time; a reader always finds one whole file."""
    context = multiprocessing.get_context("spawn")  # never fork after gRPC has started
    writers = [context.Process(target=_save, args=(saved, path, times)) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    reading = 0
    try:
        while any(writer.is_alive() for writer in writers):
            reads(path)
            reading += 1
    except (ValueError, zipfile.BadZipFile) as error:
        return f"after {reading} readings: {error}"
    finally:
        for writer in writers:
            writer.join()
    codes = [writer.exitcode for writer in writers]
    return "" if reading and not any(codes) else f"{reading} readings, exit codes {codes}"


# ---- progress: a database, which a damaged file must not stop ------------------------------------


def _progress(count: int, saves: int) -> Iterator[Case]:
    """Yield the cases of the learner's progress. A damaged file is kept, and a new one begun."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ):
        path = Path(folder) / "progress.sqlite3"
        os.environ[progress.VARIABLE] = str(path)
        _learn(path, 5)
        whole, known = path.read_bytes(), _read_progress(path)
        for number, damaged in enumerate(_damages(whole, count)):
            path.write_bytes(damaged)
            yield Case(f"progress, damage {number}", _judged_progress(path, known))
            for each in Path(folder).iterdir():
                each.unlink()
        with mock.patch("kvstore.course.progress.VERSION", 2):
            _learn(path, 5)
        wrong = _judged(path, _read_progress, None, "newer version")
        yield Case("progress, a newer version", wrong)
        path.unlink()
        yield Case(f"progress, {WRITERS} writers", _two_learners(path, saves))


def _judged_progress(path: Path, known: object) -> str:
    """Return what is wrong with how damaged progress is read.

    It has the same figures; or it is refused; or it is kept under another name, with a warning, and
    nothing is known. A file that was cut off to nothing is a new one.
    """
    damaged = path.read_bytes()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = _read_progress(path)
        except progress.ProgressError as error:
            kept = path.read_bytes() == damaged
            return "" if kept and str(path) in str(error) else f"kept: {kept}; {error}"
        except Exception as error:
            return f"expected a ProgressError that names the file, got {error!r}"
    aside = [each.read_bytes() for each in path.parent.iterdir() if ".unreadable-" in each.name]
    if aside or not damaged:
        reported = not damaged or (
            aside == [damaged] and any(str(path) in str(w.message) for w in said)
        )
        if reported and not found:
            return ""
        return f"reported: {reported}; kept: {aside == [damaged]}; {found}"
    return "" if found == known else f"read without a warning, with other figures: {found}"


def _read_progress(path: Path) -> list[tuple[Any, ...]]:
    """Return every row of every table."""
    with progress.writing() as connection:
        tables = ("questions", "answers", "help", "choices")
        rows = [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]
        return [tuple(row) for each in rows for row in each]


def _learn(path: Path, times: int, learner: int = 0) -> None:
    """Make predictions, answers and choices, as lessons do."""
    os.environ[progress.VARIABLE] = str(path)
    for number in range(times):
        name = f"01.{learner}.{number}"
        progress.keep_prediction(name, 10.0 + number, "calls/s")
        progress.reveal(name, 12.0, 0.1)
        progress.record_answer(name, "passed", "yes")
        progress.take_hint(name, 2)
        progress.keep_choice(name, "a", True)


def _two_learners(path: Path, times: int) -> str:
    """Write from two processes at the same time: nothing of either is lost."""
    context = multiprocessing.get_context("spawn")
    learners = [context.Process(target=_learn, args=(path, times, n)) for n in range(WRITERS)]
    for learner in learners:
        learner.start()
    for learner in learners:
        learner.join()
    codes = [learner.exitcode for learner in learners]
    rows = len(_read_progress(path))
    expected = WRITERS * times * 4
    return "" if rows == expected and not any(codes) else f"{rows} of {expected} rows; {codes}"


def _save(saved: Any, path: Path, times: int) -> None:
    for _ in range(times):
        saved.save(path)
