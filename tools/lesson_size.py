"""Measure each lesson against the limits of its size, and compute how long it takes.

    python tools/lesson_size.py [names]     a table; what exceeds its limit is marked with !

A cell is visible unless its source is hidden. A cell with the tag `seconds-30` takes 30 seconds to
run in class; without one, the lengths that it sets with `mode.seconds(normal=...)` or as
`duration_s=...` are added up.
"""

import argparse
import ast
import json
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent.parent / "notebooks"
if __name__ == "__main__":  # run as a file, in a checkout that need not be installed
    sys.path.insert(0, str(FOLDER.parent))

LIMITS: Final = {
    "visible cells": 25,
    "median lines": 4,
    "longest cell": 12,
    "words": 1500,
    "long sentences": 0,
    "predictions": 4,
    "figures": 4,
    "exercises": 2,
    "helpers": 15,
}
"""No lesson may have more."""
FURTHER_LIMITS: Final = {**LIMITS, "minutes": 20}
LONGEST_SENTENCE: Final = 30
"""Words."""

WORDS_PER_MINUTE: Final = 150
MINUTES: Final = {
    "visible cells": 0.5,
    "predictions": 1.75,  # with the discussion of the result
    "exercises": 5.0,
    "quiz questions": 0.7,
}


class Lesson:
    """One notebook, measured."""

    def __init__(self, path: Path) -> None:
        self.path = path
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        self.text = "\n\n".join(
            "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"
        )
        self.code = [_CodeCell(cell) for cell in cells if cell["cell_type"] == "code"]

    @property
    def limits(self) -> dict[str, int]:
        """The limits that hold for this lesson."""
        return FURTHER_LIMITS if self.path.parent.name == "further" else LIMITS

    @cached_property
    def measured(self) -> dict[str, float]:
        """Every quantity that has a limit, and those that only take time."""
        visible = [cell for cell in self.code if cell.is_visible]
        lines = [cell.lines for cell in visible] or [0]
        ours = {name for cell in self.code for name in cell.ours}
        helpers = {name for cell in visible for name in cell.called if name.split(".")[0] in ours}
        found = {
            "visible cells": len(visible),
            "median lines": statistics.median(lines),
            "longest cell": max(lines),
            "words": sum(map(_count, self.sentences)),
            "long sentences": len(self.long_sentences),
            "predictions": len(self.identifiers("predict")),
            "figures": sum(_is_figure(name) for cell in self.code for name in cell.called),
            "exercises": len(self.identifiers("check")),
            "helpers": len(helpers),
            "quiz questions": self._quiz_questions(),
            "run (s)": sum(cell.run_s for cell in self.code),
        }
        minutes = found["words"] / WORDS_PER_MINUTE + found["run (s)"] / 60
        minutes += sum(each * found[name] for name, each in MINUTES.items())
        return {**found, "minutes": round(minutes)}

    @property
    def exceeding(self) -> list[str]:
        """What is above its limit, in words."""
        return [
            f"{name}: {self.measured[name]:g}, at most {most}"
            for name, most in self.limits.items()
            if self.measured[name] > most
        ]

    @property
    def stated_minutes(self) -> int:
        """The minutes that the lesson itself states; 0 if it states none."""
        said = re.search(r"takes\s+(?:about\s+)?\**(\d+)\s+minutes", self.text)
        return int(said.group(1)) if said else 0

    @cached_property
    def sentences(self) -> list[str]:
        """The sentences of the text, without code blocks, addresses, markup and formulas."""
        text = re.sub(r"^```.*?^```|<!--.*?-->", "", self.text, flags=re.M | re.S)
        text = re.sub(r"\$\$.*?\$\$|\$[^$\n]+\$", "X", text, flags=re.S)
        text = re.sub(r"`[^`\n]+`", "code", text)
        text = re.sub(r"\]\([^)]*\)|https?://\S+|<[^>]+>|^\|[-:| ]+\|$", "", text, flags=re.M)
        # A heading, a row of a table, an item of a list: each ends where the next one begins.
        blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#>]|\d+\.)\s?)|\|", text)
        return [
            sentence
            for block in blocks
            for sentence in re.split(r"(?<=[.!?:])[*_\")]*\s+", " ".join(block.split()))
            if _count(sentence)
        ]

    @property
    def long_sentences(self) -> list[str]:
        """The sentences with too many words."""
        return [each for each in self.sentences if _count(each) > LONGEST_SENTENCE]

    def identifiers(self, function: str) -> set[str]:
        """The ids with which a function of the course is called, such as `predict("03.wait")`."""
        return {each for cell in self.code for each in cell.first_texts(function)}

    def _quiz_questions(self) -> int:
        from kvstore.course import questions

        return sum(
            len(questions.quiz_of(each)) if re.fullmatch(r"\d\d", each) else 1
            for each in self.identifiers("quiz")
        )


class _CodeCell:
    """One code cell: what it calls, and how long it runs."""

    def __init__(self, cell: dict[str, Any]) -> None:
        metadata = cell["metadata"]
        self.tags: list[str] = metadata.get("tags", [])
        self.is_visible = not metadata.get("jupyter", {}).get("source_hidden", False)
        source = "".join(cell["source"])
        self.lines = sum(bool(line.strip()) for line in source.splitlines())
        python = "\n".join(line for line in source.splitlines() if line[:1] not in "%!" or not line)
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self.tree = compile(python, "cell", "exec", flags)

    @property
    def calls(self) -> Iterator[ast.Call]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))

    @property
    def called(self) -> list[str]:
        """The functions that it calls, with their dots: `live.run`."""
        return [name for call in self.calls if (name := _dotted(call.func))]

    @property
    def ours(self) -> set[str]:
        """The names that it imports from the course, apart from gRPC's generated code."""
        return {
            (alias.asname or alias.name).split(".")[0]
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom | ast.Import)
            for alias in node.names
            if f"{getattr(node, 'module', '')}.{alias.name}".lstrip(".").startswith("kvstore.")
            and not f"{getattr(node, 'module', '')}.".startswith("kvstore.v1.")
        }

    def first_texts(self, function: str) -> Iterator[str]:
        for call in self.calls:
            if _dotted(call.func).split(".")[-1] == function and call.args:
                first = call.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield first.value

    @property
    def run_s(self) -> float:
        """How long its runs take in class, in seconds."""
        if marked := [tag.removeprefix("seconds-") for tag in self.tags if "seconds-" in tag]:
            return float(marked[0])
        return sum(
            node.value
            for call in self.calls
            for word in call.keywords
            if (word.arg == "normal" and _dotted(call.func).endswith("seconds"))
            or word.arg == "duration_s"
            for node in [word.value]
            if isinstance(node, ast.Constant) and isinstance(node.value, int | float)
        )


def _dotted(function: ast.expr) -> str:
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute) and (start := _dotted(function.value)):
        return f"{start}.{function.attr}"
    return ""


def _is_figure(name: str) -> bool:
    return re.match(r"(plot|draw)_(?!stations)", name.split(".")[-1]) is not None


def _count(text: str) -> int:
    return len(re.findall(r"[^\W_]+(?:[-'\u2019.,/][^\W_]+)*", text))


def lessons(names: Sequence[str] = ()) -> list[Lesson]:
    """The lessons whose names begin with one of these, or all: core ones, then further ones."""
    paths = [*sorted(FOLDER.glob("*.ipynb")), *sorted((FOLDER / "further").glob("*.ipynb"))]
    return [
        Lesson(path) for path in paths if not names or any(path.stem.startswith(n) for n in names)
    ]


def table(measured: Sequence[Lesson]) -> str:
    """One column for each lesson, one row for each quantity, and what is too long below."""
    rows = [["", "at most", *(lesson.path.stem[:14] for lesson in measured)]]
    for name in measured[0].measured if measured else ():
        row = [name, str(LIMITS.get(name, ""))]
        for lesson in measured:
            value, most = lesson.measured[name], lesson.limits.get(name, float("inf"))
            row.append(f"{value:g}" + ("!" if value > most else " "))
        rows.append(row)
    rows.append(["minutes stated", "", *(f"{lesson.stated_minutes} " for lesson in measured)])
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = [
        "  ".join(
            text.rjust(width) if place else text.ljust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    for lesson in measured:
        lines += [f"{lesson.path.stem}: long: {each}" for each in lesson.long_sentences]
    core = [each for each in measured if each.path.parent == FOLDER and each.path.stem < "08"]
    lines.append(f"core lessons 00 to 07: {sum(e.measured['minutes'] for e in core):g} minutes")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Print the table; the exit status is 1 when a lesson exceeds a limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="such as 03 (default: all)")
    found = lessons(parser.parse_args(arguments).names)
    print(table(found))
    return int(any(e.exceeding for e in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
