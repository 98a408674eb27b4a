"""Lessons whose exercises are solved: by the course's version of the code that a learner keeps."""

import ast
import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path

from kvstore.course import my_code
from kvstore.course.exercises import find

KEPT = {
    "01_blocking": "your one_by_one",
    "02_futures": "your send_all",
    "03_bounded": "your bounded",
    "04_server": "40 adds were acknowledged, and the store has 40",
    "05_pipelined": "your window",
    "07_threads_and_coroutines": "Kept in my_code/front.py",
    "08_why_80_percent_busy_is_slow": "your open_loop",
    "11_tails": "Kept in my_code/clients.py",
    "12_beyond_one_machine": "Kept in my_code/balance.py",
    "13_which_server": "Kept in my_code/balance.py",
    "09_overload": "Kept in my_code/limits.py",
    "10_retries": "Kept in my_code/limits.py",
    "16_your_own_service": "Kept in my_code/laws.py",
}
"""What the outputs of a lesson say of the learner's code, by lesson."""


@functools.cache
def course_versions() -> dict[str, tuple[str, str]]:
    """Return the definitions of `my_code/`, such as `store.Store`, after the imports they use.

    A docstring of its own tells it from the course's version, which a run would name as such.
    """
    versions = {}
    for file, text in my_code.starters().items():
        if file in my_code.STUBS:
            continue
        nodes = ast.parse(text).body
        above = [
            each for each in nodes if isinstance(each, ast.Import | ast.ImportFrom | ast.Assign)
        ]
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                setup = [ast.unparse(each) for each in above if names & bound_by(each)]
                written = ast.get_source_segment(text, node).replace('"""', '"""By a learner: ', 1)
                versions[f"{Path(file).stem}.{node.name}"] = "\n".join(setup), written
    return versions


def bound_by(statement: ast.Import | ast.ImportFrom | ast.Assign) -> set[str]:
    """Return the names that the statement makes."""
    if isinstance(statement, ast.Assign):
        return {each.id for each in statement.targets if isinstance(each, ast.Name)}
    return {(each.asname or each.name).partition(".")[0] for each in statement.names}


def solved(path: Path, folder: Path) -> Path:
    """Write a copy of the lesson in which the course's versions stand in place of the stubs."""
    notebook = json.loads(path.read_text("utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    sources = {cell["id"]: "".join(cell["source"]) for cell in code}
    checks = re.findall(r'check\("([\w.]+)", (\w+)\)', "\n".join(sources.values()))
    exercises = {name: exercise for exercise, name in checks}
    for cell in code:
        cell["source"] = with_solutions(sources[cell["id"]], exercises)
    copy = folder / path.name
    copy.write_text(json.dumps(notebook), "utf-8")
    return copy


STUB = re.compile(r"^(?:async )?(?:def|class) (\w+)\(.*\n(?:(?:[ \t].*)?\n?)*", re.MULTILINE)


def with_solutions(source: str, exercises: Mapping[str, str]) -> str:
    """Replace what is still to be written in a cell; `exercises` has the checked names."""
    setups = []

    def solution(stub: re.Match[str]) -> str:
        name = stub[1]
        if "NOT_ATTEMPTED" not in stub[0] and name not in exercises:
            return stub[0]
        if name in exercises:
            place = find(exercises[name]).kept
        else:
            place = next(each for each in course_versions() if each.endswith(f".{name}"))
        setup, definition = course_versions()[place]
        setups.append(setup)
        return f"{definition}\n\n\n"

    solved_source = STUB.sub(solution, source)
    return "\n".join([*dict.fromkeys(setups), solved_source])
