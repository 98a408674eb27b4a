"""Print what the environment of this interpreter lacks for the course, one problem a line.

`course.py` runs this with the Python of an environment that it did not make, and with the name of
the extra that a command needs. No output means that the environment can be used. Versions come from
the installed metadata, so that no package has to be imported and the check takes a fraction of a
second.
"""

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

ROOT = Path(__file__).resolve().parent.parent


def missing(extra: str) -> Iterator[str]:
    """Yield every requirement of pyproject.toml, and of this extra, that is not met here."""
    if sys.version_info < (3, 11):  # noqa: UP036 - it is the active environment that may be old
        yield f"Python 3.11 or newer (it has {sys.version.split()[0]})"
        return
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    yield from unmet([*project["dependencies"], *of_extra(project, extra)])
    if not installed_from_here(project["name"]):
        yield f"this checkout is not installed in it (pip install -e {ROOT})"


def of_extra(project: dict[str, Any], extra: str) -> Iterator[str]:
    """Yield what an extra names, and what the extras name that it takes in: `name[course]`."""
    for text in project["optional-dependencies"][extra]:
        others = re.fullmatch(rf"{project['name']}\[(.*)\]", text)
        if others is None:
            yield text
            continue
        for other in others[1].split(","):
            yield from of_extra(project, other)


def unmet(requirements: list[str]) -> Iterator[str]:
    """Yield the requirements that are not installed or too old."""
    try:
        from packaging.requirements import Requirement
    except (
        ImportError
    ):  # JupyterLab depends on it: without it, no package of the course is installed
        yield "the packages of the course are not installed in it"
        return
    for requirement in map(Requirement, requirements):
        if requirement.marker and not requirement.marker.evaluate():
            continue
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            yield f"{requirement.name} is not installed"
            continue
        if not requirement.specifier.contains(installed, prereleases=True):
            yield f"{requirement.name} is {installed}, needed is {requirement.specifier}"


def installed_from_here(name: str) -> bool:
    """Return whether the course is installed from this checkout in editable mode."""
    try:
        origin = json.loads(distribution(name).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return False
    place = Path(url2pathname(urlsplit(origin.get("url", "")).path))
    return bool(origin.get("dir_info", {}).get("editable")) and place.resolve() == ROOT


if __name__ == "__main__":
    for lacking in missing(sys.argv[1]):
        print(lacking)
