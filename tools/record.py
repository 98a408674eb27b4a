"""Record the runs of lessons for COURSE_MODE=recorded: `course.py build recordings [names]`.

Each lesson is executed once in class mode. `recordings/NAME.tar.xz` then holds, for each cell that
measured, the outputs and the variables that the cell set. Without a name, the command records the
lessons whose recording no longer fits the notebook; `--again` records them all. Use a machine with
nothing else to do.
"""

import base64
import io
import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode
from PIL import Image

from kvstore.course import comparisons, kernel, mode
from tools import pages, run_notebooks

ASKS: Final = frozenset({"predict", "quiz"})
"""What works on the learner's own progress, and so must not stand in a cell that measures."""
COLOURS: Final = 64
"""A figure of the course has fewer: as a palette it takes a third of the space."""


class CannotRecord(Exception):
    """The lesson cannot be recorded; the message says why."""


def stale(lesson: Path, folder: Path = kernel.FOLDER) -> list[str]:
    """Return the ids of the recorded cells that the notebook no longer has; all if none are."""
    archive = folder / f"{lesson.stem}{kernel.SUFFIX}"
    if not archive.is_file():
        return ["no recording"]
    cells = json.loads(kernel.parts(archive)[kernel.MANIFEST])["cells"]
    here = {_digest(cell) for cell in nbformat.read(lesson, as_version=4).cells}
    return [cell["id"] for name, cell in cells.items() if name not in here]


def _digest(cell: NotebookNode) -> str | None:
    if cell.cell_type != "code":
        return None
    return kernel.digest(TransformerManager().transform_cell(cell.source))  # type: ignore[no-untyped-call]


def record(lesson: Path, folder: Path = kernel.FOLDER) -> Path:
    """Execute the lesson, and write its recording completely or not at all.

    Raises CannotRecord.
    """
    with tempfile.TemporaryDirectory() as scratch:
        os.environ[kernel.RECORD_TO] = scratch
        try:
            done = run_notebooks.execute(lesson)
        finally:
            del os.environ[kernel.RECORD_TO]
        if done.error:
            raise CannotRecord(f"{lesson.stem}: {done.error}")
        if broken := [claim.sentence for claim in done.claims if not claim.holds]:
            raise CannotRecord(f"{lesson.stem}: a claim does not hold in this run: {broken[0]}")
        cells, members = {}, {}
        for cell in done.notebook.cells:
            name = _digest(cell)
            facts = Path(scratch, f"{name}.json")
            if name is None or not facts.is_file():
                continue
            made = json.loads(facts.read_text("utf-8"))
            if "check" in made["calls"]:
                continue  # what starts a server there judges the learner's own answer
            if mixed := ASKS & set(made["calls"]):
                raise CannotRecord(
                    f"{lesson.stem}, cell {cell.id}: it measures and calls {', '.join(mixed)}: "
                    "make two cells of it"
                )
            members[f"{name}.values"] = Path(scratch, f"{name}.values").read_bytes()
            outputs = [each for each in map(_small, cell.outputs) if each]
            members[f"{name}.outputs"] = json.dumps(outputs).encode()
            cells[name] = {
                "id": cell.id,
                "closes": made["closes"],
                "names": made["names"],
                "values": f"{name}.values",
                "outputs": f"{name}.outputs",
            }
    manifest = {"cells": cells, "made": done.notebook.metadata["course"]}
    return _write(folder / f"{lesson.stem}{kernel.SUFFIX}", manifest, members)


def _write(path: Path, manifest: dict[str, Any], members: dict[str, bytes]) -> Path:
    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(".part")
    files = {kernel.MANIFEST: json.dumps(manifest, indent=1).encode(), **members}
    with tarfile.open(part, "w:xz", preset=9) as archive:
        for name in sorted(files, key=lambda name: name.rpartition(".")[::-1]):  # likes together
            about = tarfile.TarInfo(name)
            about.size = len(files[name])
            archive.addfile(about, io.BytesIO(files[name]))
    part.replace(path)
    return path


def _small(output: NotebookNode) -> dict[str, Any] | None:
    """The output without what a kernel or a program needs, its figures with a palette."""
    if output.output_type == "stream":
        return {"output_type": "stream", "name": output.name, "text": output.text}
    if comparisons.MIME_TYPE in output.data:
        return None  # made anew, with the learner's own prediction
    data = {mime: value for mime, value in output.data.items() if mime != pages.WIDGET}
    if "image/png" in data:
        data["image/png"] = palette(data["image/png"])
    return {"output_type": "data", "data": data, "metadata": output.metadata} if data else None


def palette(png: str) -> str:
    """Return a PNG in base64 with at most COLOURS colours."""
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGBA")  # it has no ground
    buffer = io.BytesIO()
    few = picture.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    few.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def record_all(lessons: Sequence[Path], *, again: bool) -> int:
    """Record these lessons in class mode, or only those that need it; 1 if one could not be."""
    os.environ[mode.VARIABLE] = "class"
    failed = 0
    for lesson in lessons:
        if not again and not stale(lesson):
            print(f"{lesson.stem}: the recording is up to date")
            continue
        print(f"{lesson.stem}: recording", flush=True)
        try:
            size = record(lesson).stat().st_size
            print(f"{lesson.stem}: {size / 1000:,.0f} kB", flush=True)
        except CannotRecord as problem:
            print(problem, file=sys.stderr, flush=True)
            failed = 1
    total = sum(each.stat().st_size for each in kernel.FOLDER.glob(f"*{kernel.SUFFIX}"))
    print(f"all recordings together: {total / 1e6:.1f} MB in {kernel.FOLDER}")
    return failed
