"""Execute notebooks with no browser, one at a time, and say what came of each.

`python3 course.py run` shows progress, keeps the executed copies under `executed/` and closes with
a table. One at a time, because two notebooks that measure at once measure each other. `execute`
does one notebook, for tests.
"""

import argparse
import asyncio
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeVar

import nbformat
import pandas as pd
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager, KernelManager
from jupyter_core.utils import ensure_async
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from kvstore.course import comparisons, mode, my_code, progress
from kvstore.measure.host import host_in_words

ROOT: Final = Path(__file__).resolve().parents[1]
NOTEBOOKS: Final = ROOT / "notebooks"
FURTHER: Final = "further"
"""The folder in it with the optional lessons."""
COPIES: Final = ROOT / "executed"
TIMEOUT_S: Final = 7200.0
"""How long one notebook may take in all: with full runs on a busy machine half an hour was seen."""

OnCell = Callable[[int, int], object]
"""Called with the number of the code cell that starts now, from 1, and how many there are."""


@dataclass(frozen=True)
class Executed:
    """What came of one notebook: its outputs up to the end, or up to the error."""

    name: str
    notebook: nbformat.NotebookNode
    seconds: float
    error: str | None = None

    @property
    def claims(self) -> tuple[comparisons.Claim, ...]:
        """The claims the notebook made, in order, each with whether it holds."""
        return tuple(
            comparisons.Claim(**fields) for fields in self.published(comparisons.CLAIM_MIME_TYPE)
        )

    @property
    def agreements(self) -> tuple[comparisons.Agreement, ...]:
        """The comparisons that the lesson marked as its main ones, in order."""
        compared = self.published(comparisons.MIME_TYPE)
        return tuple(comparisons.Agreement.of(self.name, each) for each in compared if each["main"])

    def published(self, mime_type: str) -> Iterator[dict[str, Any]]:
        """What the cells published for programs under this type, in order."""
        for cell in self.notebook.cells:
            for output in cell.get("outputs", ()):
                if mime_type in output.get("data", {}):
                    yield output["data"][mime_type]


def execute(path: Path, *, timeout_s: float = TIMEOUT_S, on_cell: OnCell | None = None) -> Executed:
    """Execute one notebook from top to bottom in a fresh kernel of this very interpreter.

    An error in a cell is data: it ends the notebook and stands in `error`, and so does a
    notebook that takes longer than `timeout_s` in all. The kernel works in the notebook's
    folder, starts with no progress and leaves the learner's own untouched. Whatever ends
    the execution, Ctrl-C included, the kernel is gone afterwards.
    """
    with one_kernel() as execute_in_it:
        return execute_in_it(path, timeout_s=timeout_s, on_cell=on_cell)


@contextmanager
def one_kernel() -> Iterator[Callable[..., Executed]]:
    """One kernel for several notebooks, which saves the start of a kernel and the imports.

    Yields a function like `execute`. Each notebook begins with an empty namespace and in its own
    folder. A module keeps its state, so use it for tests and the fast mode, and `execute` where a
    learner looks at the outputs.
    """
    nothing = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell()])
    carrier = _OwnClient(nothing, startup_timeout=120)
    with asyncio.Runner() as runner:
        kernel = _kernel(carrier)
        runner.run(kernel.__aenter__())
        try:
            yield partial(_execute, runner, carrier)
        finally:
            runner.run(kernel.__aexit__(None, None, None))


def _execute(
    runner: asyncio.Runner,
    carrier: "_OwnClient",
    path: Path,
    *,
    timeout_s: float = TIMEOUT_S,
    on_cell: OnCell | None = None,
) -> Executed:
    """Execute one notebook in the kernel of the carrier."""
    notebook = nbformat.read(path, as_version=4)
    began_s = time.perf_counter()

    def seconds_left(_cell: object = None) -> int:  # a cell ends when the time for all is up
        return max(1, round(began_s + timeout_s - time.perf_counter()))

    # A tag must not hide an error from the tests. On a busy machine the outputs of a cell can come
    # seconds after its reply; without them it would seem to have none.
    client = _OwnClient(
        notebook, timeout_func=seconds_left, force_raise_errors=True, iopub_timeout=60
    )
    client.km, client.kc = carrier.km, carrier.kc
    begin = nbformat.v4.new_code_cell(_BEGIN.format(folder=str(path.parent)))
    runner.run(carrier.async_execute_cell(begin, 0, store_history=False))
    error = runner.run(_error_in(client, on_cell or (lambda _number, _of: None)))
    notebook.metadata["course"] = {
        "mode": mode.name(),
        "machine": host_in_words(),
        "made_at": datetime.now().astimezone().isoformat(timespec="seconds"),
        "code": code_version(),
    }
    return Executed(path.stem, notebook, time.perf_counter() - began_s, error)


@cache
def code_version() -> str:
    """Return a digest of the package: outputs that another version of it made are old."""
    digest = hashlib.sha256()
    for file in sorted((ROOT / "kvstore").rglob("*")):
        if file.suffix in (".py", ".js", ".html", ".toml", ".json"):
            digest.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


_BEGIN: Final = """
get_ipython().reset(new_session=True)
__spec__ = None  # a module has it, and multiprocessing reads it when it starts a process
import os, shutil, sys
os.chdir({folder!r})
shutil.rmtree(os.environ["COURSE_MY_CODE"], ignore_errors=True)
for name in [each for each in sys.modules if each.partition(".")[0] == "my_code"]:
    del sys.modules[name]
if "matplotlib.pyplot" in sys.modules:
    sys.modules["matplotlib.pyplot"].close("all")
del os, shutil, sys
"""
"""Run in a kernel before each notebook."""


async def _error_in(client: NotebookClient, on_cell: OnCell) -> str | None:
    """Run the cells up to the first error, and say that one in words."""
    cells = [(i, cell) for i, cell in enumerate(client.nb.cells) if cell.cell_type == "code"]
    for number, (index, cell) in enumerate(cells, start=1):
        on_cell(number, len(cells))
        try:
            await client.async_execute_cell(cell, index)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as problem:
            _let_ctrl_c_through()
            return f"cell {number} of {len(cells)} ({cell.id}): {_in_words(problem)}"
    client.set_widgets_metadata()
    return None


def _let_ctrl_c_through() -> None:
    """The client takes the cancelling that Ctrl-C brings for a dead kernel."""
    task = asyncio.current_task()
    if task and task.cancelling():
        raise asyncio.CancelledError


class OwnKernel(KernelSpecManager):
    """Knows one kernel: this interpreter. A kernelspec of the user's cannot take its place."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """How to start this interpreter as a kernel, whatever name was asked for."""
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        argv += ["--log-level=ERROR"]  # else each warns that the loopback is not encrypted
        return KernelSpec(argv=argv, display_name=kernel_name, language="python")


_Manager = TypeVar("_Manager", bound=KernelManager)


def own_kernel(folder: Path, manager: type[_Manager]) -> _Manager:
    """A manager of a kernel that is this interpreter, with its connection file in `folder`.

    Where there are Unix sockets, the kernel is reached over them. For TCP, Jupyter looks for free
    ports and the kernel binds them later: a connection that another program opens between the two
    can take one of them, and then the kernel ends as it starts.
    """
    return manager(
        kernel_spec_manager=OwnKernel(),
        connection_file=str(folder / "kernel.json"),
        transport="tcp" if sys.platform == "win32" else "ipc",
    )


class _OwnClient(NotebookClient):
    """A notebook client whose kernel is this interpreter."""

    folder: Path
    """For the kernel's connection file."""

    def create_kernel_manager(self) -> AsyncKernelManager:
        self.km = own_kernel(self.folder, AsyncKernelManager)
        return self.km


@asynccontextmanager
async def _kernel(client: "_OwnClient") -> AsyncIterator[None]:
    """A kernel for the client, with progress of its own; gone at the end, however that comes.

    Not the client's own `execute()`: that one takes Ctrl-C for itself and reports a dead kernel.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        client.folder = Path(scratch)
        manager = client.create_kernel_manager()
        settings = {
            **os.environ,
            progress.VARIABLE: str(Path(scratch, "progress.sqlite3")),
            my_code.VARIABLE: str(Path(scratch, my_code.PACKAGE)),
        }
        try:
            await client.async_start_new_kernel(cwd=str(NOTEBOOKS), env=settings)
            await client.async_start_new_kernel_client()
            yield
        finally:
            if client.kc is not None:
                client.kc.stop_channels()
            if manager.has_kernel:
                await ensure_async(manager.shutdown_kernel(now=True))


def _in_words(problem: Exception) -> str:
    if isinstance(problem, CellExecutionError):
        return f"{problem.ename}: {problem.evalue}"
    if isinstance(problem, CellTimeoutError):
        return "not finished when the time for the whole notebook was up"
    return "the kernel died"


def chosen(names: Sequence[str], folder: Path = NOTEBOOKS) -> list[Path]:
    """The notebooks that are meant: all, or those that begin with one of the names.

    A further lesson is meant by `further`, by its name behind it, or by its whole name alone, and
    the others by `core`.
    ValueError when a name fits none.
    """
    lessons = lessons_in(folder)
    unknown = [n for n in names if not any(_fits(n, lesson) for lesson in lessons)]
    if unknown:
        have = ", ".join(lesson.stem for lesson in lessons) or "none"
        raise ValueError(f"no notebook is named {unknown[0]!r}; there are: {have}")
    return [each for each in lessons if not names or any(_fits(n, each) for n in names)]


def lessons_in(folder: Path = NOTEBOOKS) -> list[Path]:
    """The core lessons in the order in which they are taken, then the further ones."""
    return [*sorted(folder.glob("*.ipynb")), *sorted((folder / FURTHER).glob("*.ipynb"))]


def is_further(lesson: Path) -> bool:
    """Whether the lesson is an optional one."""
    return lesson.parent.name == FURTHER


def _fits(name: str, lesson: Path) -> bool:
    wanted = Path(name.removesuffix(".ipynb"))
    if not is_further(lesson):
        if name == "core":
            return True
        return FURTHER not in wanted.parts and lesson.stem.startswith(wanted.name)
    if FURTHER in wanted.parts:
        return wanted.name == FURTHER or lesson.stem.startswith(wanted.name)
    return lesson.stem == wanted.name


def table(done: Sequence[Executed]) -> str:
    """What came of each notebook, one line each, and below it what did not hold here."""
    lines = [pd.DataFrame(map(_row, done)).to_string(index=False)]
    for each in done:
        lines += [f"{each.name}: does not hold: {c.sentence}" for c in each.claims if not c.holds]
        lines += [f"{each.name}: {each.error}"] if each.error else []
    return "\n".join(lines)


def _row(done: Executed) -> dict[str, Any]:
    held = sum(claim.holds for claim in done.claims)
    compared = list(done.published(comparisons.MIME_TYPE))
    predicted = sum(comparison["yours"] is not None for comparison in compared)
    return {
        "lesson": done.name,
        "seconds": f"{done.seconds:.1f}",
        "claims hold": held,
        "do not": len(done.claims) - held,
        "of": len(done.claims),
        "predicted": f"{predicted} of {len(compared)}",
        "error": "yes, see below" if done.error else "none",
    }


def run_all(paths: Sequence[Path], copies: Path = COPIES, timeout_s: float = TIMEOUT_S) -> int:
    """Execute these notebooks; the exit status is 0, or 130 after Ctrl-C.

    It is 1 when one ended with an error or a claim did not hold here. A main comparison that lies
    outside its band is named and is no failure.
    """
    done: list[Executed] = []
    status = 0
    try:
        for path in paths:
            done.append(execute(path, timeout_s=timeout_s, on_cell=_progress(path.stem)))
            keep(done[-1], copies / FURTHER if is_further(path) else copies)
            word = "FAILED" if done[-1].error else "done"
            print(f"\r{path.stem}: {word}".ljust(60), flush=True)
    except KeyboardInterrupt:
        print(f"\n{path.stem}: stopped by Ctrl-C", flush=True)
        status = 130
    main = [each for lesson in done for each in lesson.agreements]
    print(f"\n{table(done)}\n\nPrediction against measurement, in the main experiments:")
    print(comparisons.table(main, [each.name for each in done], full=mode.name() == "full"))
    print(f"\nThe executed copies are in {copies}")
    failed = [each for each in done if each.error or not all(each.claims)]
    return status or int(bool(failed))


def _progress(name: str) -> OnCell:
    """Say which cell runs: on a terminal in place, elsewhere once, so that logs stay short."""

    def on_cell(number: int, of: int) -> None:
        if sys.stdout.isatty():
            print(f"\r{name}: cell {number}/{of}".ljust(60), end="", flush=True)
        elif number == 1:
            print(f"{name}: {of} cells", flush=True)

    return on_cell


def keep(done: Executed, folder: Path) -> None:
    """Write the executed copy into a folder, completely or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{done.name}.unfinished"
    nbformat.write(done.notebook, unfinished)
    shutil.move(unfinished, folder / f"{done.name}.ipynb")


def main(arguments: Sequence[str]) -> int:
    """The command; see `--help`."""
    parser = argparse.ArgumentParser(prog="course.py run", description="Execute the notebooks.")
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--fast", action="store_const", dest="mode", const="fast", help="short runs, as tests take"
    )
    length.add_argument(
        "--full", action="store_const", dest="mode", const="full", help="the published lengths"
    )
    parser.add_argument("names", nargs="*", help="such as 01 or further (default: all)")
    options = parser.parse_args(arguments)
    if options.mode:
        os.environ[mode.VARIABLE] = options.mode  # the kernels inherit it
    try:
        paths = chosen(options.names)
    except ValueError as error:
        parser.error(str(error))
    return run_all(paths)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
