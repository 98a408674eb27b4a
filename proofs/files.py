"""Saved files, cut off, changed, or written by two: a clear error, never a wrong figure."""

import json
import multiprocessing
import random
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.results import NotResults, Results, Round, Row
from kvstore.client import load, strategies, workload
from kvstore.measure import Run
from kvstore.server import serving
from proofs.case import Case, Figure

DAMAGES, DAMAGES_SHORT = 2_000, 60
SAVES, SAVES_SHORT = 200, 15
WRITERS = 2


def prove(short: bool) -> Iterator[Case | Figure]:
    """Yield one case for each damage of a run's file and of a benchmark's, and for two writers."""
    with serving(read_delay_s=0, write_delay_s=0) as server:
        run = load.run(strategies.bounded, server, workload.crud(), in_flight=4, calls=200)
    rows = [Row("server", "client", 4, rounds=[Round(1.0 + n, 0.1, 0.2) for n in range(5)])]
    results = Results({"seconds": 1}, rows)
    with tempfile.TemporaryDirectory() as folder:
        for name, saved, reads, same in (
            ("run.npz", run, _read_run, _same_run),
            ("bench.json", results, _read_results, _same_results),
        ):
            path = Path(folder) / name
            saved.save(path)
            whole = path.read_bytes()
            count = DAMAGES_SHORT if short else DAMAGES
            for number, damaged in enumerate(_damages(whole, count)):
                path.write_bytes(damaged)
                wrong = _judged(path, reads, partial(same, saved))
                yield Case(f"{name}, damage {number}", wrong)
            path.write_bytes(whole)
            wrong = _two_writers(path, saved, reads, SAVES_SHORT if short else SAVES)
            yield Case(f"{name}, {WRITERS} writers", wrong)
            left = [each.name for each in Path(folder).iterdir() if each.name.startswith(".")]
            yield Case(f"{name}, nothing left", f"left {left}" if left else "")
    yield Figure("damages", 2 * (DAMAGES_SHORT if short else DAMAGES))


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


def _judged(path: Path, reads: Callable[[Path], Any], same: Callable[[Any], bool]) -> str:
    """Return what is wrong with how a damaged file is read."""
    try:
        found = reads(path)
    except (ValueError, NotResults) as error:
        return "" if str(path) in str(error) else f"the error does not name the file: {error}"
    except Exception as error:
        return f"expected a ValueError that names the file, got {error!r}"
    return "" if same(found) else "read without an error, with other figures"


def _read_run(path: Path) -> Run:
    return Run.load(path)


def _read_results(path: Path) -> Results:
    return Results.load(path)


def _same_run(saved: Any, found: Any) -> bool:
    """Return whether the figures are the same; zip has a check of every byte that holds them."""
    return bool(
        found.records.tobytes() == saved.records.tobytes()
        and found.issued == saved.issued
        and found.window_s == saved.window_s
    )


def _same_results(saved: Any, found: Any) -> bool:
    return bool([row.rounds for row in found.rows] == [row.rounds for row in saved.rows])


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
    except (ValueError, NotResults, zipfile.BadZipFile) as error:
        return f"after {reading} readings: {error}"
    finally:
        for writer in writers:
            writer.join()
    codes = [writer.exitcode for writer in writers]
    return "" if reading and not any(codes) else f"{reading} readings, exit codes {codes}"


def _save(saved: Any, path: Path, times: int) -> None:
    for _ in range(times):
        saved.save(path)
