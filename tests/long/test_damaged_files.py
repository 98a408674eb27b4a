"""Saved files, cut off, changed, or written by two: a clear error, never a wrong figure."""

import json
import multiprocessing
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvstore.client import load, strategies, workload
from kvstore.course import progress
from kvstore.measure import Run
from kvstore.server import serving

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

DAMAGES, SAVES, WRITERS = 600, 30, 2


def damages(whole: bytes) -> Iterator[bytes]:
    """Yield the file cut off, with bits flipped, of a newer version, and of another kind."""
    chance = random.Random(7)
    yield b""
    yield b"not a file of the course"
    yield whole[::-1]
    yield json.dumps({"format": 10**6, "rows": []}).encode()
    for number in range(DAMAGES):
        if number % 2:
            yield whole[: chance.randrange(len(whole))]
            continue
        changed = bytearray(whole)
        changed[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        yield bytes(changed)


def in_two_processes(work: Callable[..., None], *arguments: Any) -> Iterator[None]:
    """Run this function in two processes at the same time; yield while they work."""
    context = multiprocessing.get_context("spawn")  # never fork after gRPC has started
    writers = [context.Process(target=work, args=(*arguments, n)) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        while any(writer.is_alive() for writer in writers):
            yield
    finally:
        for writer in writers:
            writer.join()
    assert [0] * WRITERS == [writer.exitcode for writer in writers]


# ---- a run ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run() -> Run:
    with serving(read_delay_s=0, write_delay_s=0) as server:
        return load.run(strategies.bounded, server, workload.crud(), in_flight=4, calls=200)


def test_a_damaged_run_is_refused_by_name_or_has_the_same_figures(run, tmp_path, record_property):
    path, refused = tmp_path / "run.npz", 0
    run.save(path)
    for damaged in damages(path.read_bytes()):
        path.write_bytes(damaged)
        try:
            found = Run.load(path)
        except ValueError as error:
            said = str(error)
        else:
            said = ""
        if said:
            assert str(path) in said
            assert path.read_bytes() == damaged  # refused, and not changed
            refused += 1
            continue
        assert found.records.tobytes() == run.records.tobytes()
        assert (found.issued, found.window_s) == (run.issued, run.window_s)
    record_property("judged", f"{DAMAGES} damages of a run, {refused} refused")

    assert refused > DAMAGES / 2


def save(run: Run, path: Path, writer: int) -> None:
    for _ in range(SAVES):
        run.save(path)


def test_a_reader_finds_a_whole_run_while_two_save_it(run, tmp_path):
    path = tmp_path / "run.npz"
    run.save(path)

    assert all(Run.load(path).issued == 200 for _ in in_two_processes(save, run, path))
    assert [path] == list(tmp_path.iterdir())


# ---- progress: a database, which a damaged file must not stop ------------------------------------


def learn(path: Path, times: int, learner: int = 0) -> None:
    """Make predictions, answers and choices, as lessons do."""
    os.environ[progress.VARIABLE] = str(path)
    for number in range(times):
        name = f"01.{learner}.{number}"
        progress.keep_prediction(name, 10.0 + number, "calls/s")
        progress.settle(name, 12.0, lambda *_: 0.1)
        progress.record_answer(name, "passed", "yes")
        progress.take_hint(name, 2)
        progress.keep_choice(name, "a", True)


def rows() -> list[tuple[Any, ...]]:
    """Return every row of every table of the learner's progress."""
    with progress.writing() as connection:
        tables = ("questions", "answers", "help", "choices")
        found = [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]
        return [tuple(row) for each in found for row in each]


@pytest.fixture
def progress_path(tmp_path, monkeypatch) -> Path:
    path = tmp_path / "progress.sqlite3"
    monkeypatch.setenv(progress.VARIABLE, str(path))
    return path


def test_damaged_progress_is_refused_or_kept_aside_or_read(progress_path, capsys, record_property):
    learn(progress_path, 5)
    whole = progress_path.read_bytes()
    ends = {"refused": 0, "kept aside": 0, "read": 0}
    for damaged in damages(whole):
        progress_path.write_bytes(damaged)
        ends[_end_of(progress_path, capsys)] += 1
        for each in progress_path.parent.iterdir():
            each.unlink()
    record_property("judged", f"{DAMAGES} damages of progress: {ends}")

    assert ends["kept aside"] > 0


def _end_of(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Read damaged progress; return what became of it."""
    damaged = path.read_bytes()
    try:
        found = rows()
        progress.by_lesson()
        progress.questions()
    except progress.ProgressError:
        return "refused"
    line = capsys.readouterr().out
    aside = [each.read_bytes() for each in path.parent.iterdir() if ".unreadable-" in each.name]
    if not aside:
        return "read"
    assert aside == [damaged]
    assert str(path) in line
    assert not found
    return "kept aside"


def test_two_who_learn_at_the_same_time_lose_nothing(progress_path):
    for _ in in_two_processes(learn, progress_path, SAVES):
        pass

    assert len(rows()) == WRITERS * SAVES * 4
