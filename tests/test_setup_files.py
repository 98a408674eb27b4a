"""What must agree: requirements in three files, commands in the pages, CI and course.py."""

import re
import shlex
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import course
from tools import my_lessons, run_notebooks, satisfied

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIRED = [
    *map(Requirement, PROJECT["dependencies"]),
    *map(Requirement, satisfied.of_extra(PROJECT, "dev")),
]
CONDA_NAMES = {"matplotlib": "matplotlib-base", "playwright": "playwright-python"}
"""Where conda-forge has another name; matplotlib-base leaves out the desktop windows."""


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


PINS = {
    canonicalize_name(name): version
    for name, version in re.findall(r"^([\w.-]+)==(.*)$", read("constraints.txt"), re.MULTILINE)
}
"""The tested versions, by name."""


def test_conda_gets_the_same_names_and_floors_from_conda_forge_alone():
    """The tests cannot run conda, so the file must at least agree with pyproject.toml."""
    conda = yaml.safe_load(read("environment.yml"))
    listed = {entry for entry in conda["dependencies"] if isinstance(entry, str)}
    wanted = {f"{CONDA_NAMES.get(each.name, each.name)}{each.specifier}" for each in REQUIRED}

    assert listed - {"pip"} == wanted | {f"python{PROJECT['requires-python']}"}
    assert conda["channels"] == ["conda-forge"]


def test_each_tested_version_is_one_exact_version_that_meets_the_floor():
    """No address of an index, no option: the file has to work wherever it is read."""
    found = [line for line in read("constraints.txt").splitlines() if line and line[0] != "#"]
    assert [x for x in found if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", x)] == []
    assert len(PINS) == len(found)
    missed = [
        str(required)
        for required in REQUIRED
        if not required.specifier.contains(PINS[canonicalize_name(required.name)])
    ]

    assert missed == []


def test_the_tested_versions_allow_the_very_first_of_the_oldest_python():
    """Debian 12 has 3.11.2; a package that wants 3.11.5 makes the whole install fail there."""
    oldest = ".".join(map(str, course.OLDEST_PYTHON)) + ".0"
    refusing = [
        f"{each.name} {each.version}"
        for each in distributions()
        if PINS.get(canonicalize_name(each.name)) == each.version
        and oldest not in SpecifierSet(each.metadata.get("Requires-Python") or "")
    ]

    assert refusing == []


def commands_in(name: str) -> list[str]:
    """Every command in the `sh` blocks of a page, and in the first column of its tables."""
    blocks = re.findall(r"^```sh\n(.*?)^```", read(name), flags=re.M | re.S)
    tables = re.findall(r"^\| `(python3 [^`]*)` \|", read(name), flags=re.M)
    return [*(line for block in blocks for line in block.splitlines()), *tables]


COURSE_COMMANDS = [
    command
    for name in ("README.md", "CONTRIBUTING.md", "docs/commands.md", "docs/teaching.md")
    for command in commands_in(name)
    if "course.py" in command
]


def test_every_command_that_is_documented_is_understood(monkeypatch, tmp_path, capsys):
    """Typed as it stands, down to the notebooks it names; only the last step is left out."""
    handed: list[object] = []
    monkeypatch.setattr(my_lessons, "MINE", tmp_path / "my_lessons")
    monkeypatch.setattr(course, "course_python", lambda _extra="course": Path(sys.executable))
    monkeypatch.setattr(course, "what_is_missing", lambda _python, *_extras: [])
    monkeypatch.setattr(course, "uv_command", lambda: ["uv"])
    monkeypatch.setattr(course, "hand_over", lambda _python, what, _extra=None: handed.append(what))
    monkeypatch.setattr(course.subprocess, "call", lambda what, **_settings: handed.append(what))
    monkeypatch.setenv("COURSE_MODE", "class")  # restored afterwards, whatever main sets
    monkeypatch.setattr(run_notebooks, "run_all", lambda paths, **_: len(paths))

    def understood(command: str) -> bool:
        handed.clear()
        python, program, *arguments = shlex.split(command)
        try:
            status = course.main(arguments)
            notebooks = run_notebooks.main(arguments[1:]) if arguments[0] == "run" else 1
        except SystemExit:
            return False
        done = bool(handed) or (arguments[0] == "fresh" and status == 0)
        return (python, program) == ("python3", "course.py") and done and notebooks >= 1

    assert [command for command in COURSE_COMMANDS if not understood(command)] == []
    assert not understood("python3 course.py lab --no-such-option")
    assert not understood("python3 course.py build slide")


def test_links_to_files_lead_somewhere():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    targets = [
        (page, target)
        for page in pages
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    ]

    assert len(targets) > 10
    assert [f"{page}: {to}" for page, to in targets if not (page.parent / to).exists()] == []
