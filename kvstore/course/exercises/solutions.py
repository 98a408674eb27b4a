"""The course's version of an answer as text that runs when it is pasted into an empty notebook."""

import ast
from collections.abc import Iterator
from typing import Final

from kvstore.course import my_code
from kvstore.course.exercises import Exercise

SHOWN: Final = True
"""Whether this edition shows solutions; `tools/edition.py` writes one that does not."""


class NoSolutions(LookupError):
    """Raised in an edition of the course that shows no solutions."""


def text_of(exercise: Exercise) -> str:
    """Return the course's version with the imports and definitions of its file that it needs.

    Raise NoSolutions in the edition for students.
    """
    if not SHOWN:
        raise NoSolutions("This edition has no solutions: your teacher has them.")
    module, _, name = exercise.kept.partition(".")
    text = my_code.starters()[f"{module}.py"]
    nodes = ast.parse(text).body
    bound = {each: node for node in nodes for each in _names_bound_by(node)}
    needed: set[ast.stmt] = set()

    def need(name: str) -> None:
        node = bound.get(name)
        if node is None or node in needed:
            return
        needed.add(node)
        for each in ast.walk(node):
            if isinstance(each, ast.Name):
                need(each.id)

    need(name)
    sources = [ast.get_source_segment(text, node) or "" for node in nodes if node in needed]
    imports = [each for each in sources if each.startswith(("import ", "from "))]
    return "\n\n\n".join(["\n".join(imports), *sources[len(imports) :]]).lstrip()


def _names_bound_by(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(node, ast.Assign):
        yield from (each.id for each in node.targets if isinstance(each, ast.Name))
