"""Fill a folder with what laptops of a class need: `python3 course.py wheelhouse FOLDER`.

The folder holds the packages of the lessons for Linux, Windows and macOS and for each Python that
was tested. On a laptop, `python3 course.py lab --wheelhouse FOLDER` installs from it, without the
internet. Given again, the command fetches only what is missing.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from tools.files import CannotGoOn, say

ROOT: Final = Path(__file__).resolve().parent.parent
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
BUILD: Final = "hatchling\neditables\nuv\n"
"""What installs the course itself, and what installs quickly."""


class System(NamedTuple):
    """A kind of laptop: its name for uv, which knows what it needs, and its tags for pip."""

    platform: str
    tags: tuple[str, ...]


SYSTEMS: Final = {
    "linux": System(
        "x86_64-manylinux_2_28",
        (*(f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)), "manylinux2014_x86_64"),
    ),
    "windows": System("x86_64-pc-windows-msvc", ("win_amd64",)),
    "macos": System("aarch64-apple-darwin", ("macosx_14_0_arm64",)),
    "macos-intel": System("x86_64-apple-darwin", ("macosx_14_0_x86_64",)),
}


def needed(uv: Sequence[str], system: System, python: str) -> list[str]:
    """Return what a laptop needs, as `name==version`, in the versions that were tested."""
    with tempfile.TemporaryDirectory() as folder:
        build = Path(folder, "build.in")
        build.write_text(BUILD)
        command = [*uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
        command += ["--python-platform", system.platform, "--python-version", python]
        command += ["-c", "constraints.txt", "--extra", "course", "pyproject.toml", str(build)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise CannotGoOn(f"uv could not resolve the packages: {done.stderr.strip()[-400:]}")
    return done.stdout.split()


def missing(wanted: Sequence[str], folder: Path) -> list[str]:
    """Return those without a wheel for every system in the folder."""
    have = {tuple(each.name.split("-")[:2]) for each in folder.glob("*-none-any.whl")}
    return [each for each in wanted if tuple(each.replace("-", "_").split("==")) not in have]


def fetch(
    uv: Sequence[str], wanted: Sequence[str], system: System, python: str, folder: Path
) -> str:
    """Download wheels into the folder; return what went wrong, empty if nothing did."""
    command = [*uv, "tool", "run", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    command += ["--only-binary=:all:", "--python-version", python, "--implementation", "cp"]
    command += ["--disable-pip-version-check", "--no-input"]
    for abi in (f"cp{python.replace('.', '')}", "abi3", "none"):
        command += ["--abi", abi]
    for tag in system.tags:
        command += ["--platform", tag]
    done = subprocess.run([*command, *wanted], capture_output=True, text=True)
    return done.stderr.strip()[-400:] if done.returncode else ""


def main(arguments: Sequence[str]) -> int:
    """Fill the folder; return 1 if something could not be fetched."""
    parser = argparse.ArgumentParser(prog="course.py wheelhouse", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", nargs="+", choices=PYTHONS, default=PYTHONS)
    parser.add_argument("--system", nargs="+", choices=SYSTEMS, default=tuple(SYSTEMS))
    parser.add_argument("--uv", default="uv", help=argparse.SUPPRESS)  # course.py has found it
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name, python in product(options.system, options.python):
        try:
            wanted = missing(needed([options.uv], SYSTEMS[name], python), folder)
            problem = fetch([options.uv], wanted, SYSTEMS[name], python, folder) if wanted else ""
        except CannotGoOn as error:
            problem = str(error)
        failed += bool(problem)
        say(f"{name}, Python {python}: {problem or 'complete'}")
    wheels = list(folder.glob("*.whl"))
    megabytes = sum(each.stat().st_size for each in wheels) / 1e6
    say(f"{len(wheels)} packages, {megabytes:.0f} MB in {folder}")
    say("copy it and the course to a stick; there: python3 course.py lab --wheelhouse FOLDER")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
