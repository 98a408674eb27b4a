"""The reference of an exercise as text that runs when it is pasted into an empty notebook."""

import ast
import inspect
import sys
from collections.abc import Iterator
from typing import Any

from kvstore.course.exercises import Exercise


def text_of(exercise: Exercise) -> str:
    """Return the imports and definitions that the reference needs, and its own, unannotated.

    Raise TypeError where the source is not there: an edition for students has no solutions.
    """
    if not callable(exercise.reference):
        return repr(exercise.reference)
    try:
        return _Text(inspect.unwrap(exercise.reference)).whole
    except OSError as error:
        raise TypeError(f"there is no source of the reference of {exercise.id}") from error


class _Text:
    """The text of a function or class and of what it needs from its module."""

    def __init__(self, thing: Any) -> None:
        self._source = inspect.getsource(sys.modules[thing.__module__])
        self._bound = dict(_bound(ast.parse(self._source)))
        self._imports: list[str] = []
        self._definitions: list[str] = []
        self._taken: set[str] = set()
        if thing.__name__ not in self._bound:
            raise TypeError(f"{thing!r} is no definition of its module")
        self._take(thing.__name__)

    @property
    def whole(self) -> str:
        """Return all of it."""
        imports = "\n".join(sorted(self._imports))
        return "\n\n\n".join(filter(None, [imports, *self._definitions]))

    def _take(self, name: str) -> None:
        if name in self._taken or name not in self._bound:
            return
        self._taken.add(name)
        node = self._bound[name]
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._imports.append(ast.unparse(node))
            return
        text = unannotated(_lines_of(self._source, node))
        for each in ast.walk(ast.parse(text)):
            if isinstance(each, ast.Name):
                self._take(each.id)
        self._definitions.append(text)


def _bound(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the names of a module and what binds each; an import of one name for each."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0], ast.Import([alias])
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                one = ast.ImportFrom(node.module, [alias], node.level)
                yield alias.asname or alias.name, one
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for each in ast.walk(target):
                    if isinstance(each, ast.Name):
                        yield each.id, node


def _lines_of(source: str, node: ast.stmt) -> str:
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])


def unannotated(source: str) -> str:
    """Return the source of definitions without annotations and comments for type checkers."""
    lines = source.encode().split(b"\n")
    for first, last in sorted(_annotations(ast.parse(source), lines), reverse=True):
        (row, start), (last_row, end) = first, last
        lines[row : last_row + 1] = [lines[row][:start] + lines[last_row][end:]]
    text = b"\n".join(lines).decode()
    return "\n".join(line.partition("  # type: ignore")[0] for line in text.split("\n"))


Place = tuple[int, int]


def _annotations(tree: ast.AST, lines: list[bytes]) -> Iterator[tuple[Place, Place]]:
    """Yield where each annotation begins and ends: row and column in bytes, both from 0."""

    def end_of(node: Any) -> Place:
        return node.end_lineno - 1, node.end_col_offset

    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation:
            start = node.lineno - 1, node.col_offset + len(node.arg.encode())
            row, end = end_of(node.annotation)
            if lines[row][end:].startswith(b" = "):  # a default, which then has no spaces
                yield (row, end + 2), (row, end + 3)
                end += 1
            yield start, (row, end)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns:
            row = node.returns.lineno - 1
            arrow = lines[row].rindex(b"->", 0, node.returns.col_offset)
            yield (row, len(lines[row][:arrow].rstrip())), end_of(node.returns)
        elif isinstance(node, ast.AnnAssign) and node.value:
            yield end_of(node.target), end_of(node.annotation)
