"""The shape of the package: imports point one way, files stay small, generated code stays apart."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kvstore

PACKAGE = Path(kvstore.__file__).parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "v1" not in path.parts)

BESIDE = {path.stem for path in PACKAGE.glob("[a-z]*.py")}
"""Modules next to the rooms: anybody may use them, and they use one another at most."""

MAY_USE = {
    # Each room, and the rooms and modules of ours that it may import besides itself.
    "v1": set[str](),
    "model": set[str](),
    "measure": {"v1", *BESIDE},
    **dict.fromkeys(sorted(BESIDE), BESIDE),
    "client": {"v1", "measure", *BESIDE},
    "server": {"v1", *BESIDE},
}
FORBIDDEN = {
    # What a room must not even have heard of.
    "model": {"grpc", "pandas", "psutil"},
    "measure": {"grpc"},
}


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


@pytest.mark.parametrize("room", MAY_USE)
def test_imports_point_one_way(room):
    """A model that could send calls would soon be fitted to them."""
    for path in MODULES:
        if room_of(path) == room:
            assert rooms_used(path) <= MAY_USE[room], path


def test_every_room_has_its_rule():
    assert {*MAY_USE, "__init__", "course"} == {room_of(path) for path in MODULES} | {"v1"}


def test_only_the_course_knows_the_course():
    for path in MODULES:
        assert room_of(path) == "course" or "course" not in rooms_used(path), path


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_that_makes_no_calls_cannot(room):
    for path in MODULES:
        if room_of(path) == room:
            packages = {name.split(".")[0] for name in imports_of(path)}
            assert not packages & FORBIDDEN[room], path


def test_measurement_and_client_do_not_draw():
    for path in MODULES:
        if room_of(path) in ("measure", "client", "server", "model"):
            packages = {name.split(".")[0] for name in imports_of(path)}
            assert not packages & {"matplotlib", "ipywidgets", "IPython", "nbformat"}, path


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_is_small_enough_to_be_read(path):
    """At 250 lines, look for the second idea in it."""
    lines = path.read_text("utf-8").count("\n")

    assert lines < 300


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_says_what_it_holds(path):
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))


def test_no_two_files_of_tests_have_one_name():
    """The folders of the tests are no packages: the second file of a name is not run at all."""
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]

    assert sorted(set(names)) == sorted(names)


def test_every_room_has_a_front_door_with_a_map():
    for room in ("client", "server", "measure", "model", "course"):
        door = (PACKAGE / room / "__init__.py").read_text("utf-8")

        assert "__all__" in door
        assert len((ast.get_docstring(ast.parse(door)) or "").splitlines()) > 3


@pytest.mark.slow
def test_the_door_of_the_model_is_light():
    """Tens of megabytes in every kernel would shift the memory that lesson 02 predicts."""
    assert "scipy" not in _imported_with("kvstore.model")


@pytest.mark.slow
def test_a_server_starts_without_numpy():
    """It would take longer to start than all the rest, and threads of its own busy the cores."""
    assert not {"numpy", "pandas"} & _imported_with("kvstore.server.__main__")


def _imported_with(module):
    """All modules that a fresh interpreter holds once this one is imported."""
    look = f"import sys, {module}; print(*sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", look],
        cwd=PACKAGE.parent,
        check=True,
        capture_output=True,
        text=True,
    )
    return set(told.stdout.split())


def test_the_check_sees_an_import_wherever_it_hides(tmp_path, monkeypatch):
    """The rule is only as good as the eye that looks for breaches."""
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    (tmp_path / "model").mkdir()
    hiding = tmp_path / "model" / "laws.py"
    for source in (
        "from kvstore.client import load",
        "import kvstore.client.load as quietly",
        "from kvstore import client",
        "def later():\n    from kvstore.client.load import run",
    ):
        hiding.write_text(source)

        assert {"client"} == rooms_used(hiding)
