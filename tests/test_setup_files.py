"""What must agree: requirements in three files, commands in the pages, CI and course.py."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import course
from tools import lesson_size, run_notebooks

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIRED = [
    Requirement(text)
    for text in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
]
CONDA_NAMES = {"matplotlib": "matplotlib-base", "playwright": "playwright-python"}
"""Where conda-forge has another name; matplotlib-base leaves out the desktop windows."""


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def lines(name: str) -> list[str]:
    """The lines of a file that say something."""
    return [line for line in read(name).splitlines() if line and not line.startswith("#")]


# ---- requirements --------------------------------------------------------------------------


@pytest.fixture
def conda() -> dict:
    return yaml.safe_load(read("environment.yml"))


def test_conda_gets_the_same_names_and_floors_from_conda_forge_alone(conda):
    """The tests cannot run conda, so the file must at least agree with pyproject.toml."""
    listed = {entry for entry in conda["dependencies"] if isinstance(entry, str)}
    wanted = {f"{CONDA_NAMES.get(each.name, each.name)}{each.specifier}" for each in REQUIRED}

    assert listed - {"pip"} == wanted | {f"python{PROJECT['requires-python']}"}
    assert conda["channels"] == ["conda-forge"]
    assert conda["name"] == PROJECT["name"]
    assert conda["dependencies"][-1] == {"pip": ["-e ."]}


def pins() -> dict[str, Requirement]:
    """The tested versions, by name."""
    pinned = map(Requirement, lines("constraints.txt"))
    return {canonicalize_name(each.name): each for each in pinned}


def test_the_course_is_installed_with_what_a_fleet_needs():
    extras = PROJECT["optional-dependencies"]

    assert set(extras["fleet"]) <= set(extras["dev"])


def test_each_tested_version_is_held_and_meets_the_floor():
    tested = {name: {each.version for each in pin.specifier} for name, pin in pins().items()}
    missed = [
        f"{required}: {versions}"
        for required in REQUIRED
        if len(versions := tested.get(canonicalize_name(required.name), set())) != 1
        or not required.specifier.contains(*versions)
    ]

    assert missed == []


def test_constraints_are_exact_versions_sorted_and_nothing_else():
    """No address of an index, no option: the file has to work wherever it is read."""
    found = lines("constraints.txt")
    names = [canonicalize_name(Requirement(line).name) for line in found]

    assert [x for x in found if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", x)] == []
    assert names == sorted(set(names))


def installed(required: Requirement) -> str:
    try:
        return version(required.name)
    except PackageNotFoundError:
        return "0: python3 course.py test installs it"


def test_what_runs_here_meets_the_floors():
    needed = [each for each in REQUIRED if not each.marker or each.marker.evaluate()]
    found = {str(each): installed(each).split(":") for each in needed}
    missed = {
        str(each): found[str(each)]
        for each in needed
        if not each.specifier.contains(found[str(each)][0], prereleases=True)
    }

    assert missed == {}


def test_the_tested_versions_allow_the_very_first_of_the_oldest_python():
    """Debian 12 has 3.11.2; a package that wants 3.11.5 makes the whole install fail there."""
    oldest = ".".join(map(str, course.OLDEST_PYTHON)) + ".0"
    refusing = [
        f"{each.name} {each.version}"
        for each in distributions()
        if f"{canonicalize_name(each.name)}=={each.version}" in map(canonical, pins().values())
        and oldest not in SpecifierSet(each.metadata.get("Requires-Python") or "")
    ]

    assert refusing == []


def canonical(pin: Requirement) -> str:
    return f"{canonicalize_name(pin.name)}{pin.specifier}"


def test_the_oldest_python_is_the_same_everywhere():
    oldest = ".".join(map(str, course.OLDEST_PYTHON))

    assert PROJECT["requires-python"] == f">={oldest}"
    assert f"Python {oldest} or newer" in course.too_old((3, 8))
    assert f"Python {oldest} or newer" in read("README.md")
    assert course.too_old(course.OLDEST_PYTHON) == ""


# ---- commands ------------------------------------------------------------------------------


def commands_in(name: str) -> list[str]:
    """Every command in the `sh` blocks of a page, and in the first column of its tables."""
    blocks = re.findall(r"^```sh\n(.*?)^```", read(name), flags=re.M | re.S)
    tables = re.findall(r"^\| `(python3 [^`]*)` \|", read(name), flags=re.M)
    return [*(line for block in blocks for line in block.splitlines()), *tables]


COURSE_COMMANDS = [
    command
    for name in ("README.md", "CONTRIBUTING.md", "docs/teaching.md")
    for command in commands_in(name)
    if "course.py" in command
]


def test_readme_leads_with_the_two_commands():
    """The promise to a stranger: one command opens the course, one tests it."""
    assert commands_in("README.md")[:2] == ["python3 course.py lab", "python3 course.py test"]


def test_every_command_that_is_documented_is_understood(monkeypatch, tmp_path, capsys):
    """Typed as it stands, down to the notebooks it names; only the last step is left out."""
    handed: list[object] = []
    monkeypatch.setattr(course, "MINE", tmp_path / "my_lessons")
    monkeypatch.setattr(course, "course_python", lambda: Path(sys.executable))
    monkeypatch.setattr(course, "what_is_missing", lambda _python, *_extras: [])
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
    assert {command.split()[2] for command in COURSE_COMMANDS} == set(course.COMMANDS)


def test_ci_calls_the_commands_of_the_readme_and_no_others():
    calls = re.findall(r"^python3 course\.py .*$", read(".ci/run"), flags=re.M)

    assert [call.split(" ||")[0] for call in calls] == [
        "python3 course.py check",
        "python3 course.py site --help >/dev/null",  # installs what the tests of the site need
        commands_in("README.md")[1],
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps no such bit")
def test_ci_can_be_run_as_it_is():
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    assert read(".ci/run").startswith("#!/usr/bin/env bash\n")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_ci_goes_on_without_another_python(tmp_path):
    """pyenv puts a `python3.13` on PATH that only fails when this version is not chosen."""
    (tmp_path / "python3.99").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "python3.99").chmod(0o755)
    part = (
        re.search(r"^note\(\).*?\n", read(".ci/run"), re.M),
        re.search(r"^others=.*?(?=^# ----)", read(".ci/run"), re.M | re.S),
    )
    script = "set -euo pipefail\n" + "".join(found.group() for found in part if found)
    for other in ("3.98", "3.99"):  # none, and one that fails
        ended = subprocess.run(
            ["bash", "-c", f"{script}fast_tests_on {other}"], capture_output=True, text=True,
            timeout=60, env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        )  # fmt: skip

        assert (0, "") == (ended.returncode, ended.stderr)
        assert f"no Python {other} here" in ended.stdout


def minutes_of(notebook: Path) -> int:
    """What the table of sections at the start of a lesson adds up to, or the lesson says."""
    if notebook.stem not in lesson_size.FIRST_EDITION:
        return lesson_size.Lesson(notebook).stated_minutes
    cells = nbformat.read(notebook, as_version=4).cells
    table = next(
        cell.source for cell in cells if re.search(r"^\| (section|part) ", cell.source, re.M)
    )
    return sum(map(int, re.findall(r"^\|.*\| *(\d+) *\|$", table, flags=re.M)))


def test_the_page_for_teachers_has_the_minutes_of_each_lesson():
    here = {each.stem: minutes_of(each) for each in sorted((ROOT / "notebooks").glob("*.ipynb"))}
    page = read("docs/teaching.md")
    listed = {name: int(n) for name, n in re.findall(r"^\| `(\d\d_\w+)` \| (\d+) \|", page, re.M)}

    assert listed == here, f"the rows of docs/teaching.md begin with {here}"
    by_number = {name[:2]: minutes for name, minutes in here.items()}
    plans = re.findall(r"^\| [^|]+ \| (\d\d(?:, \d\d)+) \| (\d+) \|$", page, re.M)
    assert len(plans) >= 3
    for lessons, minutes in plans:
        assert int(minutes) == sum(by_number[lesson] for lesson in lessons.split(", "))


def needs_of(notebook: Path) -> list[str]:
    """The lessons that a lesson names under "You need"."""
    cells = nbformat.read(notebook, as_version=4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    text = re.sub(r"\]\([^)]*\)|This lesson takes about \d+ minutes", "", text)
    text = re.sub(r"This lesson takes \d+ minutes", "", text)
    need = r"(?:\*\*You need\*\*|^You need).*?(?=\n\n|\Z)"
    (paragraph,) = re.findall(need, text, flags=re.S | re.M)
    return sorted(set(re.findall(r"\b(\d\d)\b", paragraph)))


def test_the_page_for_teachers_takes_lessons_in_an_order_they_allow():
    needs = {
        each.stem: needs_of(each)
        for each in sorted((ROOT / "notebooks").glob("*.ipynb"))
        if not each.stem.startswith("12")  # it needs all
    }
    page = read("docs/teaching.md")
    rows = re.findall(r"^\| `(\d\d_\w+)` \| \d+ \| ([\d, ]*)\|", page, flags=re.M)
    plans = re.findall(r"^\| [^|]+ \| (\d\d(?:, \d\d)+) \| \d+ \|$", page, re.M)
    taken: list[str] = []
    for lesson in ", ".join(plans[1:]).split(", "):  # the first stands for itself
        taken.append(lesson)
        missing = [needs[name] for name in needs if name.startswith(lesson)]
        assert set().union(*missing) <= set(taken), f"{lesson} needs {missing}, after {taken}"

    assert {name: re.findall(r"\d\d", said) for name, said in rows} == needs


def test_the_readme_lists_the_lessons_that_are_there():
    assert (ROOT / "notebooks" / course.FIRST_PAGE).is_file()
    listed = re.findall(r"^\| `(\d\d_\w+)` \|", read("README.md"), flags=re.M)

    assert listed == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def test_links_to_files_lead_somewhere():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    targets = [
        (page, target)
        for page in pages
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    ]

    assert len(targets) > 10
    assert [f"{page}: {to}" for page, to in targets if not (page.parent / to).exists()] == []


def test_the_files_and_names_that_contributing_lists_exist():
    """In the rows of "Where things go"; `NAMES` of a row stand in one of its files."""
    rows = re.findall(r"^\| an? .*$", read("CONTRIBUTING.md"), re.M)
    missing = []
    for row in rows:
        files = re.findall(r"`((?:kvstore|benchmarks|tests|notebooks|proto)/[\w/.]*)`", row)
        missing += [name for name in files if not (ROOT / name).exists()]
        text = "".join(read(name) for name in files if name.endswith(".py"))
        names = re.findall(r"`(_?[A-Z][A-Za-z_]+)`", row) if text else []
        missing += [f"{name} in {files}" for name in names if not re.search(rf"\b{name}\b", text)]

    assert len(rows) >= 12
    assert missing == []
