"""The shape of the package: imports point one way."""

import ast
import functools
import graphlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import kvstore

PACKAGE = Path(kvstore.__file__).parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "v1" not in path.parts)

BESIDE = {path.stem for path in PACKAGE.glob("[a-z]*.py")}
"""Modules beside the rooms: every room may use them, `model` only numbers; they use
only one another."""

MAY_USE = {
    # Each room, and the rooms and modules of ours that it may import besides itself.
    "v1": set[str](),
    "model": {"numbers"},
    "measure": {"v1", *BESIDE},
    "__init__": {"grpc_environment"},  # it has to be set before gRPC is imported
    **dict.fromkeys(sorted(BESIDE), BESIDE),
    "client": {"v1", "measure", *BESIDE},
    "server": {"v1", *BESIDE},
    "classroom": {"v1", *BESIDE},
    "load_test": {"v1", "client", "measure", "model", *BESIDE},
}
DRAWING = {"matplotlib", "ipywidgets", "IPython", "nbformat"}
FORBIDDEN = {
    # Packages that a room must not import.
    "model": {"grpc", "pandas", "psutil", *DRAWING},
    "measure": {"grpc", *DRAWING},
    "client": DRAWING,
    "server": DRAWING,
    "classroom": {"numpy", "pandas", *DRAWING},
    "load_test": DRAWING,
}


@functools.cache
def imports_of(path: Path) -> set[str]:
    """Every module that a file imports, wherever in it, under its full name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative imports hide which room is meant"
            module = node.module or ""
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def rooms_used(path: Path) -> set[str]:
    """Rooms of ours that a file imports from, other than its own."""
    ours = {name.split(".")[1] for name in imports_of(path) if name.startswith("kvstore.")}
    return ours - {room_of(path)}


def offenders(breaks: Callable[[Path], object]) -> dict[str, object]:
    """Modules that break a rule, and what they break it with."""
    found = {str(path.relative_to(PACKAGE)): breaks(path) for path in MODULES}
    return {module: what for module, what in found.items() if what}


def test_imports_point_one_way_and_only_the_course_knows_the_course():
    """A model that could send calls would soon be fitted to them."""

    def breaks(path: Path) -> set[str]:
        room = room_of(path)
        free = room == "course" or path.name == "__main__.py"  # a command puts rooms together
        return set() if free else rooms_used(path) - MAY_USE[room]

    assert {*MAY_USE, "course"} == {room_of(path) for path in MODULES} | {"v1"}
    assert {} == offenders(breaks)


def test_no_modules_import_one_another_in_a_circle():
    """Not by late imports either. A package stands for no module: it only collects names."""
    names = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path
        for path in MODULES
        if path.name != "__init__.py"
    }
    graph = {name: imports_of(path) & names.keys() - {name} for name, path in names.items()}

    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, with the circle


def test_a_room_imports_no_package_that_is_not_its_business():
    """A room that makes no calls has no gRPC; none but the course draws."""

    def breaks(path: Path) -> set[str]:
        packages = {name.split(".")[0] for name in imports_of(path)}
        return packages & FORBIDDEN.get(room_of(path), set())

    assert {} == offenders(breaks)


def test_no_two_files_of_tests_have_one_name():
    """The folders of the tests are no packages: the second file of a name is not run at all."""
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]

    assert sorted(set(names)) == sorted(names)


@pytest.mark.slow
def test_a_door_is_light():
    """A module imports nothing heavy, or foreign to it, by a detour.

    Tens of megabytes in every kernel would shift the memory that lesson 02 predicts; numpy takes
    longer to start than the rest of a server, and its threads busy the cores; and a plot needs
    neither a database nor the code of a server.
    """
    assert not {"numpy", "pandas"} & _imported_with("kvstore.server.__main__")
    heavy = {"numpy", "pandas", *DRAWING}
    assert not heavy & _imported_with("kvstore.course.lessons.lesson_15.judge.__main__")
    without = ("sqlite3", "grpc_health.v1", "grpc_reflection.v1alpha", "kvstore.server.service")
    assert "kvstore.course.views" in _imported_with("kvstore.course.views", without)


def _imported_with(module: str, without: Sequence[str] = ()) -> set[str]:
    """All modules that a fresh interpreter holds once this one is imported.

    An import of one of `without` fails there, as if it were not installed.
    """
    absent = f"sys.modules.update(dict.fromkeys({without!r}))"
    process = subprocess.run(
        [sys.executable, "-c", f"import sys; {absent}; import {module}; print(*sys.modules)"],
        cwd=PACKAGE.parent,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return set(process.stdout.split())
