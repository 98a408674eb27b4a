"""What must agree: requirements in three files, commands in the pages, CI and course.py."""

import re
import shlex
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
from kvstore.course import execute

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


def test_conda_is_asked_for_the_same_names_and_floors(conda):
    """Nobody can solve it here, so at least it may not drift."""
    asked = {entry for entry in conda["dependencies"] if isinstance(entry, str)}

    wanted = {f"{CONDA_NAMES.get(each.name, each.name)}{each.specifier}" for each in REQUIRED}
    assert asked - {"pip"} == wanted | {f"python{PROJECT['requires-python']}"}


def test_conda_uses_only_conda_forge_and_installs_the_checkout(conda):
    assert conda["channels"] == ["conda-forge"]
    assert conda["name"] == PROJECT["name"]
    assert conda["dependencies"][-1] == {"pip": ["-e ."]}


def pins() -> dict[str, Requirement]:
    """The tested versions, by name."""
    pinned = map(Requirement, lines("constraints.txt"))
    return {canonicalize_name(each.name): each for each in pinned}


@pytest.mark.parametrize("required", REQUIRED, ids=str)
def test_the_tested_version_is_held_and_meets_the_floor(required):
    (pin,) = pins()[canonicalize_name(required.name)].specifier

    assert required.specifier.contains(pin.version)


def test_constraints_are_exact_versions_and_nothing_else():
    """No address of an index, no option: the file has to work wherever it is read."""
    for line in lines("constraints.txt"):
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line), line


def test_constraints_are_sorted_and_name_nothing_twice():
    names = [canonicalize_name(Requirement(line).name) for line in lines("constraints.txt")]

    assert names == sorted(set(names))


@pytest.mark.parametrize("required", REQUIRED, ids=str)
def test_what_runs_here_meets_the_floor(required):
    if required.marker and not required.marker.evaluate():
        return
    try:
        found = version(required.name)
    except PackageNotFoundError:
        pytest.fail(f"{required.name} is not installed: python3 course.py test installs it")

    assert required.specifier.contains(found, prereleases=True)


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
    pytest.param(command, id=f"{name}: {command}")
    for name in ("README.md", "CONTRIBUTING.md", "docs/teaching.md")
    for command in commands_in(name)
    if "course.py" in command
]


def test_readme_leads_with_the_two_commands():
    """The promise to a stranger: one command opens the course, one tests it."""
    assert commands_in("README.md")[:2] == ["python3 course.py lab", "python3 course.py test"]


@pytest.mark.parametrize("command", COURSE_COMMANDS)
def test_every_command_that_is_documented_is_understood(command, monkeypatch, capsys):
    """Typed as it stands, down to the notebooks it names; only the last step is left out."""
    handed = []
    monkeypatch.setattr(course, "course_python", lambda: Path(sys.executable))
    monkeypatch.setattr(course, "hand_over", lambda _python, what, _extra=None: handed.append(what))
    monkeypatch.setattr(course.subprocess, "call", lambda what, **_settings: handed.append(what))
    python, program, *arguments = shlex.split(command)

    course.main(arguments)

    assert (python, program) == ("python3", "course.py")
    assert handed
    if arguments[0] == "run":
        monkeypatch.setenv("COURSE_MODE", "class")  # restored afterwards, whatever main sets
        monkeypatch.setattr(execute, "run_all", lambda paths, **_: len(paths))
        assert execute.main(arguments[1:]) >= 1


def test_every_command_is_documented():
    documented = {command.split()[2] for param in COURSE_COMMANDS for command in param.values}

    assert documented == set(course.COMMANDS)


def test_ci_calls_the_commands_of_the_readme_and_no_others():
    calls = re.findall(r"^python3 course\.py .*$", read(".ci/run"), flags=re.M)

    assert [call.split(" ||")[0] for call in calls] == [
        "python3 course.py check",
        commands_in("README.md")[1],
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps no such bit")
def test_ci_can_be_run_as_it_is():
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    assert read(".ci/run").startswith("#!/usr/bin/env bash\n")


def test_the_first_page_is_there():
    assert (ROOT / "notebooks" / course.FIRST_PAGE).is_file()


def minutes_of(notebook: Path) -> int:
    """What the table of sections at the start of a lesson adds up to."""
    cells = nbformat.read(notebook, as_version=4).cells
    table = next(
        cell.source for cell in cells if re.search(r"^\| (section|part) ", cell.source, re.M)
    )
    return sum(map(int, re.findall(r"^\|.*\| *(\d+) *\|$", table, flags=re.M)))


def test_the_page_for_teachers_has_the_minutes_of_each_lesson():
    here = {each.stem: minutes_of(each) for each in sorted((ROOT / "notebooks").glob("*.ipynb"))}
    page = read("docs/teaching.md")
    told = {name: int(n) for name, n in re.findall(r"^\| `(\d\d_\w+)` \| (\d+) \|", page, re.M)}

    assert told == here, f"the rows of docs/teaching.md begin with {here}"
    by_number = {name[:2]: minutes for name, minutes in here.items()}
    plans = re.findall(r"^\| [^|]+ \| (\d\d(?:, \d\d)+) \| (\d+) \|$", page, re.M)
    assert len(plans) >= 3
    for lessons, minutes in plans:
        assert int(minutes) == sum(by_number[lesson] for lesson in lessons.split(", "))


def needs_of(notebook: Path) -> list[str]:
    """The lessons that a lesson names under "You need"."""
    cells = nbformat.read(notebook, as_version=4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    (paragraph,) = re.findall(r"\*\*You need\*\*.*?(?=\n\n|\Z)", text, flags=re.S)
    return sorted(set(re.findall(r"\b(\d\d)\b", paragraph)))


def test_the_page_for_teachers_takes_lessons_in_an_order_they_allow():
    needs = {
        each.stem: needs_of(each)
        for each in sorted((ROOT / "notebooks").glob("*.ipynb"))
        if not each.stem.startswith("10")  # it needs all
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
    listed = re.findall(r"^\| `(\d\d_\w+)` \|", read("README.md"), flags=re.M)

    assert listed == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/teaching.md"]
)
def test_links_to_files_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", read(page))

    assert [target for target in targets if not (ROOT / target).exists()] == []
